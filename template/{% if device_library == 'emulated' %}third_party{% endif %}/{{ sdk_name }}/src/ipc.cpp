#include "ipc.h"

#include "ipc_event.h"
#include "runtime.h"

namespace emulator {
namespace {

constexpr const char* kUnknown =
    "process %lu does not share what this handle says; it was made by another version of this library, or altered";
constexpr const char* kEnded =
    "the process that made this handle (%lu) has ended; keep it running as long as others use its memory or events";

Status open(const platform::ProcessId& process, std::uint64_t name, platform::Backing* backing) {
  *backing = platform::openBacking(process, name);
  if (*backing != platform::kNoBacking) {
    return Status::Success;
  }
  if (!platform::isRunning(process)) {
    return fail(Status::InvalidHandle, kEnded, static_cast<unsigned long>(process.number));
  }
  return fail(
      Status::NotSupported,
      "the system does not let this process open the memory of process %lu; run both as the same user, in the same container, and let "
      "processes see each other (on Linux, /proc/%lu/fd has to be readable)",
      static_cast<unsigned long>(process.number), static_cast<unsigned long>(process.number));
}

}  // namespace

Status Peer::open(const IpcHandle& handle, std::shared_ptr<Peer>* peer) {
  const platform::ProcessId process = handle.processId();
  if (!platform::isRunning(process)) {
    return fail(Status::InvalidHandle, kEnded, static_cast<unsigned long>(process.number));
  }
  static std::mutex mutex;
  static auto& known = *new std::map<std::uint64_t, std::weak_ptr<Peer>>;
  const std::lock_guard lock(mutex);
  if (*peer = known[handle.exporter].lock(); *peer != nullptr) {
    return Status::Success;
  }
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  platform::Backing backing = platform::kNoBacking;
  if (const Status status = emulator::open(process, handle.board, &backing); status != Status::Success) {
    return status;
  }
  auto* const board = static_cast<Board*>(platform::mapAnywhere(backing, sizeof(Board)));
  platform::closeBacking(backing);
  if (board == nullptr) {
    return fail(Status::InvalidHandle, kUnknown, static_cast<unsigned long>(process.number));
  }
  *peer = std::make_shared<Peer>(board);
  if (board->magic.load() != Board::kMagic || board->exporter.load() != handle.exporter) {
    peer->reset();
    return fail(Status::InvalidHandle, kUnknown, static_cast<unsigned long>(process.number));
  }
  known[handle.exporter] = *peer;
  return Status::Success;
}

Peer::~Peer() {
  platform::unmapAnywhere(board, sizeof(Board));
}

Status Ipc::requireBoard() {
  if (board_ != nullptr) {
    return Status::Success;
  }
  const platform::Backing backing = platform::createBacking(sizeof(Board));
  void* const memory = backing != platform::kNoBacking ? platform::mapAnywhere(backing, sizeof(Board)) : nullptr;
  if (memory == nullptr || !platform::commit(reinterpret_cast<std::uintptr_t>(memory), sizeof(Board))) {
    return fail(Status::MemoryAllocation, "the host has no shared memory left, by which other processes would find this one");
  }
  board_ = static_cast<Board*>(memory);  // the memory is zeroed
  board_name_ = platform::nameOf(backing);
  exporter_ = platform::randomNumber();
  process_ = platform::thisProcess();
  board_->exporter.store(exporter_);
  board_->magic.store(Board::kMagic);
  return Status::Success;
}

IpcHandle Ipc::makeHandle(std::uint32_t magic, std::uint32_t slot, std::uint64_t serial) const {
  IpcHandle handle;
  handle.magic = magic;
  handle.process = process_.number;
  handle.started = process_.started;
  handle.exporter = exporter_;
  handle.board = board_name_;
  handle.serial = serial;
  handle.slot = slot;
  return handle;
}

Status Ipc::exportMemory(Device& device, const Allocation& allocation, IpcHandle* handle) {
  const std::lock_guard lock(mutex_);
  if (const Status status = requireBoard(); status != Status::Success) {
    return status;
  }
  if (const auto known = exports_.find(allocation.base); known != exports_.end()) {
    *handle = makeHandle(kMemoryMagic, known->second, board_->memory[known->second].serial.load());
    return Status::Success;
  }
  if (free_slots_.empty() && exports_.size() == Board::kMemorySlots) {
    return fail(Status::MemoryAllocation, "%zu allocations are shared with other processes already; free some", exports_.size());
  }
  const bool reuse = !free_slots_.empty();
  const auto index = reuse ? free_slots_.back() : static_cast<std::uint32_t>(exports_.size());
  free_slots_.reserve(exports_.size() + 1);
  exports_.emplace(allocation.base, index);
  if (reuse) {
    free_slots_.pop_back();
  }
  has_exports_.store(true);
  MemorySlot& slot = board_->memory[index];
  slot.backing.store(platform::nameOf(device.memory.backing()));
  slot.offset.store(allocation.base - device.memory.base());
  slot.size.store(allocation.size);
  slot.device.store(static_cast<std::uint32_t>(device.index));
  slot.serial.store(++last_serial_);
  *handle = makeHandle(kMemoryMagic, index, last_serial_);
  return Status::Success;
}

void Ipc::withdraw(std::uintptr_t address) {
  if (!has_exports_.load(std::memory_order_relaxed)) [[likely]] {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (const auto known = exports_.find(address); known != exports_.end()) {
    board_->memory[known->second].serial.store(0);
    free_slots_.push_back(known->second);
    exports_.erase(known);
  }
}

Status Ipc::findPeer(const IpcHandle& handle, std::shared_ptr<Peer>* peer) {
  {
    const std::lock_guard lock(mutex_);
    if (board_ != nullptr && handle.exporter == exporter_) {
      return fail(Status::NotSupported, "this process made the handle itself; use what it was made from");
    }
  }
  return Peer::open(handle, peer);
}

Status Ipc::openMemory(Runtime& runtime, const IpcHandle& handle, void** pointer) {
  if (handle.magic != kMemoryMagic || handle.slot >= Board::kMemorySlots || handle.serial == 0) {
    return fail(Status::InvalidHandle, "these bytes are no handle of memory; pass on the bytes as they were given");
  }
  std::shared_ptr<Peer> peer;
  if (const Status status = findPeer(handle, &peer); status != Status::Success) {
    return status;
  }
  const MemorySlot& slot = peer->board->memory[handle.slot];
  const std::uint64_t backing_name = slot.backing.load();
  const std::uint64_t offset = slot.offset.load();
  const std::uint64_t size = slot.size.load();
  const std::uint32_t device = slot.device.load();
  if (slot.serial.load() != handle.serial) {
    return fail(
        Status::InvalidHandle, "process %lu has freed the memory of this handle; keep it allocated until it is not used any more",
        static_cast<unsigned long>(handle.process));
  }
  if (device >= static_cast<std::uint32_t>(runtime.deviceCount())) {
    return fail(
        Status::InvalidDevice, "the memory is on device %u of process %lu, and this process has %d devices; give it as many", device,
        static_cast<unsigned long>(handle.process), runtime.deviceCount());
  }
  if (const Status status = runtime.device(static_cast<int>(device)).check(); status != Status::Success) {
    return status;
  }
  ImportWindow& window = runtime.device(static_cast<int>(device)).memory.imports;
  const ImportKey key{handle.exporter, handle.serial};
  if (window.reopen(key, pointer)) {
    return Status::Success;
  }
  platform::Backing backing = platform::kNoBacking;
  if (const Status status = emulator::open(handle.processId(), backing_name, &backing); status != Status::Success) {
    return status;
  }
  const Status status = window.open(key, backing, offset, size, pointer);
  platform::closeBacking(backing);
  return status;
}

Status Ipc::shareEvent(int device, std::shared_ptr<SharedEvent>* event) {
  const std::lock_guard lock(mutex_);
  if (const Status status = requireBoard(); status != Status::Success) {
    return status;
  }
  if (free_events_.empty()) {
    if (event_count_ == Board::kEventSlots) {
      return fail(Status::MemoryAllocation, "%zu events are shared with other processes already; destroy some", Board::kEventSlots);
    }
    free_events_.reserve(event_count_ + 1);
    free_events_.push_back(event_count_++);
  }
  const std::uint32_t index = free_events_.back();
  EventSlot& slot = board_->events[index];
  *event = std::make_shared<SharedEvent>(*this, makeHandle(kEventMagic, index, ++last_serial_), slot);
  free_events_.pop_back();
  for (EventSlot::Mark& mark : slot.marks) {
    mark.done.store(slot.recorded.load());
  }
  slot.device.store(static_cast<std::uint32_t>(device));
  slot.serial.store(last_serial_);
  return Status::Success;
}

void Ipc::takeBackEvent(std::uint32_t slot) {
  const std::lock_guard lock(mutex_);
  board_->events[slot].serial.store(0);
  free_events_.push_back(slot);
}

Status Ipc::openEvent(Runtime& runtime, const IpcHandle& handle, std::shared_ptr<SharedEvent>* event) {
  if (handle.magic != kEventMagic || handle.slot >= Board::kEventSlots || handle.serial == 0) {
    return fail(Status::InvalidHandle, "these bytes are no handle of an event; pass on the bytes as they were given");
  }
  std::shared_ptr<Peer> peer;
  if (const Status status = findPeer(handle, &peer); status != Status::Success) {
    return status;
  }
  EventSlot& slot = peer->board->events[handle.slot];
  const std::uint32_t device = slot.device.load();
  if (slot.serial.load() != handle.serial) {
    return fail(
        Status::InvalidHandle, "process %lu has destroyed the event of this handle; keep it until it is not used any more",
        static_cast<unsigned long>(handle.process));
  }
  if (device >= static_cast<std::uint32_t>(runtime.deviceCount())) {
    return fail(
        Status::InvalidDevice, "the event is of device %u of process %lu, and this process has %d devices; give it as many", device,
        static_cast<unsigned long>(handle.process), runtime.deviceCount());
  }
  *event = std::make_shared<SharedEvent>(std::move(peer), handle, slot);
  return Status::Success;
}

}  // namespace emulator
