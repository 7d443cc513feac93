// The global state of a process. The first call that needs a device sets it up. It is never destroyed, because other libraries
// may free memory while the process exits.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "address_space.h"
#include "capture.h"
#include "device.h"
#include "diagnosis.h"
#include "event.h"
#include "graph.h"
#include "handle_table.h"
#include "host_memory.h"
#include "ipc.h"
#include "settings.h"
#include "status.h"
#include "stream.h"

namespace emulator {

class Runtime {
 public:
  // Null before the set-up and in a forked child.
  static Runtime* get() { return instance_.load(std::memory_order_acquire); }

  // Sets *runtime, and sets it up first if necessary.
  static Status require(Runtime** runtime) {
    *runtime = get();
    return *runtime != nullptr ? Status::Success : setUp(runtime);
  }

  // Forked in a child of a process that had set up the runtime; else Success.
  static Status checkFork();

  AddressSpace space;
  HostMemory host;
  HandleTable<Stream, 0x51> streams;
  HandleTable<Event, 0x52> events;
  HandleTable<GraphSlot, 0x57, 16> graphs;
  HandleTable<GraphExec, 0x58, 16> graph_execs;
  Captures captures;
  Ipc ipc;

  LaunchMode mode() const { return mode_; }

  // Whether an idle stream may run work on the submitting thread. Long work should be queued.
  bool mayRunAtOnce() const { return mode_ == LaunchMode::Inline && !diagnosis::on(diagnosis::kDelay); }
  int deviceCount() const { return static_cast<int>(devices_.size()); }
  Device& device(int index) { return *devices_[static_cast<std::size_t>(index)]; }

  // The thread's current device, which is valid.
  Device& currentDevice(const ThreadState& thread) { return device(thread.device); }

  // The device that owns an address, or null.
  Device* deviceAt(std::uintptr_t address);

  // Null after fail(). A handle of 0 is the default stream of the current device.
  Stream* findStream(const ThreadState& thread, std::uintptr_t handle) {
    Stream* const stream = handle == 0 ? &currentDevice(thread).default_stream : streams.find(handle);
    if (stream == nullptr) [[unlikely]] {
      failHandle("stream");
    }
    return stream;
  }
  Event* findEvent(std::uintptr_t handle) {
    Event* const event = events.find(handle);
    if (event == nullptr) [[unlikely]] {
      failHandle("event");
    }
    return event;
  }

  // Lets queued work begin at once.
  void hurry() {
    for (const auto& device : devices_) {
      device->workers.hurry();
    }
  }

  // Waits for all devices.
  Status drain(ThreadState& thread);

 private:
  static Status setUp(Runtime** runtime);
  static void failHandle(const char* what);
  Status create(const Settings& settings);

  static std::atomic<Runtime*> instance_;

  LaunchMode mode_ = LaunchMode::Inline;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace emulator
