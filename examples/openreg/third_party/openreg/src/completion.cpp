#include "completion.h"

#include <chrono>

#include "stream.h"

namespace emulator {

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Completion::complete() {
  std::vector<Stream*> parked;
  {
    const std::lock_guard lock(mutex_);
    time_ = now();
    done_.store(true, std::memory_order_release);
    parked.swap(parked_);
    arrived_.notify_all();
  }
  for (Stream* const stream : parked) {
    stream->resume();
  }
}

void Completion::wait() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return done_.load(std::memory_order_relaxed); });
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
