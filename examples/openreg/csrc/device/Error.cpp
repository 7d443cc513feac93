#include "device/Error.h"

#include <openreg/openreg.h>

#include <c10/util/Exception.h>

namespace openreg::device {
namespace {

// PORTING: use the name and the text that your SDK has for the code. If it keeps the last error of a thread, clear it here.
std::string describe(int code, const char* call) {
  const auto error = static_cast<orError_t>(code);
  const std::string detail = orGetLastErrorMessage();
  orGetLastError();  // reported now: it must not be reported a second time by an unrelated call
  return c10::str(
      "device error ", orGetErrorName(error), ": ", orGetErrorString(error), detail.empty() ? "" : ". ", detail, " (in ", call, ")");
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
    // A Python filter can turn the warning into an exception, which must not leave this function.
  }
}

int noSuchDeviceCode() noexcept {
  return orErrorInvalidDevice;
}

}  // namespace openreg::device
