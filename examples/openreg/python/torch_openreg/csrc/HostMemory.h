#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace openreg {

// Statistics of the pinned host allocator, by the names that `torch.cuda.host_memory_stats` uses.
// Values are counts, bytes or microseconds. Core keeps them, but has no Python function that reads them for other devices.
std::map<std::string, int64_t> hostMemoryStats();
void resetAccumulatedHostMemoryStats();
void resetPeakHostMemoryStats();

}  // namespace openreg
