#pragma once

#include <c10/core/AllocatorConfig.h>

#include <cstddef>

// Sizes that depend on PyTorch's allocator settings (PYTORCH_ALLOC_CONF, c10/core/AllocatorConfig.h).
namespace openreg {

struct Block;

// Blocks of different classes never share a segment, so that small blocks do not fragment large segments.
enum class SizeClass { Small,
                       Large };

constexpr SizeClass sizeClassOf(size_t size) {
  return size <= c10::CachingAllocator::kSmallSize ? SizeClass::Small : SizeClass::Large;
}

// The block size for a request: a multiple of kMinBlockSize, or the next step of roundup_power2_divisions.
size_t blockSizeFor(size_t nbytes);

// The size of a new segment for a block of `size` bytes.
size_t segmentSizeFor(size_t size);

// max_split_size: a larger ("oversize") block is not split; it serves requests of a similar size. Small blocks are never oversize,
// because PyTorch refuses a max_split_size below 20 MiB.
bool isOversize(size_t size);
bool mayServe(const Block& block, size_t size);
bool maySplit(const Block& block, size_t size);  // so that the block keeps `size` bytes

}  // namespace openreg
