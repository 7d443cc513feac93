#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "device/Export.h"

// Device selection in PyTorch's terms: checked indices, "current" per thread, no SDK types.
namespace openreg {

inline constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;

// Number of devices, read from the SDK once. 0 if there is no usable driver.
BACKEND_API c10::DeviceIndex deviceCount() noexcept;

// Raises torch.AcceleratorError, as each failure of the device does, unless 0 <= index < deviceCount().
BACKEND_API void checkDeviceIndex(int64_t index);

// The error of an index that does not exist, in the words of whoever wrote it.
[[noreturn]] BACKEND_API void throwNoSuchDevice(const std::string& index);

BACKEND_API c10::DeviceIndex currentDevice();
BACKEND_API void setDevice(c10::DeviceIndex index);

// Both return the previous device. exchangeDevice raises on an index that does not exist; maybeExchangeDevice takes a
// negative index for "leave it as it is".
BACKEND_API c10::DeviceIndex exchangeDevice(c10::DeviceIndex index);
BACKEND_API c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index);

// The given device, or the current one for -1. Raises on one that does not exist.
BACKEND_API c10::DeviceIndex resolveDevice(c10::DeviceIndex index);

// Blocks until everything submitted to exactly this device has completed.
BACKEND_API void synchronizeDevice(c10::DeviceIndex index);

BACKEND_API bool canAccessPeer(c10::DeviceIndex index, c10::DeviceIndex peer);

// Whether this process has used a device already, and whether it is a forked child of one that had.
BACKEND_API bool isInitialized() noexcept;
BACKEND_API void ensureInitialized();
BACKEND_API bool inBadFork();

}  // namespace openreg
