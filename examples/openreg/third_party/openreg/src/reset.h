// Resets a device to its initial state.
#pragma once

#include "status.h"

namespace emulator {

struct Device;
class Runtime;

// Discards queued work and waits for running work. Then ends the device's streams, events and graphs, and frees its memory.
Status resetDevice(Runtime& runtime, ThreadState& thread, Device& device);

}  // namespace emulator
