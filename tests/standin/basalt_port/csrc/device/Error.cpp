#include "device/Error.h"

#include <c10/util/Exception.h>

namespace acme::device {
namespace {

// Basalt has no texts for its errors, and keeps none.
std::string describe(int code, const char* call) {
  return c10::str("device error ", code, " (in ", call, ")");
}

}  // namespace

void throwError(int code, const char* call, const char* file, int line, const char* function) {
  const auto text = describe(code, call);
  throw c10::AcceleratorError({function, file, static_cast<uint32_t>(line)}, code, text);
}

void warnError(int code, const char* call) noexcept {
  try {
    TORCH_WARN(describe(code, call));
  } catch (...) {
    // A warning that is turned into an error by a Python filter has nowhere to go from here.
  }
}

}  // namespace acme::device
