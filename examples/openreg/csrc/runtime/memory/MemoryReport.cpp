#include "runtime/memory/MemoryReport.h"

#include <c10/core/AllocatorConfig.h>

#include "device/Device.h"
#include "runtime/Stream.h"
#include "runtime/memory/BlockPool.h"
#include "runtime/memory/PrivatePools.h"

namespace openreg {
namespace {

using c10::CachingAllocator::format_size;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::SegmentInfo;

size_t currentOf(const StatArray& array) {
  return static_cast<size_t>(array[static_cast<size_t>(StatType::AGGREGATE)].current);
}

c10::MempoolId_t idOf(const PrivatePool* pool) {
  return pool != nullptr ? pool->id : c10::MempoolId_t(0, 0);
}

}  // namespace

size_t MemoryReport::allocatedBytes() const {
  return currentOf(stats_.allocated_bytes);
}

size_t MemoryReport::reservedBytes() const {
  return currentOf(stats_.reserved_bytes);
}

void MemoryReport::throwOutOfMemory(const BlockRequest& request, std::optional<size_t> limit, bool capturing, CacheLock& lock) {
  ++stats_.num_ooms;
  const size_t used = allocatedBytes();
  const size_t held = reservedBytes();
  const auto memory = device::memoryInfo(index_);
  if (history_.recording()) {
    history_.add({TraceEntry::OOM, index_, memory.free, request.nbytes, handleOf(request.stream), idOf(request.owner), 0, request.context});
  }
  lock.unlock();
  const c10::Device device(kDeviceType, index_);
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(request.nbytes), used, held, device);
  const auto fraction =
      limit ? c10::str(" This process may reserve ", format_size(*limit), " of it (set_per_process_memory_fraction).") : "";
  const auto capture =
      capturing ? " The cache cannot be released while a graph is captured: call empty_cache() before the capture." : "";
  TORCH_CHECK_WITH(OutOfMemoryError, false, c10::get_privateuse1_backend(), " out of memory. Tried to allocate ",
                   format_size(request.nbytes), ". Device ", static_cast<int>(index_), " has a total capacity of ",
                   format_size(memory.total), ", of which ", format_size(memory.free), " is free.", fraction, " ", format_size(used),
                   " is allocated by PyTorch, and ", format_size(held - used), " is reserved by PyTorch but unallocated.", capture);
}

DeviceStats MemoryReport::stats() {
  stats_.max_split_size = static_cast<int64_t>(c10::CachingAllocator::AcceleratorAllocatorConfig::max_split_size());
  return stats_;
}

void MemoryReport::resetAccumulatedStats() {
  resetAccumulated(stats_);
}

void MemoryReport::resetPeakStats() {
  resetPeaks(stats_);
}

void MemoryReport::startHistory(const HistoryOptions& options) {
  history_.start(options);
}

void MemoryReport::stopHistory() {
  history_.stop();
}

// Null for the default stream, because readers of a snapshot name only the other streams.
void* MemoryReport::handleOf(c10::StreamId stream) const {
  return stream == 0 ? nullptr : Stream(c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, index_), stream)).handle();
}

void MemoryReport::add(TraceEntry::Action action, const Block& block, size_t size, const Context& context) {
  const auto address = reinterpret_cast<size_t>(block.address);
  history_.add({action, index_, address, size, handleOf(block.stream), idOf(block.pool->owner), 0, context});
}

void MemoryReport::addTo(MemorySnapshot& snapshot, const std::unordered_set<Segment*>& segments, const Context& context) {
  for (const Segment* segment : segments) {
    const auto& pool = *segment->first->pool;
    SegmentInfo info;
    info.device = index_;
    info.address = reinterpret_cast<size_t>(segment->address);
    info.total_size = segment->size;
    info.stream = handleOf(segment->first->stream);
    info.is_large = pool.size_class == SizeClass::Large;
    info.owner_private_pool_id = idOf(pool.owner);
    info.context_when_allocated = segment->context;
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      const bool active = block->allocated || block->awaitsFree();
      info.blocks.push_back({block->size, active ? block->requested : 0, 0, block->allocated, active, block->context});
      info.allocated_size += block->allocated ? block->size : 0;
      info.active_size += active ? block->size : 0;
      info.requested_size += active ? block->requested : 0;
    }
    snapshot.segments.push_back(std::move(info));
  }
  if (history_.recording()) {
    history_.add({TraceEntry::SNAPSHOT, index_, 0, reservedBytes(), nullptr, {0, 0}, 0, context});
  }
  snapshot.traces.push_back(history_.entries());
}

}  // namespace openreg
