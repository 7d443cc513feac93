#pragma once

#include <cstddef>

#include "device/Export.h"

// PORTING: the two views of device memory. `tensor.data_ptr()` holds device addresses, which fault on the host. A kernel
// that the host's processor runs on the emulated device reaches the same memory at kernel addresses, a constant apart.
// Real kernels use device addresses as they are: there hasKernelAddresses is false, and nothing runs in place.
namespace openreg::device {

// Whether the host's processor reaches device memory, at kernel addresses. It is asked while the library loads: a constant.
// If not, the fallback policy `emulate` is refused, and PyTorch's CPU kernels run on copies in host memory.
BACKEND_API bool hasKernelAddresses() noexcept;

namespace detail {
BACKEND_API ptrdiff_t kernelAddressOffset();
}

// Constant for the life of the process; the lookup happens once. Without kernel addresses, both views are one.
inline ptrdiff_t kernelAddressOffset() {
  static const ptrdiff_t offset = hasKernelAddresses() ? detail::kernelAddressOffset() : 0;
  return offset;
}

template <class T>
T* toKernelAddress(T* device_pointer) {
  if (device_pointer == nullptr) {
    return nullptr;
  }
  return reinterpret_cast<T*>(reinterpret_cast<ptrdiff_t>(device_pointer) + kernelAddressOffset());
}

template <class T>
T* toDeviceAddress(T* kernel_pointer) {
  if (kernel_pointer == nullptr) {
    return nullptr;
  }
  return reinterpret_cast<T*>(reinterpret_cast<ptrdiff_t>(kernel_pointer) - kernelAddressOffset());
}

}  // namespace openreg::device
