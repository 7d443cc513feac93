#pragma once

#include <string>

#include "device/Event.h"
#include "device/Export.h"

// Device memory and events of another process. These functions are the capability "sharing", and are called only on a device that has it.
// Device.h has the rules for all functions.
namespace openreg::device {

// Returns the handle with which another process opens the allocation that starts at `base`. It stays the same until the
// memory is released.
BACKEND_API std::string exportMemory(void* base);

// Opens the memory of another process on the device of the same index. The caller opens a handle at most once at a time.
BACKEND_API void* openMemory(const std::string& handle);

// May wait for the device.
BACKEND_API void closeMemory(void* pointer);

// Returns the handle with which another process opens an event without timing.
BACKEND_API std::string exportEvent(EventHandle event);

// Opens the other process's event. Destroy it like an event that was created here.
BACKEND_API EventHandle openEvent(const std::string& handle);

}  // namespace openreg::device
