#include "device/Address.h"

#include <openreg/openreg.h>

#include "device/Error.h"

namespace openreg::device::detail {

ptrdiff_t kernelAddressOffset() {
  ptrdiff_t offset = 0;
  DEVICE_CHECK(orGetKernelAddressOffset(&offset));
  return offset;
}

}  // namespace openreg::device::detail
