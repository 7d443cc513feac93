#include "runtime/memory/BlockSize.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <bit>

#include "runtime/memory/BlockPool.h"

namespace openreg {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingAllocator::kMinBlockSize;
using c10::CachingAllocator::kMinLargeAlloc;
using c10::CachingAllocator::kRoundLarge;
using c10::CachingAllocator::kSmallBuffer;

namespace {

constexpr size_t roundUp(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

}  // namespace

size_t blockSizeFor(size_t nbytes) {
  if (nbytes <= kMinBlockSize) {
    return kMinBlockSize;
  }
  const size_t divisions = AcceleratorAllocatorConfig::roundup_power2_divisions(nbytes);
  if (divisions > 1 && nbytes > kMinBlockSize * divisions) {
    return roundUp(nbytes, std::bit_floor(nbytes) / divisions);
  }
  return roundUp(nbytes, kMinBlockSize);
}

size_t segmentSizeFor(size_t size) {
  if (AcceleratorAllocatorConfig::use_expandable_segments()) {
    TORCH_WARN_ONCE("the setting expandable_segments has no effect on ", c10::get_privateuse1_backend(),
                    " devices: their segments keep the size they were made with");
  }
  if (sizeClassOf(size) == SizeClass::Small) {
    return kSmallBuffer;
  }
  const size_t exact = roundUp(size, kRoundLarge);
  return size < kMinLargeAlloc ? std::max(exact, AcceleratorAllocatorConfig::large_segment_size()) : exact;
}

bool isOversize(size_t size) {
  return size >= AcceleratorAllocatorConfig::max_split_size();
}

bool mayServe(const Block& block, size_t size) {
  if (!isOversize(size)) {
    return !isOversize(block.size);
  }
  return block.size - size < AcceleratorAllocatorConfig::max_non_split_rounding_size();
}

bool maySplit(const Block& block, size_t size) {
  const size_t rest = block.size - size;
  if (block.pool->size_class == SizeClass::Small) {
    return rest >= kMinBlockSize;
  }
  return sizeClassOf(rest) == SizeClass::Large && !isOversize(size);
}

}  // namespace openreg
