// Stream functions of the C interface.
#include "api.h"

using namespace emulator;
using namespace emulator::api;

namespace {

Status createStream(Runtime& runtime, ThreadState& thread, orStream_t* stream, unsigned flags, int priority) {
  EMULATOR_TRY(requireOutput(stream, "stream"));
  if (flags != 0) {
    return fail(Status::InvalidValue, "unknown flags %#x; pass 0", flags);
  }
  if (priority > kLeastPriority || priority < kGreatestPriority) {
    return fail(
        Status::InvalidValue, "the priority %d is not between %d (served last) and %d (served first)", priority, kLeastPriority,
        kGreatestPriority);
  }
  EMULATOR_TRY(runtime.currentDevice(thread).check());
  const auto entry = runtime.streams.acquire();
  if (entry.object == nullptr) {
    return fail(Status::MemoryAllocation, "there are too many streams; destroy some");
  }
  Device& device = runtime.currentDevice(thread);
  entry.object->open(device, priority, entry.handle);
  try {
    device.add(*entry.object);
  } catch (...) {
    runtime.streams.recycle(entry.handle);
    throw;
  }
  runtime.streams.publish(entry.handle);
  *stream = reinterpret_cast<orStream_t>(entry.handle);
  return Status::Success;
}

Status refuseWait(Runtime& runtime, const Stream& stream) {
  return runtime.captures.refuse(
      stream, "the stream is being captured, and nothing that it is given runs; ask for it after the capture has ended");
}

}  // namespace

orError_t orStreamCreate(orStream_t* stream) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState& thread) {
    return createStream(runtime, thread, stream, 0, kLeastPriority);
  });
}

orError_t orStreamCreateWithPriority(orStream_t* stream, unsigned int flags, int priority) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState& thread) {
    return createStream(runtime, thread, stream, flags, priority);
  });
}

orError_t orStreamDestroy(orStream_t stream) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState& thread) {
    if (stream == nullptr) {
      return fail(Status::InvalidHandle, "the default stream cannot be destroyed");
    }
    Stream* const target = runtime.findStream(thread, reinterpret_cast<std::uintptr_t>(stream));
    if (target != nullptr && target->capturing()) {
      return runtime.captures.refuse(*target, "the stream is being captured; end the capture before you destroy the stream");
    }
    Stream* const retired = runtime.streams.retire(reinterpret_cast<std::uintptr_t>(stream));
    if (retired == nullptr) {
      return fail(Status::InvalidHandle, "this is no live stream; it was destroyed before, or is no handle of this library");
    }
    retired->retire();
    return Status::Success;
  });
}

orError_t orStreamQuery(orStream_t stream) {
  return callStream(__func__, stream, [](Runtime& runtime, ThreadState&, Stream& target) {
    if (target.idle()) {
      return target.takeFailure();
    }
    EMULATOR_TRY(target.device().check());
    if (target.capturing()) {
      return refuseWait(runtime, target);
    }
    runtime.hurry();
    return Status::NotReady;
  });
}

orError_t orStreamSynchronize(orStream_t stream) {
  return callStream(__func__, stream, [](Runtime& runtime, ThreadState& thread, Stream& target) {
    return target.capturing() ? refuseWait(runtime, target) : target.synchronize(thread);
  });
}

orError_t orStreamWaitEvent(orStream_t stream, orEvent_t event, unsigned int flags) {
  return callStream(__func__, stream, [&](Runtime& runtime, ThreadState& thread, Stream& target) {
    Event* const awaited = runtime.findEvent(reinterpret_cast<std::uintptr_t>(event));
    if (awaited == nullptr) {
      return Status::InvalidHandle;
    }
    if (flags != 0) {
      return fail(Status::InvalidValue, "unknown flags %#x; pass 0", flags);
    }
    EMULATOR_TRY(checkDevice(runtime, *awaited));
    EMULATOR_TRY(target.device().check());
    EMULATOR_LOG(target, "wait", "event=%p", static_cast<void*>(event));
    return awaited->hold(thread, target);
  });
}

orError_t orStreamGetPriority(orStream_t stream, int* priority) {
  return callStream(__func__, stream, [&](Runtime&, ThreadState&, Stream& target) {
    EMULATOR_TRY(requireOutput(priority, "priority"));
    *priority = target.priority();
    return Status::Success;
  });
}

orError_t orStreamGetDevice(orStream_t stream, int* device) {
  return callStream(__func__, stream, [&](Runtime&, ThreadState&, Stream& target) {
    EMULATOR_TRY(requireOutput(device, "device"));
    *device = target.device().index;
    return Status::Success;
  });
}
