#include "runtime/memory/BlockPool.h"

#include <algorithm>

namespace openreg {

RecentBlocks::Bins& RecentBlocks::binsOf(c10::StreamId stream) {
  if (last_bins_ == nullptr || stream != last_stream_) {
    last_bins_ = &bins_by_stream_[stream];  // stays where it is: the map is node based
    last_stream_ = stream;
  }
  return *last_bins_;
}

bool RecentBlocks::push(Block* block) {
  if (block->pool->owner != nullptr) {
    return false;
  }
  auto& bins = binsOf(block->stream);
  if (block->size > kBinnedSize) {
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
  if (size > kBinnedSize) {
    const auto slot = std::find_if(bins.large.begin(), bins.large.end(), [size](const Block* block) { return block != nullptr && block->size == size; });
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
