#include <torch/library.h>

#include <device/Error.h>

// What the macros of csrc/device/Error.h do with the codes that calls of an SDK return.
namespace {

int returnCode(int64_t code) {
  return static_cast<int>(code);
}

}  // namespace

TORCH_LIBRARY(errors, m) {
  m.def("check(int code) -> ()", [](int64_t code) { DEVICE_CHECK(returnCode(code)); });
  m.def("check_code(int code) -> ()", [](int64_t code) { DEVICE_CHECK_CODE(returnCode(code), "the call's own name"); });
  m.def("warn(int code) -> ()", [](int64_t code) { DEVICE_WARN(returnCode(code)); });
}
