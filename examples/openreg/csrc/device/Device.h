#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <string>

#include "device/Export.h"

// PORTING: device selection and properties. Map each function of this file to your SDK in Device.cpp.
namespace openreg::device {

struct Properties {
  std::string name;
  size_t total_memory = 0;  // bytes
  size_t allocation_alignment = 0;  // bytes, of what device::allocate returns
  int multi_processor_count = 0;
  int major = 0;
  int minor = 0;
};

// Starts the SDK. Throws the SDK's error if that fails.
BACKEND_API void initialize();

// Number of devices of this machine. 0 if the driver is missing or broken: this must not throw.
BACKEND_API int count() noexcept;

// The calling thread's current device.
BACKEND_API int current();
BACKEND_API void setCurrent(int index);
BACKEND_API void uncheckedSetCurrent(int index) noexcept;  // warns where setCurrent throws

// Blocks until all work submitted to this device, on any of its streams, has completed.
BACKEND_API void synchronize(int index);

BACKEND_API Properties properties(int index);

// Free and total memory of a device in bytes.
struct MemoryInfo {
  size_t free = 0;
  size_t total = 0;
};
BACKEND_API MemoryInfo memoryInfo(int index);

// Whether the device can hold tensors of this dtype: torch.accelerator.get_device_capability() tells programs.
BACKEND_API bool supportsDtype(int index, c10::ScalarType dtype);

BACKEND_API bool canAccessPeer(int index, int peer);

// Stream priorities, lowest to highest. A lower number is served first.
struct PriorityRange {
  int least = 0;
  int greatest = 0;
};
BACKEND_API PriorityRange priorityRange();

}  // namespace openreg::device
