#include "HostMemory.h"

#include <ATen/core/CachingHostAllocator.h>

namespace openreg {

namespace {

at::HostAllocator& allocator() {
  at::HostAllocator* allocator = at::getHostAllocator(at::kPrivateUse1);
  TORCH_CHECK_NOT_IMPLEMENTED(allocator != nullptr, "this device has no allocator for pinned host memory");
  return *allocator;
}

}  // namespace

std::map<std::string, int64_t> hostMemoryStats() {
  const at::HostStats stats = allocator().get_stats();
  std::map<std::string, int64_t> result;
  const auto addStat = [&](const std::string& name, const auto& stat) {
    result[name + ".current"] = stat.current;
    result[name + ".peak"] = stat.peak;
    result[name + ".allocated"] = stat.allocated;
    result[name + ".freed"] = stat.freed;
  };
  const auto addDuration = [&](const std::string& name, const auto& stat) {
    result[name + ".total"] = stat.total;
    result[name + ".max"] = stat.max;
    result[name + ".min"] = stat.min;
    result[name + ".count"] = stat.count;
    result[name + ".avg"] = stat.count == 0 ? 0 : stat.total / stat.count;
  };
  addStat("allocations", stats.allocations);
  addStat("allocated_bytes", stats.allocated_bytes);
  addStat("active_requests", stats.active_requests);
  addStat("active_bytes", stats.active_bytes);
  addDuration("host_alloc_time", stats.host_alloc_time);
  addDuration("host_free_time", stats.host_free_time);
  result["num_host_alloc"] = stats.num_host_alloc;
  result["num_host_free"] = stats.num_host_free;
  return result;
}

void resetAccumulatedHostMemoryStats() {
  allocator().reset_accumulated_stats();
}

void resetPeakHostMemoryStats() {
  allocator().reset_peak_stats();
}

}  // namespace openreg
