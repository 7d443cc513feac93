#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <vector>

namespace openreg {

// The state of the allocator at one moment, with its history if it was recorded.
struct MemorySnapshot {
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> segments;  // blocks in the order of their addresses
  std::vector<std::vector<c10::CachingDeviceAllocator::TraceEntry>> traces;  // for each device, oldest first; time_.t_ in ns
};

}  // namespace openreg
