#include <c10/core/AllocatorConfig.h>

#include <algorithm>

#include "device/Launch.h"
#include "device/Memory.h"
#include "runtime/BlockSize.h"
#include "runtime/DeviceCache.h"
#include "runtime/MemoryStats.h"

namespace openreg {

void DeviceCache::recordStream(Block* block, c10::Stream stream) {
  const Lock lock(mutex_);
  if (stream.id() == block->stream && stream.device_index() == block->device) {
    return;
  }
  if (std::find(block->uses.begin(), block->uses.end(), stream) == block->uses.end()) {
    block->uses.push_back(stream);
  }
}

// The block waits for the streams that used it.
void DeviceCache::recordEvents(Block* block) {
  for (const auto& stream : std::exchange(block->uses, {})) {
    Event event;
    event.record(Stream(stream));
    ++block->pending_events;
    pending_.emplace_back(std::move(event), block);
  }
}

void DeviceCache::processEvents(bool wait) {
  if (private_pools_.routing()) {
    return;
  }
  for (Block* block : std::exchange(deferred_, {})) {
    recordEvents(block);
  }
  for (size_t left = pending_.size(); left > 0; --left) {
    auto entry = std::move(pending_.front());
    pending_.pop_front();
    if (wait) {
      entry.first.synchronize();
    } else if (!entry.first.query()) {
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

// Waits for the streams that blocks wait for, which a kernel must not.
void DeviceCache::finishEvents() {
  const bool wait = device::runningStream() == nullptr;
  stats_.num_sync_all_streams += wait ? 1 : 0;
  processEvents(wait);
}

void DeviceCache::emptyCache(c10::MempoolId_t id) {
  const Context context = history_.gather(RecordContext::ALL);
  const Lock lock(mutex_);
  TORCH_CHECK(
      !private_pools_.routing(), "the cache of device ", static_cast<int>(index_), " cannot be emptied while a graph is captured on it: do it before the capture or after");
  if (id == c10::MempoolId_t(0, 0)) {
    releaseCached(context);
    return;
  }
  const auto* wanted = private_pools_.find(id);
  TORCH_CHECK(
      wanted == nullptr || wanted->users == 0, "memory pool (", id.first, ", ", id.second, ") cannot be emptied: the graphs that use it write to its free memory when they are replayed. Reset them first");
  finishEvents();
  private_pools_.forEachUnused([&](PrivatePool& pool) {
    if (&pool == wanted) {
      releaseFree(pool.small, context);
      releaseFree(pool.large, context);
    }
  });
}

void DeviceCache::releaseCached(const Context& context) {
  finishEvents();
  recent_.drain([this](Block* block) { giveBack(block); });
  releaseFree(small_, context);
  releaseFree(large_, context);
  private_pools_.forEachUnused([&](PrivatePool& pool) {
    releaseFree(pool.small, context);
    releaseFree(pool.large, context);
  });
}

// A cached block may still be written by work that its stream has not finished. Within a kernel, when an operator runs out
// of memory, its own stream has nothing before it, and waiting for another one might be waiting for itself.
bool DeviceCache::finishWorkOn(c10::StreamId id) const {
  const Stream stream(c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, index_), id));
  if (auto* running = device::runningStream(); running != nullptr) {
    return running == stream.handle() || stream.query();
  }
  stream.synchronize();
  return true;
}

// Returns the segments of which no piece is in use.
void DeviceCache::releaseFree(BlockPool& pool, const Context& context) {
  for (auto it = pool.free.begin(); it != pool.free.end();) {
    Block* block = *it;
    if (block->isSplit() || !finishWorkOn(block->stream)) {
      ++it;
      continue;
    }
    it = pool.free.erase(it);
    releaseSegment(block, context);
  }
}

// garbage_collection_threshold: before the device is asked for more, gives back what was not used for the longest time, down to
// that part of the memory that this process may have.
void DeviceCache::collectGarbage(const Context& context) {
  const double threshold = c10::CachingAllocator::AcceleratorAllocatorConfig::garbage_collection_threshold();
  if (threshold <= 0) {
    return;
  }
  const auto keep = static_cast<size_t>(threshold * static_cast<double>(allowed()));
  if (reserved() <= keep) {
    return;
  }
  std::vector<Block*> blocks(large_.free.begin(), large_.free.end());
  std::sort(blocks.begin(), blocks.end(), [](const Block* a, const Block* b) { return a->freed_at < b->freed_at; });
  releaseInOrder(std::move(blocks), reserved() - keep, context);
}

// Before all of the cache is given up: blocks that are too large to be split serve few requests.
void DeviceCache::releaseOversize(const Request& request) {
  std::vector<Block*> blocks;
  std::copy_if(large_.free.begin(), large_.free.end(), std::back_inserter(blocks), [](const Block* block) { return isOversize(block->size); });
  std::sort(blocks.begin(), blocks.end(), [](const Block* a, const Block* b) { return a->size > b->size; });
  releaseInOrder(std::move(blocks), segmentSizeFor(request.size), request.context);
}

// The free blocks are of the large pool.
void DeviceCache::releaseInOrder(std::vector<Block*> blocks, size_t bytes, const Context& context) {
  size_t released = 0;
  for (Block* block : blocks) {
    if (released >= bytes) {
      return;
    }
    if (!block->isSplit() && finishWorkOn(block->stream)) {
      released += block->size;
      large_.free.erase(block);
      releaseSegment(block, context);
    }
  }
}

// The block is all of its segment, and in no pool any more.
void DeviceCache::releaseSegment(Block* block, const Context& context) {
  device::release(block->address);
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
