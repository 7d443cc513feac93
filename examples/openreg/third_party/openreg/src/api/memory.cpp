// Memory functions of the C interface.
#include "api.h"

#include "../copy.h"

using namespace emulator;
using namespace emulator::api;

static_assert(static_cast<int>(Direction::HostToHost) == orMemcpyHostToHost);
static_assert(static_cast<int>(Direction::HostToDevice) == orMemcpyHostToDevice);
static_assert(static_cast<int>(Direction::DeviceToHost) == orMemcpyDeviceToHost);
static_assert(static_cast<int>(Direction::DeviceToDevice) == orMemcpyDeviceToDevice);
static_assert(static_cast<int>(Direction::Default) == orMemcpyDefault);

namespace {

// A call that waits for the default stream must not disturb a capture.
Status requireSynchronous(Runtime& runtime, ThreadState& thread) {
  if (!runtime.captures.any()) [[likely]] {
    return Status::Success;
  }
  const Stream& stream = runtime.currentDevice(thread).default_stream;
  if (stream.capturing()) {
    return runtime.captures.refuse(
        stream, "this is synchronous, and the default stream of the device is being captured; use the asynchronous function");
  }
  return runtime.captures.checkSynchronous(thread);
}

}  // namespace

orError_t orMalloc(void** pointer, size_t size) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState& thread) {
    EMULATOR_TRY(requireOutput(pointer, "pointer"));
    if (size == 0) {
      *pointer = nullptr;
      return Status::Success;
    }
    EMULATOR_TRY(runtime.currentDevice(thread).check());
    return runtime.currentDevice(thread).memory.allocate(size, pointer);
  });
}

orError_t orFree(void* pointer) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState& thread) {
    if (pointer == nullptr) {
      return Status::Success;
    }
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    Device* const device = runtime.deviceAt(address);
    if (device == nullptr) {
      return fail(Status::InvalidPointer, "%p is not device memory; free host memory with what allocated it", pointer);
    }
    EMULATOR_TRY(device->check());
    // A wrong pointer is refused at once, and a device function cannot wait for its own end.
    if (thread.depth == 0 && device->memory.isStart(address) && !WorkerPool::exiting()) {
      EMULATOR_TRY(device->drain(thread));
    }
    runtime.ipc.withdraw(address);
    return device->memory.release(address);
  });
}

orError_t orMallocHost(void** pointer, size_t size) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState&) {
    EMULATOR_TRY(requireOutput(pointer, "pointer"));
    if (size == 0) {
      *pointer = nullptr;
      return Status::Success;
    }
    return runtime.host.allocate(size, pointer);
  });
}

orError_t orFreeHost(void* pointer) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState& thread) {
    if (pointer == nullptr) {
      return Status::Success;
    }
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    if (thread.depth == 0 && runtime.host.isStart(address) && !WorkerPool::exiting()) {
      EMULATOR_TRY(runtime.drain(thread));
    }
    return runtime.host.release(address);
  });
}

orError_t orMemGetInfo(size_t* free, size_t* total) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState& thread) {
    EMULATOR_TRY(requireOutput(free, "free"));
    EMULATOR_TRY(requireOutput(total, "total"));
    EMULATOR_TRY(runtime.currentDevice(thread).check());
    DeviceMemory& memory = runtime.currentDevice(thread).memory;
    *free = memory.freeBytes();
    *total = memory.size();
    return Status::Success;
  });
}

orError_t orMemcpy(void* dst, const void* src, size_t size, orMemcpyKind kind) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState& thread) {
    const CopyRequest request{dst, src, size, static_cast<Direction>(kind)};
    EMULATOR_TRY(requireSynchronous(runtime, thread));
    return copy(runtime, thread, request, runtime.currentDevice(thread).default_stream, true);
  });
}

orError_t orMemcpyAsync(void* dst, const void* src, size_t size, orMemcpyKind kind, orStream_t stream) {
  return callStream(__func__, stream, [&](Runtime& runtime, ThreadState& thread, Stream& target) {
    const CopyRequest request{dst, src, size, static_cast<Direction>(kind)};
    return copy(runtime, thread, request, target, false);
  });
}

orError_t orMemset(void* pointer, int value, size_t size) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState& thread) {
    EMULATOR_TRY(requireSynchronous(runtime, thread));
    return fill(runtime, thread, {pointer, value, size}, runtime.currentDevice(thread).default_stream, true);
  });
}

orError_t orMemsetAsync(void* pointer, int value, size_t size, orStream_t stream) {
  return callStream(__func__, stream, [&](Runtime& runtime, ThreadState& thread, Stream& target) {
    return fill(runtime, thread, {pointer, value, size}, target, false);
  });
}

orError_t orPointerGetAttributes(orPointerAttributes* attributes, const void* pointer) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState&) {
    EMULATOR_TRY(requireOutput(attributes, "attributes"));
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    Allocation allocation;
    *attributes = {orMemoryTypeUnregistered, -1, nullptr, 0};
    if (Device* const device = runtime.deviceAt(address)) {
      if (device->memory.find(address, &allocation)) {
        *attributes = {orMemoryTypeDevice, device->index, reinterpret_cast<void*>(allocation.base), allocation.size};
      }
    } else if (runtime.host.find(address, &allocation)) {
      *attributes = {orMemoryTypeHost, -1, reinterpret_cast<void*>(allocation.base), allocation.size};
    }
    return Status::Success;
  });
}

orError_t orGetKernelAddressOffset(ptrdiff_t* offset) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState&) {
    EMULATOR_TRY(requireOutput(offset, "offset"));
    *offset = runtime.space.kernelOffset();
    return Status::Success;
  });
}
