// The threads of a device, which run queued work of streams. A thread starts when there is work for it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace emulator {

class Stream;

inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -2;

// Waking a sleeping thread costs the caller several microseconds, many times as much as the rest of a submission. Therefore a worker
// without work polls for a while, at growing intervals, before it sleeps until it is woken. A submission does not wake a polling
// worker, but a thread that waits for the work does. Thread-safe.
class WorkerPool {
 public:
  // Threads of each device, at most.
  static int limit();

  explicit WorkerPool(int device) : device_(device) {}

  // Takes ownership of a stream that has work. A worker advances it: streams with the lowest priority number first, and among
  // equals the one that has waited longest.
  void schedule(Stream& stream);

  // Wakes a polling worker, so that work begins at once. For callers that found work incomplete.
  void hurry() {
    if (left_alone_.load(std::memory_order_relaxed)) {
      wake();
    }
  }

  // While one exists, a thread waits for work of some device, so submissions wake workers at once.
  class Waiter {
   public:
    Waiter();
    ~Waiter();
    Waiter(const Waiter&) = delete;
  };

  // Whether a stream that is waiting should be served before more work of one with this priority.
  bool wantedBy(int priority) const { return most_urgent_.load(std::memory_order_relaxed) <= priority; }

  // The process is ending: workers begin no new work.
  static void beginExit();

  // Waits for running work, at most until `deadline`.
  void awaitExit(std::chrono::steady_clock::time_point deadline);
  static bool exiting();

 private:
  static constexpr int kLevels = kLeastPriority - kGreatestPriority + 1;
  static constexpr int kNobody = kLeastPriority + 1;

  struct Queue {
    Stream* first = nullptr;
    Stream* last = nullptr;
  };

  static void runThread(void* pool);
  void work(std::unique_lock<std::mutex>& lock);
  Stream* take();
  void updateMostUrgent();
  void rest(std::unique_lock<std::mutex>& lock);
  void wake();
  bool startWorker();

  const int device_;
  std::atomic<int> most_urgent_{kNobody};
  std::mutex mutex_;
  std::condition_variable nap_;
  std::condition_variable sleep_;
  std::condition_variable rested_;
  Queue ready_[kLevels];  // most urgent first
  std::atomic<int> ready_count_{0};  // changes with the lock only
  std::atomic<bool> left_alone_{false};
  int threads_ = 0;
  int resting_ = 0;  // threads without work
  int sleeping_ = 0;  // the threads among them that must be woken
};

}  // namespace emulator
