#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace openreg {

// Statistics of the pinned host allocator, with the keys of `torch.cuda.host_memory_stats`. Values are counts, bytes or
// microseconds. PyTorch has no Python function that reads them for out-of-tree devices.
std::map<std::string, int64_t> hostMemoryStats();
void resetAccumulatedHostMemoryStats();
void resetPeakHostMemoryStats();

}  // namespace openreg
