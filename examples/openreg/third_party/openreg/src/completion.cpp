#include "completion.h"

#include <chrono>
#include <thread>

#include "platform/platform.h"
#include "stream.h"
#include "worker_pool.h"

namespace emulator {

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Completion::complete() {
  std::vector<Stream*> parked;
  std::function<void()> then;
  {
    const std::lock_guard lock(mutex_);
    time_ = now();
    done_.store(true, std::memory_order_release);
    parked.swap(parked_);
    then.swap(then_);
    arrived_.notify_all();
  }
  if (then) [[unlikely]] {
    then();
  }
  for (Stream* const stream : parked) {
    stream->resume();
  }
}

void Completion::wait() {
  const WorkerPool::Waiter waiter;
  // Short work is complete sooner than a thread can sleep and wake up.
  for (int spin = 0; spin < 500 && !done(); ++spin) {
    // The worker may be waiting for this core.
    spin % 8 == 7 ? std::this_thread::yield() : platform::pause();
  }
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return done_.load(std::memory_order_relaxed); });
}

void Completion::then(std::function<void()> function) {
  {
    const std::lock_guard lock(mutex_);
    if (!done_.load(std::memory_order_relaxed)) {
      then_ = std::move(function);
      return;
    }
  }
  function();
}

bool Completion::park(Stream& stream) {
  const std::lock_guard lock(mutex_);
  if (done_.load(std::memory_order_relaxed)) {
    return false;
  }
  parked_.push_back(&stream);
  return true;
}

}  // namespace emulator
