#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include "device/Export.h"

namespace openreg {

// Pinned host memory: PyTorch's caching host allocator with the SDK's allocation functions. A freed block is reused after the
// streams that used it (copies with non_blocking=True) have finished with it.
BACKEND_API at::HostAllocator& hostAllocator();

// Whether `pointer` is in pinned memory. Does not start the device.
BACKEND_API bool isPinned(const void* pointer);

}  // namespace openreg
