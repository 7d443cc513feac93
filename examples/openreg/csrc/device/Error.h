#pragma once

#include "device/Export.h"

// Errors of the SDK as exceptions and warnings. The code 0 means success.
namespace openreg::device {

// Throws c10::AcceleratorError (torch.AcceleratorError in Python) for a failed SDK call. `code` is the SDK's error code (0 is
// success), `call` the text of the call. The message has the SDK's name and text of the error, its details, and the call.
[[noreturn]] BACKEND_API void throwError(int code, const char* call, const char* file, int line, const char* function);

// Warns instead of throwing, for functions that must not throw (destructors, noexcept guard methods).
BACKEND_API void warnError(int code, const char* call) noexcept;

// The SDK's code for an invalid device index. The runtime checks the index before it calls the SDK. Never 0. Optional: -1 without a
// definition.
BACKEND_API int noSuchDeviceCode() noexcept;

}  // namespace openreg::device

// For an error code that the caller has already inspected; `name` names the call that returned it.
#define DEVICE_CHECK_CODE(code, name) \
  do { \
    const int device_check_code = static_cast<int>(code); \
    if (device_check_code != 0) [[unlikely]] { \
      ::openreg::device::throwError(device_check_code, name, __FILE__, __LINE__, __func__); \
    } \
  } while (false)

#define DEVICE_CHECK(call) DEVICE_CHECK_CODE(call, #call)

#define DEVICE_WARN(call) \
  do { \
    const int device_check_code = static_cast<int>(call); \
    if (device_check_code != 0) [[unlikely]] { \
      ::openreg::device::warnError(device_check_code, #call); \
    } \
  } while (false)
