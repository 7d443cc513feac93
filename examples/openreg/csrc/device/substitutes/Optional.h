#pragma once

#include <c10/util/Exception.h>

#include "device/Capabilities.h"

// Marks the definition of an optional function of the seam. It is a weak symbol, so a definition of the same function in a file of the port
// takes its place. MSVC has no weak symbols: there, delete those that the port writes.
#if defined(_MSC_VER)
#define BACKEND_OPTIONAL
#else
#define BACKEND_OPTIONAL __attribute__((weak))
#endif

namespace openreg::device {

// What an optional function does that the port has not written. A capability that is declined has another error, which says the reason.
[[noreturn]] inline void refuse(Capability capability, const char* function) {
  requireCapability(capability);
  const auto name = kCapabilities.at(capability.index()).name;
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "`", function, "` is not written yet. Write it in csrc/device, or decline the capability there by notSupported(\"", name,
      "\", \"<the reason>\")");
}

}  // namespace openreg::device
