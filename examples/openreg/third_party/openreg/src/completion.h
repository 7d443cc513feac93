// A point in a stream: a recording of an event, or the end of a wait.
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

// Completed once, by the stream that reaches it. Each recording of an event has its own completion, so that recording the event
// again cannot release threads and streams that wait for the earlier recording.
class Completion {
 public:
  // `stream` will reach this point; null if it belongs to another process.
  explicit Completion(const Stream* stream) : stream_(stream) {}

  bool done() const { return done_.load(std::memory_order_acquire); }
  const Stream* stream() const { return stream_; }

  // Valid only when done.
  std::int64_t time() const { return time_; }

  void complete();

  // Blocks the calling thread.
  void wait();

  // The stream advances on completion; returns false if it is complete already. Throws if memory runs out.
  bool park(Stream& stream);

  // Calls the function once, on completion, on the completing thread; at once if it is complete already.
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
