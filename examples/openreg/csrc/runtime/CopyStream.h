#pragma once

#include <c10/core/Device.h>

#include "device/Stream.h"

namespace openreg {

// One stream for each device, for transfers that must not wait for the current stream. Nothing but such copies is submitted to it, so
// they wait for each other only. Created on first use, alive until the process ends. Any thread may call it.
device::StreamHandle copyStream(c10::DeviceIndex device);

// Copies in the order of the current stream of the device. If this thread holds that stream (device::runningStream), the stream would run
// the copy after what this thread does, and a copy of pageable memory would wait for itself. The copy is then done when this returns.
void copyInOrder(void* dst, const void* src, size_t nbytes, c10::DeviceIndex device);

}  // namespace openreg
