#pragma once

#include <cstddef>

#include "device/Export.h"

// The memory of the emulated device is mapped twice. `tensor.data_ptr()` is a device address, which faults on the host. A kernel of the
// emulated device runs on the host's processor and accesses the same memory at its kernel address, a constant apart. Other devices have no
// kernel addresses: their kernels use device addresses, and no CPU kernel runs in place.
namespace openreg::device {

// Whether the host's processor can access device memory, at kernel addresses. Must be a constant, because the library calls
// it while it loads. If false, the fallback policy `emulate` raises an error, and PyTorch's CPU kernels run on copies in host
// memory.
BACKEND_API bool hasKernelAddresses() noexcept;

namespace detail {
// Only for a device with kernel addresses.
BACKEND_API ptrdiff_t kernelAddressOffset();
}  // namespace detail

// Does not change while the process runs, and is looked up once. 0 without kernel addresses.
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
