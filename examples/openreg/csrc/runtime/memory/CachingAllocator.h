#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <functional>
#include <memory>
#include <vector>

#include "runtime/Functions.h"
#include "runtime/memory/MemorySnapshot.h"

namespace openreg {

struct Block;
struct HistoryOptions;
class DeviceCache;

// Device memory for tensors. Freed blocks stay cached and are handed out again on the stream they were allocated on;
// segments go back to the device with emptyCache(), and before an allocation is given up as out of memory.
class BACKEND_API CachingAllocator final : public c10::DeviceAllocator {
 public:
  CachingAllocator();
  ~CachingAllocator() override;

  // Memory on the current device, for use on its current stream. Raises c10::OutOfMemoryError.
  c10::DataPtr allocate(size_t nbytes) override;

  // The same for a given device. nbytes == 0 gives a null DataPtr of that device.
  c10::DataPtr allocateOn(c10::DeviceIndex index, size_t nbytes);

  // A block without an owner, for callers that build the DataPtr themselves; nbytes must not be 0. deleteBlock frees it.
  Block* allocateBlock(c10::DeviceIndex index, size_t nbytes);
  static void deleteBlock(void* block);

  // One more owner for memory that this allocator made: a second DataPtr with the same context and deleteBlock may be built
  // then, and the memory is freed with the last of them. False, without an effect, for memory of another origin.
  static bool addOwner(const c10::DataPtr& data) noexcept;
  static void* blockAddress(const Block* block);

  // nullptr: a DataPtr's context is the block, not its address, so PyTorch's raw interface does not apply.
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* dest, const void* src, size_t count) const override;

  bool initialized() override;

  // Gives cached segments back to the device: those of one private pool, which has no users any more, or for (0, 0) all
  // that everybody shares and all of pools without users.
  void emptyCache(c10::MempoolId_t pool) override;

  void recordStream(const c10::DataPtr& data, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override;
  void resetAccumulatedStats(c10::DeviceIndex index) override;
  void resetPeakStats(c10::DeviceIndex index) override;

  // Free and total bytes of the device, cached segments counted as used.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override;

  // Private pools, which graphs need: from begin to end, allocations on the streams that the filter accepts come from the
  // pool, and memory of the pool goes to nobody else. Each begin adds a user to the pool, made on first use, and releasePool takes
  // one away; without users it is given back by emptyCache as far as nothing lives in it. In between, free blocks stay
  // reserved for its users. From begin to end the device's cache is not given up, and no event is recorded or asked for.
  // The filter is called by whichever thread allocates, and must not allocate.
  using StreamFilter = std::function<bool(c10::Stream)>;
  void beginAllocateToPool(c10::DeviceIndex index, c10::MempoolId_t pool, StreamFilter filter);
  void endAllocateToPool(c10::DeviceIndex index, c10::MempoolId_t pool);
  void releasePool(c10::DeviceIndex index, c10::MempoolId_t pool);
  int poolUsers(c10::DeviceIndex index, c10::MempoolId_t pool);  // 0 for a pool that does not exist

  // The part of the device's memory, from 0 to 1, that this process may reserve.
  void setMemoryFraction(c10::DeviceIndex index, double fraction);
  double memoryFraction(c10::DeviceIndex index);

  // Records what happens to the memory of all devices, until it is stopped.
  void startHistory(const HistoryOptions& options);
  void stopHistory();
  MemorySnapshot snapshot();

 private:
  DeviceCache& cache(c10::DeviceIndex index);

  std::vector<std::unique_ptr<DeviceCache>> caches_;
};

BACKEND_API CachingAllocator& cachingAllocator();

// An id that no other pool has. PyTorch's convention: the first number is set for the pool of a graph, the second for one that
// the user made.
BACKEND_API c10::MempoolId_t newMempoolId();

}  // namespace openreg
