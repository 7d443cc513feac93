#include "runtime/memory/MemoryStats.h"

#include <array>

#include "runtime/memory/PrivatePools.h"

namespace openreg {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

constexpr auto kAggregate = static_cast<size_t>(StatType::AGGREGATE);

size_t typeOf(const BlockPool& pool) {
  return static_cast<size_t>(pool.size_class == SizeClass::Small ? StatType::SMALL_POOL : StatType::LARGE_POOL);
}

void increase(StatArray& array, size_t type, size_t amount) {
  array[kAggregate].increase(amount);
  array[type].increase(amount);
}

void decrease(StatArray& array, size_t type, size_t amount) {
  array[kAggregate].decrease(amount);
  array[type].decrease(amount);
}

template <class Function>
void forEachStat(DeviceStats& stats, Function&& function) {
  for (auto* array : {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
                      &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes}) {
    for (auto& stat : *array) {
      function(stat);
    }
  }
  for (auto& [id, array] : stats.reserved_bytes_by_private_pools) {
    for (auto& stat : array) {
      function(stat);
    }
  }
  function(stats.oversize_allocations);
  function(stats.oversize_segments);
}

}  // namespace

void countAllocated(DeviceStats& stats, const Block& block) {
  const auto type = typeOf(*block.pool);
  increase(stats.allocation, type, 1);
  increase(stats.allocated_bytes, type, block.size);
  increase(stats.active, type, 1);
  increase(stats.active_bytes, type, block.size);
  increase(stats.requested_bytes, type, block.requested);
  if (block.oversize) [[unlikely]] {
    stats.oversize_allocations.increase(1);
  }
}

void countFreed(DeviceStats& stats, const Block& block) {
  const auto type = typeOf(*block.pool);
  decrease(stats.allocation, type, 1);
  decrease(stats.allocated_bytes, type, block.size);
  if (block.oversize) [[unlikely]] {
    stats.oversize_allocations.decrease(1);
  }
}

void countInactive(DeviceStats& stats, const Block& block) {
  const auto type = typeOf(*block.pool);
  decrease(stats.active, type, 1);
  decrease(stats.active_bytes, type, block.size);
  decrease(stats.requested_bytes, type, block.requested);
}

void countSplitFree(DeviceStats& stats, const Block& block) {
  if (block.isSplit()) {
    increase(stats.inactive_split, typeOf(*block.pool), 1);
    increase(stats.inactive_split_bytes, typeOf(*block.pool), block.size);
  }
}

void countSplitTaken(DeviceStats& stats, const Block& block) {
  if (block.isSplit()) {
    decrease(stats.inactive_split, typeOf(*block.pool), 1);
    decrease(stats.inactive_split_bytes, typeOf(*block.pool), block.size);
  }
}

void countNewSegment(DeviceStats& stats, const Block& block) {
  const auto& pool = *block.pool;
  ++stats.num_device_alloc;
  increase(stats.segment, typeOf(pool), 1);
  increase(stats.reserved_bytes, typeOf(pool), block.size);
  if (pool.owner != nullptr) {
    increase(stats.reserved_bytes_by_private_pools[pool.owner->id], typeOf(pool), block.size);
  }
  if (block.segment->oversize) {
    stats.oversize_segments.increase(1);
  }
}

void countReleasedSegment(DeviceStats& stats, const Block& block) {
  const auto& pool = *block.pool;
  ++stats.num_device_free;
  decrease(stats.segment, typeOf(pool), 1);
  decrease(stats.reserved_bytes, typeOf(pool), block.size);
  if (pool.owner != nullptr) {
    decrease(stats.reserved_bytes_by_private_pools[pool.owner->id], typeOf(pool), block.size);
  }
  if (block.segment->oversize) {
    stats.oversize_segments.decrease(1);
  }
}

void resetAccumulated(DeviceStats& stats) {
  forEachStat(stats, [](Stat& stat) { stat.reset_accumulated(); });
  stats.num_alloc_retries = 0;
  stats.num_ooms = 0;
  stats.num_sync_all_streams = 0;
  stats.num_device_alloc = 0;
  stats.num_device_free = 0;
}

void resetPeaks(DeviceStats& stats) {
  forEachStat(stats, [](Stat& stat) { stat.reset_peak(); });
}

}  // namespace openreg
