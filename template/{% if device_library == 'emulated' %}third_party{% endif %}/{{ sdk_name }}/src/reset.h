// Brings a device back to the state it had at the start.
#pragma once

#include "status.h"

namespace emulator {

struct Device;
class Runtime;

// Queued work is discarded, what is running is awaited. Streams, events and graphs of the device end, its memory is freed.
Status resetDevice(Runtime& runtime, ThreadState& thread, Device& device);

}  // namespace emulator
