#pragma once

#include <c10/core/Device.h>

namespace openreg {

// A function that releases storages that its owner keeps alive. Any thread calls it, without locks; it may wait for the device.
using Reclaimer = void (*)(c10::DeviceIndex device);

// Registers a function permanently. Call this while the library loads.
void addReclaimer(Reclaimer reclaimer);

// Calls all registered functions. The allocator does this before it reports that a device is out of memory.
void reclaimMemory(c10::DeviceIndex device);

}  // namespace openreg
