// One emulated device.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
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

  Device(
      int index, std::uintptr_t base, std::size_t size, std::ptrdiff_t kernel_offset, platform::Backing backing, std::uintptr_t import_base,
      std::size_t import_size);

  // The streams that are alive or still have work.
  void add(Stream& stream);
  void remove(Stream& stream);

  // Success, or DeviceLost with the reason.
  Status check() { return lost_.load(std::memory_order_acquire) ? explainLoss() : Status::Success; }

  // From now on the device accepts no work, and queued work ends without running. The first reason counts.
  void lose(const char* reason);

  // Undoes this for a device without work.
  void restore();

  // Waits for everything submitted before.
  Status drain(ThreadState& thread);

  // Like drain; reports the failure of queued work.
  Status synchronize(ThreadState& thread);

 private:
  std::vector<Stream*> busyStreams();
  Status explainLoss();

  std::mutex mutex_;
  std::vector<Stream*> streams_;
  std::atomic<bool> lost_{false};
  std::string loss_;
};

}  // namespace emulator
