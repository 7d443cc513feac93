#include "device/Address.h"

#include <openreg/openreg.h>

#include "device/Error.h"

// PORTING: return false, and delete kernelAddressOffset. The fallback policy is then `cpu`: operators without a kernel run on copies in
// host memory.
namespace openreg::device {

bool hasKernelAddresses() noexcept {
  return true;
}

ptrdiff_t detail::kernelAddressOffset() {
  ptrdiff_t offset = 0;
  DEVICE_CHECK(orGetKernelAddressOffset(&offset));
  return offset;
}

}  // namespace openreg::device
