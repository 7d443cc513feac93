// A point in a stream that has been passed or will be: one recording of an event, the end of a wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace emulator {

class Stream;

// Device time in nanoseconds.
std::int64_t now();

// Passed once, by the stream that comes to it. Each recording of an event makes its own, so that recording it again cannot
// release those who wait for the earlier one.
class Completion {
 public:
  // `stream` is the one that will come to this point; null if another process's will.
  explicit Completion(const Stream* stream) : stream_(stream) {}

  bool done() const { return done_.load(std::memory_order_acquire); }
  const Stream* stream() const { return stream_; }

  // Only once done.
  std::int64_t time() const { return time_; }

  void complete();

  // Blocks the calling thread.
  void wait();

  // Has the stream advance on completion; false if that has happened already. The vector's memory may run out (throws).
  bool park(Stream& stream);

  // Has the function called on completion, by whoever completes it; at once if that has happened already. Once.
  void then(std::function<void()> function);

 private:
  const Stream* const stream_;
  std::atomic<bool> done_{false};
  std::int64_t time_ = 0;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Stream*> parked_;
  std::function<void()> then_;
};

using CompletionPtr = std::shared_ptr<Completion>;

}  // namespace emulator
