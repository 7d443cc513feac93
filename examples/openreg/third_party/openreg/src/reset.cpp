#include "reset.h"

#include "runtime.h"

namespace emulator {
namespace {

template <class Table>
void retireGraphs(Table& table, int device) {
  table.forEach([&](std::uintptr_t handle, auto& slot) {
    const auto graph = slot.get();
    if (graph != nullptr && graph->uses(device) && table.retire(handle) != nullptr) {
      slot.close();
      table.recycle(handle);
    }
  });
}

}  // namespace

Status resetDevice(Runtime& runtime, ThreadState& thread, Device& device) {
  if (thread.depth != 0) {
    return fail(Status::NotSupported, "a kernel or host function cannot reset a device; do it after the launch has returned");
  }
  // From here on the device accepts no new work, and queued work ends without running.
  device.lose("it is being reset");
  runtime.captures.abandon(device.index);
  if (const Status status = device.drain(thread); status != Status::Success) {
    return status;
  }
  runtime.streams.forEach([&](std::uintptr_t handle, Stream& stream) {
    if (&stream.device() == &device && runtime.streams.retire(handle) != nullptr) {
      stream.retire();
    }
  });
  runtime.events.forEach([&](std::uintptr_t handle, Event& event) {
    if (event.device() == device.index && runtime.events.retire(handle) != nullptr) {
      event.close();
      runtime.events.recycle(handle);
    }
  });
  retireGraphs(runtime.graphs, device.index);
  retireGraphs(runtime.graph_execs, device.index);
  device.memory.imports.closeAll();
  for (const std::uintptr_t address : device.memory.allocations()) {
    runtime.ipc.withdraw(address);
    device.memory.release(address);
  }
  thread.detail[0] = '\0';  // a message about an allocation that another thread freed meanwhile
  device.restore();
  return Status::Success;
}

}  // namespace emulator
