#pragma once

#include <c10/core/AllocatorConfig.h>

#include <array>
#include <cstddef>
#include <unordered_map>
#include <utility>

#include "runtime/memory/Block.h"

namespace openreg {

// The fast path: blocks of the shared pools that were freed a moment ago, by exact size, not merged with their neighbors. A training
// step asks for the sizes that the step before it freed. Many small blocks are kept, and a few large ones.
//
// BlockStore owns it and the blocks in it. Not thread-safe: the cache is locked.
class RecentBlocks {
 public:
  // Takes the block and returns true, unless enough of its size are kept already or it belongs to a private pool.
  bool push(Block* block);
  // A block of exactly this size; null if none is kept.
  Block* pop(c10::StreamId stream, size_t size);

  // Removes all blocks and calls the function for each, which merges it.
  template <class Function>
  void drain(Function&& function) {
    for (auto& [stream, bins] : bins_by_stream_) {
      for (auto& bin : bins.small) {
        bin.count = 0;
        while (Block* block = bin.head) {
          bin.head = block->next_in_bin;
          block->next_in_bin = nullptr;
          block->binned = false;
          function(block);
        }
      }
      for (Block*& block : bins.large) {
        if (block != nullptr) {
          block->binned = false;
          function(std::exchange(block, nullptr));
        }
      }
    }
  }

 private:
  static constexpr size_t kGranularity = c10::CachingAllocator::kMinBlockSize;
  static constexpr size_t kMaxBytesPerBin = size_t{2} << 20;
  static constexpr size_t kMaxBlocksPerBin = 64;

  struct Bin {
    Block* head = nullptr;
    size_t count = 0;
  };
  struct Bins {
    std::array<Bin, c10::CachingAllocator::kSmallSize / kGranularity + 1> small;
    std::array<Block*, 4> large{};
  };

  Bins& binsOf(c10::StreamId stream);

  std::unordered_map<c10::StreamId, Bins> bins_by_stream_;
  c10::StreamId last_stream_ = 0;
  Bins* last_bins_ = nullptr;
};

}  // namespace openreg
