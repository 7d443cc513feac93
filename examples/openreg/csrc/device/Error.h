#pragma once

#include "device/Export.h"

// PORTING: errors. Error.cpp asks your SDK for the name and the text of an error code; 0 has to be success.
namespace openreg::device {

// Turns a failed SDK call into the exception that PyTorch's users know. `code` is the SDK's error code (0 is success),
// `call` the text of the call. Throws c10::AcceleratorError (torch.AcceleratorError in Python) whose message holds the
// SDK's name and text of the error, its detail message and the call.
[[noreturn]] BACKEND_API void throwError(int code, const char* call, const char* file, int line, const char* function);

// The same for places that must not throw (destructors, noexcept guard methods): a warning instead of an exception.
BACKEND_API void warnError(int code, const char* call) noexcept;

// The SDK's code for a device index that does not exist, which is found out before the SDK is asked.
BACKEND_API int noSuchDeviceCode() noexcept;

}  // namespace openreg::device

// For an error code that was looked at before: `name` says which call gave it.
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
