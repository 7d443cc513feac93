#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include "device/Export.h"

namespace openreg {

// Pinned host memory: PyTorch's caching host allocator over the SDK's. A freed block is reused once the streams it was
// recorded on (copies with non_blocking=True) have passed it.
BACKEND_API at::HostAllocator& hostAllocator();

// Whether `pointer` lies in pinned memory. Does not start the device.
BACKEND_API bool isPinned(const void* pointer);

}  // namespace openreg
