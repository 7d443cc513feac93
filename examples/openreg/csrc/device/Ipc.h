#pragma once

#include <string>

#include "device/Event.h"
#include "device/Export.h"

// PORTING: device memory and events of another process. Map each function of this file to your SDK in Ipc.cpp. If it cannot
// share them, let the exporting functions raise c10::NotImplementedError: sending to another process then ends in your sentence.
namespace openreg::device {

// Bytes by which another process opens the allocation that starts at `base`; the same bytes as long as it lives.
BACKEND_API std::string exportMemory(void* base);

// Makes the memory of another process usable on the device of the same index. Each is opened at most once at a time.
BACKEND_API void* openMemory(const std::string& handle);

// May wait for the device.
BACKEND_API void closeMemory(void* pointer);

// Bytes by which another process opens an event that was created without timing.
BACKEND_API std::string exportEvent(EventHandle event);

// The same event as the other process's, to be destroyed like one that was created here.
BACKEND_API EventHandle openEvent(const std::string& handle);

}  // namespace openreg::device
