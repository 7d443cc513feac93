#include <c10/core/AllocatorConfig.h>

#include "device/Device.h"
#include "runtime/memory/DeviceCache.h"
#include "runtime/memory/MemoryStats.h"

namespace openreg {

using c10::CachingAllocator::format_size;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::SegmentInfo;

size_t DeviceCache::reserved() const {
  return static_cast<size_t>(stats_.reserved_bytes[static_cast<size_t>(StatType::AGGREGATE)].current);
}

size_t DeviceCache::allowed() const {
  return static_cast<size_t>(fraction_ * static_cast<double>(device::memoryInfo(index_).total));
}

void DeviceCache::setMemoryFraction(double fraction) {
  TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1, "the fraction of memory must be from 0 to 1, got ", fraction);
  const Lock lock(mutex_);
  fraction_ = fraction;
}

double DeviceCache::memoryFraction() {
  const Lock lock(mutex_);
  return fraction_;
}

void DeviceCache::throwOutOfMemory(const Request& request, Lock& lock) {
  ++stats_.num_ooms;
  const auto allocated = static_cast<size_t>(stats_.allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)].current);
  const size_t cached = reserved() - allocated;
  const auto memory = device::memoryInfo(index_);
  const auto limit = fraction_ < 1 ? c10::str(" This process may reserve ", format_size(allowed()), " of it (set_per_process_memory_fraction).") : "";
  const auto capture = private_pools_.routing() ? " The cache cannot be released while a graph is captured: call empty_cache() before the capture." : "";
  if (history_.recording()) {
    const auto pool = request.owner != nullptr ? request.owner->id : c10::MempoolId_t(0, 0);
    history_.add({TraceEntry::OOM, index_, memory.free, request.nbytes, handleOf(request.stream), pool, 0, request.context});
  }
  lock.unlock();  // other threads need not wait for the message and its stack
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(request.nbytes), allocated, allocated + cached, c10::Device(kDeviceType, index_));
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, c10::get_privateuse1_backend(), " out of memory. Tried to allocate ", format_size(request.nbytes), ". Device ", static_cast<int>(index_),
      " has a total capacity of ", format_size(memory.total), ", of which ", format_size(memory.free), " is free.", limit, " ", format_size(allocated),
      " is allocated by PyTorch, and ", format_size(cached), " is reserved by PyTorch but unallocated.", capture);
}

c10::CachingDeviceAllocator::DeviceStats DeviceCache::stats() {
  const Lock lock(mutex_);
  stats_.max_split_size = static_cast<int64_t>(c10::CachingAllocator::AcceleratorAllocatorConfig::max_split_size());
  return stats_;
}

void DeviceCache::resetAccumulatedStats() {
  const Lock lock(mutex_);
  resetAccumulated(stats_);
}

void DeviceCache::resetPeakStats() {
  const Lock lock(mutex_);
  resetPeaks(stats_);
}

void DeviceCache::startHistory(const HistoryOptions& options) {
  const Lock lock(mutex_);
  history_.start(options);
}

void DeviceCache::stopHistory() {
  const Lock lock(mutex_);
  history_.stop();
}

// Null for the default stream, because readers of a snapshot name only the other streams.
void* DeviceCache::handleOf(c10::StreamId stream) const {
  return stream == 0 ? nullptr : Stream(c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, index_), stream)).handle();
}

void DeviceCache::addToHistory(TraceEntry::Action action, const Block& block, size_t size, const Context& context) {
  const auto pool = block.pool->owner != nullptr ? block.pool->owner->id : c10::MempoolId_t(0, 0);
  history_.add({action, index_, reinterpret_cast<size_t>(block.address), size, handleOf(block.stream), pool, 0, context});
}

void DeviceCache::addTo(MemorySnapshot& snapshot) {
  const Context context = history_.gather(RecordContext::ALL);
  const Lock lock(mutex_);
  for (const Segment* segment : segments_) {
    const auto& pool = *segment->first->pool;
    SegmentInfo info;
    info.device = index_;
    info.address = reinterpret_cast<size_t>(segment->address);
    info.total_size = segment->size;
    info.stream = handleOf(segment->first->stream);
    info.is_large = !pool.small;
    info.owner_private_pool_id = pool.owner != nullptr ? pool.owner->id : c10::MempoolId_t(0, 0);
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
    history_.add({TraceEntry::SNAPSHOT, index_, 0, reserved(), nullptr, {0, 0}, 0, context});
  }
  snapshot.traces.push_back(history_.entries());
}

}  // namespace openreg
