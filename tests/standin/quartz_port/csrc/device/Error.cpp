#include "device/Error.h"

#include <c10/util/Exception.h>

#include "device/Handles.h"

namespace acme::device {
namespace {

const char* nameOf(int code) {
  switch (static_cast<quartz::reason>(code)) {
    case quartz::reason::no_such_board:
      return "no_such_board";
    case quartz::reason::out_of_memory:
      return "out_of_memory";
    case quartz::reason::bad_address:
      return "bad_address";
    case quartz::reason::bad_handle:
      return "bad_handle";
    case quartz::reason::not_timed:
      return "not_timed";
  }
  return "unknown";
}

}  // namespace

std::string describe(const quartz::failure& failure, const char* function) {
  return c10::str("device error ", nameOf(static_cast<int>(failure.why())), ": ", failure.what(), " (in ", function, ")");
}

void throwError(int code, const char* call, const char* file, int line, const char* function) {
  const auto text = c10::str("device error ", nameOf(code), " (in ", call, ")");
  throw c10::AcceleratorError({function, file, static_cast<uint32_t>(line)}, code, text);
}

void warnError(int code, const char* call) noexcept {
  warned([&] { TORCH_WARN("device error ", nameOf(code), " (in ", call, ")"); });
}

int noSuchDeviceCode() noexcept {
  return static_cast<int>(quartz::reason::no_such_board);
}

}  // namespace acme::device
