#pragma once

#include <array>
#include <cstddef>
#include <set>
#include <unordered_map>
#include <utility>

#include "runtime/memory/Block.h"

namespace openreg {

struct PrivatePool;

// Free blocks of one size class (small or large), separate for each stream, best fit first.
struct BlockPool {
  struct Order {
    bool operator()(const Block* a, const Block* b) const {
      if (a->stream != b->stream) {
        return a->stream < b->stream;
      }
      if (a->size != b->size) {
        return a->size < b->size;
      }
      return a->address < b->address;
    }
  };

  explicit BlockPool(bool small, PrivatePool* owner = nullptr) : small(small), owner(owner) {}

  bool small;
  PrivatePool* owner;  // nullptr for the shared pool
  std::set<Block*, Order> free;
};

// The fast path: recently freed blocks by exact size, not merged with their neighbors, because a training step requests the
// same sizes as the step before. It keeps many small blocks and few large blocks.
class RecentBlocks {
 public:
  // Takes the block unless it already has enough blocks of this size, or the block belongs to a private pool.
  bool push(Block* block);
  Block* pop(c10::StreamId stream, size_t size);

  // Removes and returns all blocks; the caller merges them.
  template <class Function>
  void drain(Function&& give_back) {
    for (auto& [stream, bins] : bins_by_stream_) {
      for (auto& bin : bins.small) {
        bin.count = 0;
        while (Block* block = bin.head) {
          bin.head = block->next_in_bin;
          block->next_in_bin = nullptr;
          block->binned = false;
          give_back(block);
        }
      }
      for (Block*& block : bins.large) {
        if (block != nullptr) {
          block->binned = false;
          give_back(std::exchange(block, nullptr));
        }
      }
    }
  }

 private:
  static constexpr size_t kBinnedSize = size_t{1} << 20;
  static constexpr size_t kGranularity = 512;
  static constexpr size_t kMaxBytesPerBin = size_t{2} << 20;
  static constexpr size_t kMaxBlocksPerBin = 64;

  struct Bin {
    Block* head = nullptr;
    size_t count = 0;
  };
  struct Bins {
    std::array<Bin, kBinnedSize / kGranularity + 1> small;
    std::array<Block*, 4> large{};
  };

  Bins& binsOf(c10::StreamId stream);

  std::unordered_map<c10::StreamId, Bins> bins_by_stream_;
  c10::StreamId last_stream_ = 0;
  Bins* last_bins_ = nullptr;
};

}  // namespace openreg
