#include "copy.h"

#include "launch_log.h"
#include "work.h"

namespace emulator {
namespace {

// The properties of a range of memory.
struct Range {
  std::uintptr_t start = 0;  // as a kernel sees it
  bool on_device = false;
  bool pinned = false;
};

Status inspect(Runtime& runtime, const void* pointer, std::size_t size, const char* role, Range* range) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (pointer == nullptr) {
    return fail(Status::InvalidValue, "the %s is null", role);
  }
  Allocation allocation;
  Device* const device = runtime.deviceAt(address);
  const bool found = device != nullptr ? device->memory.find(address, &allocation) : runtime.host.find(address, &allocation);
  if (device != nullptr) {
    if (const Status status = device->check(); status != Status::Success) {
      return status;
    }
  }
  if (device != nullptr && !found) {
    return fail(
        Status::InvalidPointer, "nothing is allocated at the %s %p on device %d; it was freed before, or is out of bounds", role, pointer,
        device->index);
  }
  if (found && !allocation.covers(address, size)) {
    return fail(
        Status::InvalidValue, "%zu bytes from the %s %p on leave its allocation of %zu bytes at %#zx", size, role, pointer, allocation.size,
        static_cast<std::size_t>(allocation.base));
  }
  *range = {
      device != nullptr ? address + static_cast<std::uintptr_t>(runtime.space.kernelOffset()) : address, device != nullptr,
      found && device == nullptr};
  return Status::Success;
}

Status checkDirection(Direction direction, bool to_device, bool from_device) {
  const int value = static_cast<int>(direction);
  if (value < 0 || value > static_cast<int>(Direction::Default)) {
    return fail(Status::InvalidValue, "%d is no kind of copy", value);
  }
  const auto actual = static_cast<Direction>((from_device ? 2 : 0) + (to_device ? 1 : 0));
  if (direction == Direction::Default || direction == actual) {
    return Status::Success;
  }
  const auto name = [](bool on_device) { return on_device ? "device" : "host"; };
  return fail(
      Status::InvalidMemcpyDirection, "the source is %s memory and the destination is %s memory, which the kind of copy contradicts",
      name(from_device), name(to_device));
}

// Runs on the calling thread if the copy must be complete, or takes less time than waking a worker; else it is queued.
template <class Work>
Status submit(Runtime& runtime, ThreadState& thread, Kind kind, Work work, Stream& stream, bool wait) {
  if (wait || (runtime.mode() == LaunchMode::Blocking && !stream.capturing())) {
    return stream.runInline(thread, &Work::run, &work);
  }
  const bool at_once = runtime.mayRunAtOnce() && work.size < kWorthQueueing;
  return stream.launch(thread, kind, &Work::run, &work, sizeof(work), at_once);
}

}  // namespace

Status copy(Runtime& runtime, ThreadState& thread, const CopyRequest& request, Stream& stream, bool wait) {
  const std::size_t size = request.size;
  if (size == 0) {
    return wait ? stream.drain(thread) : Status::Success;
  }
  Range to;
  Range from;
  if (const Status status = inspect(runtime, request.destination, size, "destination", &to); status != Status::Success) {
    return status;
  }
  if (const Status status = inspect(runtime, request.source, size, "source", &from); status != Status::Success) {
    return status;
  }
  if (const Status status = checkDirection(request.direction, to.on_device, from.on_device); status != Status::Success) {
    return status;
  }
  if (to.start - from.start < size || from.start - to.start < size) {
    return fail(
        Status::InvalidValue, "source %p and destination %p overlap within %zu bytes; copy through other memory", request.source,
        request.destination, size);
  }
  const bool pageable = !(to.on_device || to.pinned) || !(from.on_device || from.pinned);
  if (pageable && stream.capturing()) [[unlikely]] {
    return runtime.captures.refuse(
        stream,
        "a copy from or to pageable host memory is synchronous and cannot be captured; use pinned memory, which must live as long as the "
        "graph");
  }
  EMULATOR_LOG(stream, "copy", "from=%p to=%p size=%zu", request.source, request.destination, size);
  const CopyWork work{reinterpret_cast<void*>(to.start), reinterpret_cast<const void*>(from.start), size};
  return submit(runtime, thread, Kind::Copy, work, stream, wait || pageable);
}

Status fill(Runtime& runtime, ThreadState& thread, const FillRequest& request, Stream& stream, bool wait) {
  if (request.size == 0) {
    return wait ? stream.drain(thread) : Status::Success;
  }
  Range to;
  if (const Status status = inspect(runtime, request.destination, request.size, "destination", &to); status != Status::Success) {
    return status;
  }
  if (!to.on_device) {
    return fail(Status::InvalidPointer, "%p is not device memory; fill host memory with memset", request.destination);
  }
  EMULATOR_LOG(stream, "fill", "at=%p value=%#x size=%zu", request.destination, static_cast<unsigned>(request.value) & 0xff, request.size);
  const FillWork work{reinterpret_cast<void*>(to.start), request.value, request.size};
  return submit(runtime, thread, Kind::Fill, work, stream, wait);
}

}  // namespace emulator
