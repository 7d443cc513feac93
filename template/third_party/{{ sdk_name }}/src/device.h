// One emulated device.
#pragma once

#include <mutex>
#include <vector>

#include "device_memory.h"
#include "status.h"
#include "stream.h"
#include "worker_pool.h"

namespace emulator {

struct Device {
  const int index;
  DeviceMemory memory;
  WorkerPool workers;
  Stream default_stream;

  Device(int index, std::uintptr_t base, std::size_t size, std::ptrdiff_t kernel_offset, platform::Backing backing);

  // The streams that are alive or still have work.
  void add(Stream& stream);
  void remove(Stream& stream);

  // Waits for everything submitted before.
  Status drain(ThreadState& thread);

  // As drain; reports the failure of queued work.
  Status synchronize(ThreadState& thread);

 private:
  std::vector<Stream*> busyStreams();

  std::mutex mutex_;
  std::vector<Stream*> streams_;
};

}  // namespace emulator
