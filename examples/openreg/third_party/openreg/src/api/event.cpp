// Event functions of the C interface.
#include "api.h"

using namespace emulator;
using namespace emulator::api;

static_assert(Event::kBlockingSync == orEventBlockingSync);
static_assert(Event::kDisableTiming == orEventDisableTiming);
static_assert(Event::kInterprocess == orEventInterprocess);

namespace {

Status createEvent(Runtime& runtime, ThreadState& thread, orEvent_t* event, unsigned flags) {
  EMULATOR_TRY(requireOutput(event, "event"));
  if ((flags & ~(Event::kBlockingSync | Event::kDisableTiming | Event::kInterprocess)) != 0) {
    return fail(Status::InvalidValue, "unknown flags %#x", flags);
  }
  if ((flags & Event::kInterprocess) != 0 && (flags & Event::kDisableTiming) == 0) {
    return fail(
        Status::InvalidValue,
        "an event for several processes cannot record timestamps, as their clocks cannot be compared; add the flag that disables timing");
  }
  EMULATOR_TRY(runtime.currentDevice(thread).check());
  const auto entry = runtime.events.acquire();
  if (entry.object == nullptr) {
    return fail(Status::MemoryAllocation, "there are too many events; destroy some");
  }
  entry.object->open(thread.device, flags);
  runtime.events.publish(entry.handle);
  *event = reinterpret_cast<orEvent_t>(entry.handle);
  return Status::Success;
}

}  // namespace

orError_t orEventCreate(orEvent_t* event) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState& thread) {
    return createEvent(runtime, thread, event, 0);
  });
}

orError_t orEventCreateWithFlags(orEvent_t* event, unsigned int flags) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState& thread) {
    return createEvent(runtime, thread, event, flags);
  });
}

orError_t orEventDestroy(orEvent_t event) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState&) {
    const auto handle = reinterpret_cast<std::uintptr_t>(event);
    Event* const retired = runtime.events.retire(handle);
    if (retired == nullptr) {
      return fail(Status::InvalidHandle, "this is no live event; it was destroyed before, or is no handle of this library");
    }
    retired->close();
    runtime.events.recycle(handle);
    return Status::Success;
  });
}

orError_t orEventRecord(orEvent_t event, orStream_t stream) {
  return callEvent(__func__, event, [&](Runtime& runtime, ThreadState& thread, Event& target) {
    Stream* const source = runtime.findStream(thread, reinterpret_cast<std::uintptr_t>(stream));
    if (source == nullptr) {
      return Status::InvalidHandle;
    }
    EMULATOR_LOG(*source, "record", "event=%p", static_cast<void*>(event));
    return target.record(*source);
  });
}

orError_t orEventSynchronize(orEvent_t event) {
  return callEvent(__func__, event, [](Runtime& runtime, ThreadState& thread, Event& target) {
    EMULATOR_TRY(target.synchronize(thread));
    return checkDevice(runtime, target);
  });
}

orError_t orEventQuery(orEvent_t event) {
  return callEvent(__func__, event, [](Runtime& runtime, ThreadState&, Event& target) {
    const Status status = target.query();
    if (status == Status::NotReady) {
      runtime.hurry();
    }
    return status;
  });
}

orError_t orEventElapsedTime(float* milliseconds, orEvent_t start, orEvent_t end) {
  return callEvent(__func__, start, [&](Runtime& runtime, ThreadState&, Event& first) {
    EMULATOR_TRY(requireOutput(milliseconds, "milliseconds"));
    Event* const second = runtime.findEvent(reinterpret_cast<std::uintptr_t>(end));
    if (second == nullptr) {
      return Status::InvalidHandle;
    }
    EMULATOR_TRY(checkDevice(runtime, *second));
    if (first.device() != second->device()) {
      return fail(Status::InvalidValue, "the events belong to different devices, whose clocks cannot be compared");
    }
    std::int64_t from = 0;
    std::int64_t to = 0;
    const Status from_status = first.time(&from);
    const Status to_status = second->time(&to);
    // Report a wrong argument rather than pending work.
    if (from_status != Status::Success && (from_status != Status::NotReady || to_status == Status::Success)) {
      return from_status;
    }
    EMULATOR_TRY(to_status);
    *milliseconds = static_cast<float>(static_cast<double>(to - from) * 1e-6);
    return Status::Success;
  });
}
