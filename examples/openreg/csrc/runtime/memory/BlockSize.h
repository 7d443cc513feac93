#pragma once

#include <cstddef>

#include "runtime/memory/Block.h"

// The sizes that PyTorch's allocator settings decide (PYTORCH_ALLOC_CONF, c10/core/AllocatorConfig.h).
namespace openreg {

bool isSmall(size_t size);  // allocated from the pool of small blocks

// What a request occupies: a multiple of kMinBlockSize, or the next step of roundup_power2_divisions.
size_t blockSizeFor(size_t nbytes);

// What is asked from the device to serve a block of `size` bytes.
size_t segmentSizeFor(size_t size);

// max_split_size: a larger ("oversize") block is kept whole, for requests that are about as large.
bool isOversize(size_t size);
bool mayServe(const Block& block, size_t size);
bool maySplit(const Block& block, size_t size);

}  // namespace openreg
