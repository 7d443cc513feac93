#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <exception>
#include <iterator>

#include "device/Launch.h"
#include "device/Memory.h"
#include "device/Waiting.h"
#include "runtime/memory/BlockSize.h"
#include "runtime/memory/DeviceCache.h"
#include "runtime/memory/MemoryStats.h"

// No function in this file waits for the device with the cache locked. The device may be running an operator of another
// thread that waits for the lock, because it allocates its result.
namespace openreg {

using c10::CachingAllocator::AcceleratorAllocatorConfig;

void DeviceCache::recordStream(Block* block, c10::Stream stream) {
  const Lock lock(mutex_);
  if (stream.id() == block->stream && stream.device_index() == block->device) {
    return;
  }
  if (std::find(block->uses.begin(), block->uses.end(), stream) == block->uses.end()) {
    block->uses.push_back(stream);
  }
}

// Makes the block wait for the streams that used it. Must not throw, because destructors of tensors call it. If a stream
// cannot record an event any more, it does not work either, so the block need not wait for it.
void DeviceCache::recordEvents(Block* block) {
  for (const auto& stream : std::exchange(block->uses, {})) {
    Event event;
    try {
      event.record(Stream(stream));
    } catch (const std::exception& error) {
      TORCH_WARN("freed memory cannot wait for ", stream, ", which used it: ", error.what());
      event = Event();
    }
    ++block->pending_events;
    pending_.emplace_back(std::move(event), block);
  }
}

// Frees the blocks whose events were reached.
void DeviceCache::processEvents() {
  if (private_pools_.routing()) {
    return;
  }
  for (Block* block : std::exchange(deferred_, {})) {
    recordEvents(block);
  }
  for (size_t left = pending_.size(); left > 0; --left) {
    const bool reached = pending_.front().first.query();
    auto entry = std::move(pending_.front());
    pending_.pop_front();
    if (!reached) {
      pending_.push_back(std::move(entry));
      continue;
    }
    Block* block = entry.second;
    if (--block->pending_events == 0) {
      markInactive(block, block->context);
      giveBack(block);
    }
  }
}

// Waits for all events first. A kernel must not call this.
void DeviceCache::finishEvents(Lock& lock) {
  processEvents();
  if (device::runningStream() != nullptr) {
    return;
  }
  ++stats_.num_sync_all_streams;
  auto waiting = std::exchange(pending_, {});
  std::exception_ptr error;
  lock.unlock();
  try {
    for (const auto& [event, block] : waiting) {
      event.synchronize();
    }
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  std::move(waiting.begin(), waiting.end(), std::back_inserter(pending_));
  if (error) {
    std::rethrow_exception(error);
  }
  processEvents();
}

void DeviceCache::emptyCache(c10::MempoolId_t id) {
  const Context context = history_.gather(RecordContext::ALL);
  Lock lock(mutex_);
  const Lock releasing = lockRelease(lock);
  TORCH_CHECK(
      !private_pools_.routing(), "the cache of device ", static_cast<int>(index_), " cannot be emptied while a graph is captured on it: do it before the capture or after");
  const auto* wanted = private_pools_.find(id);
  TORCH_CHECK(
      wanted == nullptr || wanted->users == 0, "memory pool (", id.first, ", ", id.second, ") cannot be emptied: the graphs that use it write to its free memory when they are replayed. Reset them first");
  releaseCached(lock, context, id);
}

// Only one thread at a time releases memory. Otherwise a thread could report that memory ran out while another is about to
// release some. A kernel must not wait for that thread, which may be waiting for the kernel.
DeviceCache::Lock DeviceCache::lockRelease(Lock& lock) {
  if (device::runningStream() != nullptr) {
    return Lock(release_mutex_, std::try_to_lock);
  }
  lock.unlock();
  auto releasing = device::lockMutex(release_mutex_);
  lock.lock();
  return releasing;
}

// Returns whether anything was released.
bool DeviceCache::releaseCached(Lock& lock, const Context& context, c10::MempoolId_t id) {
  const bool all = id == c10::MempoolId_t(0, 0);
  finishEvents(lock);
  std::vector<Block*> blocks;
  if (all) {
    recent_.drain([this](Block* block) { giveBack(block); });
    takeWholeSegments(small_, blocks);
    takeWholeSegments(large_, blocks);
  }
  private_pools_.forEachUnused([&](PrivatePool& pool) {
    if (all || pool.id == id) {
      takeWholeSegments(pool.small, blocks);
      takeWholeSegments(pool.large, blocks);
    }
  });
  const size_t released = release(std::move(blocks), lock, context);
  private_pools_.forEachUnused([](PrivatePool&) {});  // removes pools that are empty now
  return released > 0;
}

// Moves blocks that are a whole segment, of at least the given size, from the pool to `blocks`.
void DeviceCache::takeWholeSegments(BlockPool& pool, std::vector<Block*>& blocks, size_t least) {
  for (auto it = pool.free.begin(); it != pool.free.end();) {
    if ((*it)->isSplit() || (*it)->size < least) {
      ++it;
    } else {
      blocks.push_back(*it);
      it = pool.free.erase(it);
    }
  }
}

// garbage_collection_threshold: before a new segment is allocated, releases the least recently used segments until the
// process uses no more than this part of its allowed memory.
void DeviceCache::collectGarbage(Lock& lock, const Context& context) {
  const double threshold = AcceleratorAllocatorConfig::garbage_collection_threshold();
  if (threshold <= 0) {
    return;
  }
  const auto keep = static_cast<size_t>(threshold * static_cast<double>(allowed()));
  if (reserved() > keep) {
    releaseSome(reserved() - keep, 0, [](const Block* a, const Block* b) { return a->freed_at < b->freed_at; }, lock, context);
  }
}

// Before the whole cache is released, releases the largest oversize blocks, because they serve few requests.
void DeviceCache::releaseOversize(const Request& request, Lock& lock) {
  releaseSome(segmentSizeFor(request.size), AcceleratorAllocatorConfig::max_split_size(), [](const Block* a, const Block* b) { return a->size > b->size; }, lock, request.context);
}

// Releases segments of the large pool, each of at least the given size, in the given order, until they add up to enough bytes.
template <class Order>
void DeviceCache::releaseSome(size_t bytes, size_t least, Order order, Lock& lock, const Context& context) {
  std::vector<Block*> blocks;
  takeWholeSegments(large_, blocks, least);
  std::sort(blocks.begin(), blocks.end(), order);
  size_t chosen = 0;
  auto end = blocks.begin();
  while (end != blocks.end() && chosen < bytes) {
    chosen += (*end++)->size;
  }
  large_.free.insert(end, blocks.end());
  blocks.erase(end, blocks.end());
  release(std::move(blocks), lock, context);
}

// Unfinished work of its stream may still write to a cached block, so waits for that stream. If an operator runs out of
// memory within a kernel, its stream has no earlier work, and waiting for another stream might deadlock.
bool DeviceCache::finishWorkOn(c10::StreamId id) const {
  const Stream stream(c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, index_), id));
  if (auto* running = device::runningStream(); running != nullptr) {
    return running == stream.handle() || stream.query();
  }
  stream.synchronize();
  return true;
}

// Releases blocks to the device. Each block is a whole segment and in no pool. A block that cannot be released returns to its
// pool. Returns the number of released blocks.
size_t DeviceCache::release(std::vector<Block*> blocks, Lock& lock, const Context& context) {
  if (blocks.empty()) {
    return 0;
  }
  size_t released = 0;  // the first `released` entries of `blocks`
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
      forgetSegment(blocks[i], context);
    } else {
      blocks[i]->pool->free.insert(blocks[i]);
    }
  }
  if (error) {
    std::rethrow_exception(error);
  }
  return released;
}

void DeviceCache::forgetSegment(Block* block, const Context& context) {
  if (block->pool->owner != nullptr) {
    --block->pool->owner->segments;
  }
  countReleasedSegment(stats_, *block);
  record(TraceEntry::SEGMENT_FREE, *block, block->size, context);
  segments_.erase(block->segment);
  delete block->segment;
  delete block;
}

}  // namespace openreg
