#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/Functions.h"

namespace openreg {

struct Block;
struct BlockPool;
struct PrivatePool;

// The call stack of a recorded action; null if the history is off.
using Context = std::shared_ptr<c10::GatheredContext>;

// The lock on a DeviceCache. A function with a CacheLock& parameter is called with the cache locked, may unlock it while it waits,
// and returns with the cache locked.
using CacheLock = std::unique_lock<std::mutex>;

// What an allocation asks for.
struct BlockRequest {
  size_t nbytes;  // that the user asked for
  size_t size;  // of the block that serves it: blockSizeFor(nbytes)
  c10::StreamId stream;
  Context context;
  PrivatePool* owner = nullptr;  // the private pool that serves it; nullptr: the shared pools
};

// One allocation of the SDK. It is split into blocks.
struct Segment {
  void* address;
  size_t size;  // bytes
  Block* first;
  Context context;
  bool oversize = false;  // larger than max_split_size when it was created
};

// A piece of a segment. The pieces of a segment form a list in address order.
struct Block {
  Block(c10::DeviceIndex device, c10::StreamId stream, void* address, size_t size, BlockPool* pool)
      : device(device), stream(stream), address(address), size(size), pool(pool) {}

  c10::DeviceIndex device;
  c10::StreamId stream;  // the stream it was allocated for; only allocations of this stream get it again
  void* address;
  size_t size;  // bytes, a multiple of kMinBlockSize
  size_t requested = 0;  // bytes that its user asked for
  BlockPool* pool;
  Segment* segment = nullptr;
  bool allocated = false;
  bool binned = false;  // RecentBlocks holds it
  bool oversize = false;  // its user counts as an oversize allocation
  std::atomic<int> other_owners{0};  // additional owners; the block is free when all have released it
  int pending_events = 0;
  uint64_t freed_at = 0;  // counts the blocks of the device that were freed before it
  Block* previous = nullptr;
  Block* next = nullptr;
  Block* next_in_bin = nullptr;
  std::vector<c10::Stream> uses;  // other streams it is used on (recordStream)
  Context context;  // of its allocation

  bool isSplit() const {
    return previous != nullptr || next != nullptr;
  }
  // Its user freed it, but other streams have not reached their last use of it.
  bool awaitsFree() const {
    return !allocated && (pending_events > 0 || !uses.empty());
  }
};

}  // namespace openreg
