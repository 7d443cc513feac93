#include "runtime/memory/CacheReclaim.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <exception>

#include "device/Launch.h"
#include "device/Memory.h"
#include "device/Waiting.h"
#include "runtime/memory/BlockSize.h"
#include "runtime/memory/Reclaim.h"

namespace openreg {

using c10::CachingAllocator::AcceleratorAllocatorConfig;

Block* CacheReclaim::allocate(const BlockRequest& request, CacheLock& lock) {
  collectGarbage(request.context, lock);
  Block* block = store_.takeNewSegment(request);
  if (block != nullptr) {
    return block;
  }
  const auto retry = [&] {
    Block* found = store_.takeFree(request);
    return found != nullptr ? found : store_.takeNewSegment(request);
  };
  report_.retried();
  lock.unlock();
  reclaimMemory(index_);  // frees storages, which locks this cache
  lock.lock();
  const CacheLock releasing = lockRelease(lock);
  block = retry();
  if (block == nullptr) {
    releaseOversize(request, lock);
    block = retry();
  }
  for (bool more = true; block == nullptr && more; block = retry()) {
    more = releaseCached(request.context, lock);  // meanwhile others may have freed more
  }
  // Segments are larger than the requests that they are made for; the device may have room for this request alone.
  return block != nullptr ? block : store_.takeNewSegment(request, request.size);
}

void CacheReclaim::emptyCache(c10::MempoolId_t id, const Context& context, CacheLock& lock) {
  const CacheLock releasing = lockRelease(lock);
  TORCH_CHECK(!store_.capturing(), "the cache of device ", static_cast<int>(index_),
              " cannot be emptied while a graph is captured on it: do it before the capture or after");
  const auto* wanted = store_.privatePools().find(id);
  TORCH_CHECK(wanted == nullptr || wanted->users == 0, "memory pool (", id.first, ", ", id.second,
              ") cannot be emptied: the graphs that use it write to its free memory when they are replayed. Reset them first");
  releaseCached(context, lock, id);
}

// One thread releases at a time. Otherwise a thread could report that memory has run out while another is about to give some back.
// A kernel does not wait for the other thread, which may be waiting for the kernel.
CacheLock CacheReclaim::lockRelease(CacheLock& lock) {
  if (device::runningStream() != nullptr) {
    return CacheLock(release_mutex_, std::try_to_lock);
  }
  lock.unlock();
  auto releasing = device::lockMutex(release_mutex_);
  lock.lock();
  return releasing;
}

// Returns whether there was anything to give back.
bool CacheReclaim::releaseCached(const Context& context, CacheLock& lock, c10::MempoolId_t id) {
  const bool all = id == c10::MempoolId_t(0, 0);
  uses_.finish(lock);
  std::vector<Block*> blocks;
  const auto take = [&](BlockPools& pools) {
    store_.takeWholeSegments(pools.small, blocks);
    store_.takeWholeSegments(pools.large, blocks);
  };
  if (all) {
    store_.mergeRecent();
    take(store_.sharedPools());
  }
  store_.privatePools().forEachUnused([&](PrivatePool& pool) {
    if (all || pool.id == id) {
      take(pool.pools);
    }
  });
  const size_t released = release(std::move(blocks), context, lock);
  store_.privatePools().forEachUnused([](PrivatePool&) {});  // forgets those that are empty now
  return released > 0;
}

// garbage_collection_threshold: a part of the memory that this process may reserve. Above it, segments that were not used for the
// longest time are given back before the device is asked for more.
void CacheReclaim::collectGarbage(const Context& context, CacheLock& lock) {
  const double threshold = AcceleratorAllocatorConfig::garbage_collection_threshold();
  if (threshold <= 0) {
    return;
  }
  const auto keep = static_cast<size_t>(threshold * static_cast<double>(store_.allowed()));
  const size_t reserved = report_.reservedBytes();
  if (reserved > keep) {
    releaseSome(reserved - keep, 0, [](const Block* a, const Block* b) { return a->freed_at < b->freed_at; }, context, lock);
  }
}

// Before all of the cache is given up: the largest of the blocks that are too large to be split, because they serve few requests.
void CacheReclaim::releaseOversize(const BlockRequest& request, CacheLock& lock) {
  const auto larger = [](const Block* a, const Block* b) { return a->size > b->size; };
  releaseSome(segmentSizeFor(request.size), AcceleratorAllocatorConfig::max_split_size(), larger, request.context, lock);
}

// Releases segments of the shared pool of large blocks, each of at least `least` bytes, in the order given, until `bytes` are released.
template <class Order>
void CacheReclaim::releaseSome(size_t bytes, size_t least, Order order, const Context& context, CacheLock& lock) {
  std::vector<Block*> blocks;
  store_.takeWholeSegments(store_.sharedPools().large, blocks, least);
  std::sort(blocks.begin(), blocks.end(), order);
  size_t chosen = 0;
  auto end = blocks.begin();
  while (end != blocks.end() && chosen < bytes) {
    chosen += (*end++)->size;
  }
  std::for_each(end, blocks.end(), &BlockStore::putBack);
  blocks.erase(end, blocks.end());
  release(std::move(blocks), context, lock);
}

// Returns whether all work of the stream is complete, so that nothing writes to its cached blocks any more. A kernel that runs out of
// memory need not wait for its own stream, whose earlier work is complete. It must not wait for another stream, which may wait for it.
bool CacheReclaim::finishWorkOn(c10::StreamId id) const {
  const Stream stream(c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, index_), id));
  if (auto* running = device::runningStream(); running != nullptr) {
    return running == stream.handle() || stream.query();
  }
  stream.synchronize();
  return true;
}

// Returns the blocks of takeWholeSegments() to the device, and puts back those whose streams are busy. Returns how many it returned
// to the device.
size_t CacheReclaim::release(std::vector<Block*> blocks, const Context& context, CacheLock& lock) {
  if (blocks.empty()) {
    return 0;
  }
  size_t released = 0;  // the first so many of `blocks`
  std::exception_ptr error;
  lock.unlock();
  try {
    for (Block*& block : blocks) {
      if (finishWorkOn(block->stream)) {
        device::release(block->address);
        std::swap(block, blocks[released++]);
      }
    }
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i < released) {
      store_.forgetSegment(blocks[i], context);
    } else {
      store_.putBack(blocks[i]);
    }
  }
  if (error) {
    std::rethrow_exception(error);
  }
  return released;
}

}  // namespace openreg
