#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>

namespace openreg {

// A fixed number of places for facts about streams, which are too many for a place each. Streams may share one.
inline constexpr size_t kStreamSlots = 64;

inline size_t streamSlot(c10::DeviceIndex device, c10::StreamId stream) {
  return (static_cast<size_t>(stream) + static_cast<size_t>(device) * 17) % kStreamSlots;
}

}  // namespace openreg
