#pragma once

#include <mutex>

#include "device/Export.h"

namespace openreg::device {

// A lock of the host that callers may hold: Python's global interpreter lock (GIL).
struct HostLock {
  void* (*release)();  // lets the lock go; nullptr if the calling thread does not hold it
  void (*acquire)(void* released);  // takes it again
};

// The Python bindings call this once, when they are loaded.
BACKEND_API void setHostLock(HostLock lock) noexcept;

// Lets the GIL go until the end of the block, if the calling thread holds it. PyTorch calls into the device with the GIL held
// in places (`storage[0]`, pickling), and a kernel written in Python needs the GIL to end: whoever waited for that kernel and
// kept the GIL would never wake up. So each function of the seam whose SDK call may block begins with
// `const Waiting waiting;`. A caller that holds a mutex meanwhile locks it with lockMutex: a thread that blocked on the mutex and
// kept the GIL would keep this one from its end.
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
