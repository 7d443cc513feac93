// Functions of the C interface for sharing between processes.
#include "api.h"

#include <bit>
#include <memory>
#include <utility>

#include "../ipc_event.h"

using namespace emulator;
using namespace emulator::api;

static_assert(sizeof(IpcHandle) == sizeof(orIpcMemHandle_t));
static_assert(sizeof(IpcHandle) == sizeof(orIpcEventHandle_t));

orError_t orIpcGetMemHandle(orIpcMemHandle_t* handle, void* pointer) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState&) {
    EMULATOR_TRY(requireOutput(handle, "handle"));
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    Device* const device = runtime.deviceAt(address);
    Allocation allocation;
    if (device == nullptr || !device->memory.find(address, &allocation)) {
      return fail(Status::InvalidPointer, "%p is no live device memory", pointer);
    }
    if (allocation.base != address) {
      return fail(
          Status::InvalidPointer,
          "%p is inside of an allocation that starts at %#zx; give the start, and tell the other process the offset", pointer,
          static_cast<std::size_t>(allocation.base));
    }
    if (device->memory.imports.contains(address)) {
      return fail(Status::NotSupported, "%p belongs to another process; pass on the handle that it was opened with", pointer);
    }
    IpcHandle made;
    EMULATOR_TRY(device->check());
    EMULATOR_TRY(runtime.ipc.exportMemory(*device, allocation, &made));
    *handle = std::bit_cast<orIpcMemHandle_t>(made);
    return Status::Success;
  });
}

orError_t orIpcOpenMemHandle(void** pointer, orIpcMemHandle_t handle) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState&) {
    EMULATOR_TRY(requireOutput(pointer, "pointer"));
    return runtime.ipc.openMemory(runtime, std::bit_cast<IpcHandle>(handle), pointer);
  });
}

orError_t orIpcCloseMemHandle(void* pointer) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState& thread) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    Device* const device = runtime.deviceAt(address);
    if (device == nullptr || !device->memory.imports.contains(address)) {
      return fail(Status::InvalidPointer, "%p is not memory of another process; free memory of this one with what allocated it", pointer);
    }
    EMULATOR_TRY(device->check());
    if (thread.depth == 0 && device->memory.imports.isStart(address) && !WorkerPool::exiting()) {
      EMULATOR_TRY(device->drain(thread));
    }
    return device->memory.imports.close(address);
  });
}

orError_t orIpcGetEventHandle(orIpcEventHandle_t* handle, orEvent_t event) {
  return callEvent(__func__, event, [&](Runtime&, ThreadState&, Event& target) {
    EMULATOR_TRY(requireOutput(handle, "handle"));
    IpcHandle made;
    EMULATOR_TRY(target.share(&made));
    *handle = std::bit_cast<orIpcEventHandle_t>(made);
    return Status::Success;
  });
}

orError_t orIpcOpenEventHandle(orEvent_t* event, orIpcEventHandle_t handle) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState&) {
    EMULATOR_TRY(requireOutput(event, "event"));
    std::shared_ptr<SharedEvent> shared;
    EMULATOR_TRY(runtime.ipc.openEvent(runtime, std::bit_cast<IpcHandle>(handle), &shared));
    const auto entry = runtime.events.acquire();
    if (entry.object == nullptr) {
      return fail(Status::MemoryAllocation, "there are too many events; destroy some");
    }
    entry.object->open(shared->device(), Event::kInterprocess | Event::kDisableTiming);
    entry.object->adopt(std::move(shared));
    runtime.events.publish(entry.handle);
    *event = reinterpret_cast<orEvent_t>(entry.handle);
    return Status::Success;
  });
}
