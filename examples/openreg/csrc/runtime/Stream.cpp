#include "runtime/Stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "device/Capabilities.h"
#include "runtime/Guard.h"

namespace openreg {
namespace {

constexpr size_t kStreamsPerPriority = 32;
constexpr int kMaxPriorities = 4;
constexpr size_t kMaxDevices = 128;  // c10::DeviceIndex is an int8_t

constinit std::atomic<CaptureQuery> capture_query{nullptr};

// Streams are never destroyed, because tensors, events and other threads may refer to them until the process ends.
class DeviceStreams {
 public:
  device::StreamHandle defaultHandle(c10::DeviceIndex index) {
    return get(default_, 0, index);
  }

  device::StreamHandle pooled(size_t priority_slot, size_t position, c10::DeviceIndex index) {
    return get(pool_.at(priority_slot).at(position), -static_cast<int>(priority_slot), index);
  }

  size_t nextPosition(size_t priority_slot) {
    return next_.at(priority_slot).fetch_add(1, std::memory_order_relaxed) % kStreamsPerPriority;
  }

 private:
  using Slot = std::atomic<device::StreamHandle>;

  device::StreamHandle get(Slot& slot, int priority, c10::DeviceIndex index) {
    if (auto* handle = slot.load(std::memory_order_acquire)) [[likely]] {
      return handle;
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    if (auto* handle = slot.load(std::memory_order_relaxed)) {
      return handle;
    }
    const DeviceGuard device_guard(c10::Device(kDeviceType, index));
    auto* handle = device::createStream(priority);
    slot.store(handle, std::memory_order_release);
    return handle;
  }

  std::mutex mutex_;
  Slot default_{nullptr};
  std::array<std::array<Slot, kStreamsPerPriority>, kMaxPriorities> pool_{};
  std::array<std::atomic<size_t>, kMaxPriorities> next_{};
};

DeviceStreams& streamsOf(c10::DeviceIndex index) {
  static auto& all = *new std::vector<DeviceStreams>(deviceCount());
  return all[index];
}

// The highest priority that both the device and the encoding of ids support, as a positive slot number.
int greatestSlot() {
  static const int slot = std::min(-priorityRange().greatest, kMaxPriorities - 1);
  return slot;
}

c10::StreamId encode(size_t priority_slot, size_t position) {
  return -1 - static_cast<c10::StreamId>(position * kMaxPriorities + priority_slot);
}

thread_local std::array<c10::StreamId, kMaxDevices> current_streams{};

c10::Stream makeStream(c10::StreamId id, c10::DeviceIndex index) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, index), id);
}

device::StreamHandle handleOf(c10::StreamId id, c10::DeviceIndex index) {
  if (id == 0) {
    return streamsOf(index).defaultHandle(index);
  }
  if (id < 0) {
    const auto slot = static_cast<size_t>(-1 - id);
    return streamsOf(index).pooled(slot % kMaxPriorities, slot / kMaxPriorities, index);
  }
  return reinterpret_cast<device::StreamHandle>(id);  // NOLINT: an external stream's id is its handle
}

}  // namespace

Stream::Stream(c10::Stream stream) : stream_(stream) {
  TORCH_CHECK(
      stream.device_type() == kDeviceType, "expected a stream of a ", c10::get_privateuse1_backend(), " device, got one of ",
      stream.device());
  checkDeviceIndex(stream.device_index());
}

device::StreamHandle Stream::handle() const {
  return handleOf(id(), device_index());
}

bool Stream::query() const {
  return device::queryStream(handle());
}

bool Stream::isCapturing() const {
  const auto query = capture_query.load(std::memory_order_relaxed);
  return query != nullptr && query(handle());
}

void setCaptureQuery(CaptureQuery query) {
  capture_query = query;
}

void Stream::synchronize() const {
  device::synchronizeStream(handle());
}

int Stream::priority() const {
  return device::hasCapability("priorities") ? device::streamPriority(handle()) : 0;
}

device::PriorityRange priorityRange() {
  return device::hasCapability("priorities") ? device::priorityRange() : device::PriorityRange{};
}

Stream defaultStream(c10::DeviceIndex index) {
  return Stream(makeStream(0, resolveDevice(index)));
}

Stream streamFromPool(int priority, c10::DeviceIndex index) {
  index = resolveDevice(index);
  ensureInitialized();
  const auto slot = static_cast<size_t>(std::clamp(-priority, 0, greatestSlot()));
  return Stream(makeStream(encode(slot, streamsOf(index).nextPosition(slot)), index));
}

Stream streamFromExternal(device::StreamHandle handle, c10::DeviceIndex index) {
  checkDeviceIndex(index);
  TORCH_CHECK_VALUE(reinterpret_cast<c10::StreamId>(handle) > 0, "an external stream needs the handle of a stream, got ", handle);
  TORCH_CHECK_VALUE(
      device::streamDevice(handle) == index, "the external stream belongs to device ", device::streamDevice(handle), ", not to device ",
      static_cast<int>(index));
  return Stream(makeStream(reinterpret_cast<c10::StreamId>(handle), index));
}

Stream currentStream(c10::DeviceIndex index) {
  index = resolveDevice(index);
  return Stream(makeStream(current_streams[index], index));
}

void setCurrentStream(Stream stream) {
  checkDeviceIndex(stream.device_index());
  current_streams[stream.device_index()] = stream.id();
}

c10::StreamId currentStreamId(c10::DeviceIndex index) {
  return current_streams[index];
}

device::StreamHandle currentStreamHandle(c10::DeviceIndex index) {
  return handleOf(current_streams[index], index);
}

}  // namespace openreg
