#pragma once

#include <string>

#include "device/Export.h"

// PORTING: device memory of another process. Map each function of this file to your SDK in Ipc.cpp. If it cannot share
// memory, let exportMemory raise c10::NotImplementedError: sending a tensor to another process then ends in your sentence.
namespace openreg::device {

// Bytes by which another process opens the allocation that starts at `base`; the same bytes as long as it lives.
BACKEND_API std::string exportMemory(void* base);

// Makes the memory of another process usable on the device of the same index. Each is opened at most once at a time.
BACKEND_API void* openMemory(const std::string& handle);

// May wait for the device.
BACKEND_API void closeMemory(void* pointer);

}  // namespace openreg::device
