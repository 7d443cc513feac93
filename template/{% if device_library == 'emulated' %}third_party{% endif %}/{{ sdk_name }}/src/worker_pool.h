// The threads of a device: they run what streams have queued. None is started before there is work for it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace emulator {

class Stream;

inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -2;

// To wake a thread that sleeps costs the one that wakes it several microseconds, many times as much as all the rest of a
// submission. So a worker that runs out of work looks for more on its own for a while, at growing intervals, before it sleeps
// until it is woken. Submissions leave it to that, and who waits for the work wakes the worker. Thread-safe.
class WorkerPool {
 public:
  // Threads of each device, at most.
  static int limit();

  explicit WorkerPool(int device) : device_(device) {}

  // Takes over the ownership of a stream that has work, and has a worker advance it: streams of the lowest number
  // first, among equals those that have been waiting longest.
  void schedule(Stream& stream);

  // Has work that was left to a worker's own attention begin at once. For who found something not done yet.
  void hurry() {
    if (left_alone_.load(std::memory_order_relaxed)) {
      wake();
    }
  }

  // While there is one, somebody waits for work of whatever device, and no work is left to a worker's own attention.
  class Waiter {
   public:
    Waiter();
    ~Waiter();
    Waiter(const Waiter&) = delete;
  };

  // Whether a stream that is waiting should be served before more work of one with this priority.
  bool wantedBy(int priority) const { return most_urgent_.load(std::memory_order_relaxed) <= priority; }

  // The process is ending: workers take up nothing new.
  static void beginExit();

  // Waits for what is running, at most until `deadline`.
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
  int sleeping_ = 0;  // those of them that have to be woken
};

}  // namespace emulator
