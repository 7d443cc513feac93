#include "runtime/memory/RecentBlocks.h"

#include <algorithm>

#include "runtime/memory/BlockPool.h"
#include "runtime/memory/BlockSize.h"

namespace openreg {

RecentBlocks::Bins& RecentBlocks::binsOf(c10::StreamId stream) {
  if (last_bins_ == nullptr || stream != last_stream_) {
    last_bins_ = &bins_by_stream_[stream];  // the pointer stays valid: the map is node based
    last_stream_ = stream;
  }
  return *last_bins_;
}

bool RecentBlocks::push(Block* block) {
  if (block->pool->owner != nullptr) {
    return false;
  }
  auto& bins = binsOf(block->stream);
  if (sizeClassOf(block->size) == SizeClass::Large) {
    const auto slot = std::find(bins.large.begin(), bins.large.end(), nullptr);
    if (slot == bins.large.end()) {
      return false;
    }
    *slot = block;
    block->binned = true;
    return true;
  }
  auto& bin = bins.small[block->size / kGranularity];
  if (bin.count >= std::clamp<size_t>(kMaxBytesPerBin / block->size, 2, kMaxBlocksPerBin)) {
    return false;
  }
  block->next_in_bin = bin.head;
  block->binned = true;
  bin.head = block;
  ++bin.count;
  return true;
}

Block* RecentBlocks::pop(c10::StreamId stream, size_t size) {
  auto& bins = binsOf(stream);
  if (sizeClassOf(size) == SizeClass::Large) {
    const auto fits = [size](const Block* block) { return block != nullptr && block->size == size; };
    const auto slot = std::find_if(bins.large.begin(), bins.large.end(), fits);
    if (slot == bins.large.end()) {
      return nullptr;
    }
    (*slot)->binned = false;
    return std::exchange(*slot, nullptr);
  }
  auto& bin = bins.small[size / kGranularity];
  Block* block = bin.head;
  if (block != nullptr) {
    bin.head = block->next_in_bin;
    --bin.count;
    block->next_in_bin = nullptr;
    block->binned = false;
  }
  return block;
}

}  // namespace openreg
