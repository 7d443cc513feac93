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

// Allocates device memory for tensors. Freed blocks stay cached and are reused on the stream that they were allocated for.
// Segments are released to the device by emptyCache(), and before an allocation fails with an out-of-memory error.
class BACKEND_API CachingAllocator final : public c10::DeviceAllocator {
 public:
  CachingAllocator();
  ~CachingAllocator() override;

  // Memory on the current device, for use on its current stream. Raises c10::OutOfMemoryError.
  c10::DataPtr allocate(size_t nbytes) override;

  // The same for a given device. nbytes == 0 returns a null DataPtr of that device.
  c10::DataPtr allocateOn(c10::DeviceIndex index, size_t nbytes);

  // Returns a block without an owner, for callers that create the DataPtr themselves; nbytes must not be 0. deleteBlock frees it.
  Block* allocateBlock(c10::DeviceIndex index, size_t nbytes);
  static void deleteBlock(void* block);

  // Adds an owner to memory of this allocator: the caller may create one more DataPtr with the same context and deleteBlock,
  // and the memory is freed with the last of them. Returns false, without an effect, for other memory.
  static bool addOwner(const c10::DataPtr& data) noexcept;
  static void* blockAddress(const Block* block);

  // Returns nullptr: a DataPtr's context is the block, not its address, so PyTorch's raw interface does not apply.
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* dest, const void* src, size_t count) const override;

  bool initialized() override;

  // Releases cached segments to the device: those of one private pool, which must have no users, or for (0, 0) all shared
  // segments and those of pools without users.
  void emptyCache(c10::MempoolId_t pool) override;

  void recordStream(const c10::DataPtr& data, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override;
  void resetAccumulatedStats(c10::DeviceIndex index) override;
  void resetPeakStats(c10::DeviceIndex index) override;

  // Free and total bytes of the device; cached segments count as used.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override;

  // Private pools, for graphs. From begin to end, allocations on the streams that the filter accepts come from the pool, and
  // no other allocations use it. Each begin adds a user to the pool, which is created at its first use; each releasePool
  // removes a user. Free blocks stay reserved for the users. Without users, emptyCache releases the pool's unused segments.
  // From begin to end the allocator releases no cached memory, and records or queries no event. Any allocating thread calls
  // the filter, which must not allocate.
  using StreamFilter = std::function<bool(c10::Stream)>;
  void beginAllocateToPool(c10::DeviceIndex index, c10::MempoolId_t pool, StreamFilter filter);
  void endAllocateToPool(c10::DeviceIndex index, c10::MempoolId_t pool);
  void releasePool(c10::DeviceIndex index, c10::MempoolId_t pool);
  int poolUsers(c10::DeviceIndex index, c10::MempoolId_t pool);  // 0 for a pool that does not exist

  // The part of the device's memory, from 0 to 1, that this process may reserve.
  void setMemoryFraction(c10::DeviceIndex index, double fraction);
  double memoryFraction(c10::DeviceIndex index);

  // Records the history of the memory of all devices until it is stopped.
  void startHistory(const HistoryOptions& options);
  void stopHistory();
  MemorySnapshot snapshot();

 private:
  DeviceCache& cache(c10::DeviceIndex index);

  std::vector<std::unique_ptr<DeviceCache>> caches_;
};

BACKEND_API CachingAllocator& cachingAllocator();

// Returns a new id for a pool. By PyTorch's convention, the first number is set for the pool of a graph, the second for a
// pool that the user created.
BACKEND_API c10::MempoolId_t newMempoolId();

}  // namespace openreg
