#pragma once

#include <c10/core/Device.h>

namespace openreg {

// Somebody who keeps storages of a device alive and can let some of them go. Called without locks, from any thread; it may wait
// for the device.
using Reclaimer = void (*)(c10::DeviceIndex device);

// While the library loads. A reclaimer stays registered.
void addReclaimer(Reclaimer reclaimer);

// Asks every reclaimer. The allocator does it before it reports that a device is out of memory.
void reclaimMemory(c10::DeviceIndex device);

}  // namespace openreg
