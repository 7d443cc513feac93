#pragma once

#include <cstddef>

#include "runtime/memory/Block.h"

// Sizes that depend on PyTorch's allocator settings (PYTORCH_ALLOC_CONF, c10/core/AllocatorConfig.h).
namespace openreg {

bool isSmall(size_t size);  // allocated from the pool of small blocks

// The block size for a request: a multiple of kMinBlockSize, or the next step of roundup_power2_divisions.
size_t blockSizeFor(size_t nbytes);

// The size of a new segment for a block of `size` bytes.
size_t segmentSizeFor(size_t size);

// max_split_size: a larger ("oversize") block is not split; it serves requests of a similar size.
bool isOversize(size_t size);
bool mayServe(const Block& block, size_t size);
bool maySplit(const Block& block, size_t size);

}  // namespace openreg
