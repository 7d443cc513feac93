#pragma once

#include <mutex>

#include "device/Export.h"

namespace openreg::device {

// A host lock that callers may hold: Python's global interpreter lock (GIL).
struct HostLock {
  void* (*release)();  // releases the lock; returns nullptr if the calling thread does not hold it
  void (*acquire)(void* released);  // acquires it again
};

// The Python bindings call this once, when they are loaded.
BACKEND_API void setHostLock(HostLock lock) noexcept;

// Releases the GIL until the end of the block, if the calling thread holds it. PyTorch sometimes calls the device with the
// GIL held (`storage[0]`, pickling), and a kernel written in Python needs the GIL to finish. A thread that waited for that
// kernel with the GIL held would deadlock. Therefore each function of the seam whose SDK call may block begins with
// `const Waiting waiting;`. A caller that holds a mutex during such a call must lock it with lockMutex, because a thread that
// blocks on that mutex with the GIL held would deadlock too.
class BACKEND_API Waiting {
 public:
  Waiting();
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  void* released_;
};

// Locks a mutex whose holder may wait for the device.
template <class Mutex>
std::unique_lock<Mutex> lockMutex(Mutex& mutex) {
  std::unique_lock<Mutex> lock(mutex, std::try_to_lock);
  if (!lock.owns_lock()) {
    const Waiting waiting;
    lock.lock();
  }
  return lock;
}

}  // namespace openreg::device
