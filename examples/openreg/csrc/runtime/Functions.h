#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "device/Export.h"

// Device selection for PyTorch: checked indices, one current device for each thread, no SDK types.
namespace openreg {

inline constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;

// The number of devices, read from the SDK once. 0 without a usable driver.
BACKEND_API c10::DeviceIndex deviceCount() noexcept;

// Raises torch.AcceleratorError, like every failure of the device, unless 0 <= index < deviceCount().
BACKEND_API void checkDeviceIndex(int64_t index);

// Raises the error for an invalid index; the message shows the index as the user wrote it.
[[noreturn]] BACKEND_API void throwNoSuchDevice(const std::string& index);

BACKEND_API c10::DeviceIndex currentDevice();
BACKEND_API void setDevice(c10::DeviceIndex index);

// Both return the previous device. exchangeDevice raises an error for an invalid index; maybeExchangeDevice ignores a negative index.
BACKEND_API c10::DeviceIndex exchangeDevice(c10::DeviceIndex index);
BACKEND_API c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index);

// Returns the given device, or the current device for -1. Raises an error for an invalid index.
BACKEND_API c10::DeviceIndex resolveDevice(c10::DeviceIndex index);

// Blocks until all work submitted to this device has completed.
BACKEND_API void synchronizeDevice(c10::DeviceIndex index);

BACKEND_API bool canAccessPeer(c10::DeviceIndex index, c10::DeviceIndex peer);

// Whether this process has used a device, and whether it is a forked child of a process that had used one.
BACKEND_API bool isInitialized() noexcept;
BACKEND_API void ensureInitialized();
BACKEND_API bool inBadFork();

}  // namespace openreg
