#pragma once

#include <unordered_set>
#include <vector>

#include "runtime/memory/BlockPool.h"
#include "runtime/memory/MemoryReport.h"
#include "runtime/memory/PrivatePools.h"
#include "runtime/memory/RecentBlocks.h"

namespace openreg {

// The segments and blocks of one device: finds, splits and merges blocks, and gets new segments from the SDK.
//
// Owns every segment and block, and the pools of free ones. It keeps the ownership of a block that it hands out; giveBack() or
// retire() return the block. DeviceCache owns it. Not thread-safe: the cache is locked. Nothing here waits for the device.
class BlockStore {
 public:
  BlockStore(c10::DeviceIndex index, MemoryReport& report) : index_(index), report_(report) {}

  // Sets the request's owner to the private pool that takes allocations of its stream, if there is one.
  void route(BlockRequest& request) const;

  // A block of exactly the size that was freed a moment ago, else null.
  Block* takeRecent(const BlockRequest& request) {
    return request.owner == nullptr ? recent_.pop(request.stream, request.size) : nullptr;
  }
  // The smallest free block that may serve the request, else null. It may be larger than the request: split() it.
  Block* takeFree(const BlockRequest& request);
  // A new segment, as one block; null if the device or the memory fraction has no room for it. Without a size: of the usual size.
  Block* takeNewSegment(const BlockRequest& request);
  Block* takeNewSegment(const BlockRequest& request, size_t size);
  // Cuts off the memory behind `size` bytes as a free block, if the settings allow it.
  void split(Block* block, size_t size);

  void markAllocated(Block* block, BlockRequest& request);
  void markFreed(Block* block, const Context& context);  // by its user

  // Takes back a block that no stream uses any more, for the next request of its size.
  void giveBack(Block* block, const Context& context);
  // The same, but merges it with its free neighbors at once.
  void retire(Block* block);
  void mergeRecent();  // merges all that giveBack() left whole

  // Appends the free blocks that are all of their segment, and at least so many bytes, and takes them out of the pool.
  static void takeWholeSegments(BlockPool& pool, std::vector<Block*>& blocks, size_t least = 0);
  // Puts back the blocks of takeWholeSegments().
  static void putBack(Block* block) {
    block->pool->free.insert(block);
  }
  // Forgets a block that takeWholeSegments() took, whose segment was given back to the device.
  void forgetSegment(Block* block, const Context& context);

  BlockPools& sharedPools() {
    return shared_;
  }
  PrivatePools& privatePools() {
    return private_pools_;
  }
  // Whether a graph is captured on the device. Meanwhile no event may be recorded or queried, and no thread may wait for the device.
  bool capturing() const {
    return private_pools_.routing();
  }
  const std::unordered_set<Segment*>& segments() const {
    return segments_;
  }

  void setFraction(double fraction) {
    fraction_ = fraction;
  }
  double fraction() const {
    return fraction_;
  }
  size_t allowed() const;  // bytes that this process may reserve

 private:
  BlockPool& poolFor(const BlockRequest& request);
  void markInactive(Block* block, const Context& context);
  void merge(Block* block);
  void join(Block* block, Block* neighbour);

  c10::DeviceIndex index_;
  MemoryReport& report_;
  RecentBlocks recent_;
  BlockPools shared_;
  PrivatePools private_pools_;
  std::unordered_set<Segment*> segments_;
  double fraction_ = 1;  // of the device's memory that this process may reserve
  uint64_t clock_ = 0;  // Block::freed_at of the block that was freed last
};

}  // namespace openreg
