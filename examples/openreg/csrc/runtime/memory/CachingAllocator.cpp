#include "runtime/memory/CachingAllocator.h"

#include <atomic>

#include "device/Device.h"
#include "device/Memory.h"
#include "runtime/Stream.h"
#include "runtime/memory/DeviceCache.h"
#include "runtime/memory/InlineKernel.h"

namespace openreg {

CachingAllocator::CachingAllocator() = default;
CachingAllocator::~CachingAllocator() = default;

DeviceCache& CachingAllocator::cache(c10::DeviceIndex index) {
  // Separate from the constructor, because that runs while the library loads, and counting devices starts the SDK.
  static const bool ready = [this] {
    ensureInitialized();
    for (c10::DeviceIndex i = 0; i < deviceCount(); ++i) {
      caches_.push_back(std::make_unique<DeviceCache>(i));
    }
    return true;
  }();
  static_cast<void>(ready);
  return *caches_[index];
}

Block* CachingAllocator::allocateBlock(c10::DeviceIndex index, size_t nbytes) {
  Block* block = cache(index).allocate(nbytes, currentStream(index).id());
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
    const auto stats = cache(index).stats();
    c10::reportMemoryUsageToProfiler(block->address, static_cast<int64_t>(block->size), stats.allocated_bytes[0].current,
                                     stats.reserved_bytes[0].current, c10::Device(kDeviceType, index));
  }
  return block;
}

bool CachingAllocator::addOwner(const c10::DataPtr& data) noexcept {
  if (data.get_deleter() != &deleteBlock) {
    return false;
  }
  static_cast<Block*>(data.get_context())->other_owners.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void CachingAllocator::deleteBlock(void* context) {
  auto* block = static_cast<Block*>(context);
  if (block->other_owners.load(std::memory_order_acquire) > 0) [[unlikely]] {
    if (block->other_owners.fetch_sub(1, std::memory_order_acq_rel) > 0) {
      return;
    }
    block->other_owners.store(0, std::memory_order_relaxed);
  }
  auto& cache = cachingAllocator().cache(block->device);
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
    const auto stats = cache.stats();
    c10::reportMemoryUsageToProfiler(block->address, -static_cast<int64_t>(block->size), stats.allocated_bytes[0].current - block->size,
                                     stats.reserved_bytes[0].current, c10::Device(kDeviceType, block->device));
  }
  if (InlineKernel::otherThreadsOn(block->device, block->stream)) [[unlikely]] {
    // The kernel may allocate at an earlier position of the stream than work that uses this block. Therefore the block waits
    // until the stream has reached this point.
    block->uses.emplace_back(c10::Stream::UNSAFE, c10::Device(kDeviceType, block->device), block->stream);
  }
  cache.free(block);
}

void* CachingAllocator::blockAddress(const Block* block) {
  return block->address;
}

c10::DataPtr CachingAllocator::allocateOn(c10::DeviceIndex index, size_t nbytes) {
  const c10::Device device(kDeviceType, index);
  if (nbytes == 0) {
    return {nullptr, device};
  }
  Block* block = allocateBlock(index, nbytes);
  return {block->address, block, &deleteBlock, device};
}

c10::DataPtr CachingAllocator::allocate(size_t nbytes) {
  return allocateOn(currentDevice(), nbytes);
}

c10::DeleterFnPtr CachingAllocator::raw_deleter() const {
  return nullptr;
}

void CachingAllocator::copy_data(void* dest, const void* src, size_t count) const {
  device::copyAsync(dest, src, count, currentStreamHandle(currentDevice()));
}

bool CachingAllocator::initialized() {
  return !caches_.empty();
}

void CachingAllocator::emptyCache(c10::MempoolId_t pool) {
  for (auto& cache : caches_) {
    cache->emptyCache(pool);
  }
}

void CachingAllocator::recordStream(const c10::DataPtr& data, c10::Stream stream) {
  // Other memory (from_blob, another process) has an owner that handles its streams.
  if (data.get() != nullptr && data.get_deleter() == &deleteBlock) {
    auto* block = static_cast<Block*>(data.get_context());
    cache(block->device).recordStream(block, stream);
  }
}

c10::CachingDeviceAllocator::DeviceStats CachingAllocator::getDeviceStats(c10::DeviceIndex index) {
  checkDeviceIndex(index);
  return cache(index).stats();
}

void CachingAllocator::resetAccumulatedStats(c10::DeviceIndex index) {
  checkDeviceIndex(index);
  cache(index).resetAccumulatedStats();
}

void CachingAllocator::resetPeakStats(c10::DeviceIndex index) {
  checkDeviceIndex(index);
  cache(index).resetPeakStats();
}

std::pair<size_t, size_t> CachingAllocator::getMemoryInfo(c10::DeviceIndex index) {
  checkDeviceIndex(index);
  const auto info = device::memoryInfo(index);
  return {info.free, info.total};
}

void CachingAllocator::beginAllocateToPool(c10::DeviceIndex index, c10::MempoolId_t pool, StreamFilter filter) {
  checkDeviceIndex(index);
  cache(index).beginAllocateToPool(pool, std::move(filter));
}

void CachingAllocator::endAllocateToPool(c10::DeviceIndex index, c10::MempoolId_t pool) {
  checkDeviceIndex(index);
  cache(index).endAllocateToPool(pool);
}

void CachingAllocator::releasePool(c10::DeviceIndex index, c10::MempoolId_t pool) {
  checkDeviceIndex(index);
  cache(index).releasePool(pool);
}

int CachingAllocator::poolUsers(c10::DeviceIndex index, c10::MempoolId_t pool) {
  checkDeviceIndex(index);
  return cache(index).poolUsers(pool);
}

void CachingAllocator::setMemoryFraction(c10::DeviceIndex index, double fraction) {
  checkDeviceIndex(index);
  cache(index).setMemoryFraction(fraction);
}

double CachingAllocator::memoryFraction(c10::DeviceIndex index) {
  checkDeviceIndex(index);
  return cache(index).memoryFraction();
}

void CachingAllocator::startHistory(const HistoryOptions& options) {
  for (c10::DeviceIndex i = 0; i < deviceCount(); ++i) {
    cache(i).startHistory(options);
  }
}

void CachingAllocator::stopHistory() {
  for (auto& cache : caches_) {
    cache->stopHistory();
  }
}

MemorySnapshot CachingAllocator::snapshot() {
  MemorySnapshot snapshot;
  for (auto& cache : caches_) {
    cache->addTo(snapshot);
  }
  return snapshot;
}

c10::MempoolId_t newMempoolId() {
  static std::atomic<c10::CaptureId_t> last{0};
  return {++last, 0};
}

CachingAllocator& cachingAllocator() {
  // Never destroyed, because tensors may outlive every static object of this library.
  static auto& allocator = *new CachingAllocator;
  return allocator;
}

namespace {

const bool allocator_registered = [] {
  c10::SetAllocator(kDeviceType, &cachingAllocator());
  return true;
}();

}  // namespace

}  // namespace openreg
