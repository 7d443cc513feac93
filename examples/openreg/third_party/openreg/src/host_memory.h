// Pinned host memory: allocations that the host may access and that copies may use asynchronously.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>

#include "device_memory.h"
#include "status.h"

namespace emulator {

// Thread-safe.
class HostMemory {
 public:
  Status allocate(std::size_t size, void** pointer);
  bool isStart(std::uintptr_t address);
  Status release(std::uintptr_t address);

  // The allocation that contains an address.
  bool find(std::uintptr_t address, Allocation* allocation);

 private:
  std::shared_mutex mutex_;
  std::map<std::uintptr_t, std::size_t> allocations_;
  // The bounds of all allocations so far. They identify most pageable memory without the lock.
  std::atomic<std::uintptr_t> lowest_{UINTPTR_MAX};
  std::atomic<std::uintptr_t> highest_{0};
};

}  // namespace emulator
