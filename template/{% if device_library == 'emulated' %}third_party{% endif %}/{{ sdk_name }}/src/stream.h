// A stream: runs work in the order of submission, on the thread that presently owns the stream.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "status.h"
#include "task.h"

namespace emulator {

struct Capture;
struct Device;

// Runs a device function; an exception becomes LaunchFailure.
Status invoke(Kernel function, void* arguments);

// The stream is idle, or has exactly one owner: a thread that runs work at once, a worker, or a completion that the stream
// waits for. Taking and returning an idle stream is one atomic operation each. A thread that finds it owned appends to the
// queue, and the owner checks the queue before it returns the stream.
//
// Objects are never freed, only reused, so that a stale pointer is harmless. Thread-safe.
class alignas(64) Stream {
 public:
  // Makes an idle object a new stream. A handle of 0 is the default stream's, which is never retired.
  void open(Device& device, int priority, std::uintptr_t handle);

  Device& device() const { return *device_; }
  int priority() const { return priority_; }
  std::uintptr_t handle() const { return handle_; }
  bool idle() const { return state_.load(std::memory_order_acquire) == 0; }

  // Whether the calling thread runs a device function of this stream.
  bool heldBy(const ThreadState& thread) const { return holder_.load(std::memory_order_relaxed) == &thread; }

  // Runs the function on the calling thread after everything submitted before.
  Status runInline(ThreadState& thread, Kernel function, void* arguments);

  // Runs at once if the stream is idle and `at_once`, or if the stream's own work calls it; else queues a copy of the arguments.
  Status launch(ThreadState& thread, Kind kind, Kernel function, const void* arguments, std::size_t size, bool at_once);

  // Queues work, or makes it part of the graph that is being captured.
  Status submit(TaskPtr task);

  // Queues work even while the stream is being captured.
  void enqueue(TaskPtr task);

  // Takes the stream if it is idle. The caller must then call runOwned.
  bool tryTake() {
    std::uint32_t idle = 0;
    return state_.compare_exchange_strong(idle, kOwned, std::memory_order_acquire, std::memory_order_relaxed);
  }
  Status runOwned(ThreadState& thread, Kernel function, void* arguments);

  // A captured stream is never idle, so a thread that finds the stream idle need not check this.
  bool capturing() const { return (state_.load(std::memory_order_relaxed) & kCaptured) != 0; }

  // Likewise.
  bool lost() const { return (state_.load(std::memory_order_acquire) & kLost) != 0; }
  void setLost(bool lost) { lost ? state_.fetch_or(kLost) : state_.fetch_and(~kLost); }

  // Only with the lock of Captures.
  const std::shared_ptr<Capture>& capture() const { return capture_; }
  void setCapture(std::shared_ptr<Capture> capture);

  // Waits for all submitted work, but not for captured work.
  Status drain(ThreadState& thread);

  // Like drain; reports the failure of queued work.
  Status synchronize(ThreadState& thread);

  // The failure of queued work since the last report.
  Status takeFailure();
  void dropFailure() { failed_.store(false, std::memory_order_relaxed); }
  void setFailure(const char* message);
  void moveFailure(Stream& other);

  // The stream ends when its work is done.
  void retire();

  // For the owner: processes the queue as far as possible. Only workers run tasks of the kind Work.
  void advance(bool on_worker);

  // For the completion that the stream waited for.
  void resume() { advance(false); }

  Stream* next_ready = nullptr;  // the worker pool's

 private:
  static constexpr std::uint32_t kOwned = 1;
  static constexpr std::uint32_t kLook = 2;  // the owner must check the queue before it returns the stream
  static constexpr std::uint32_t kCaptured = 4;  // submitted work becomes part of a graph
  static constexpr std::uint32_t kLost = 8;  // the device is lost: queued work ends without running
  static constexpr std::uint32_t kMarks = kCaptured | kLost;

  void enter(ThreadState& thread) {
    holder_.store(&thread, std::memory_order_relaxed);
    ++thread.depth;
  }
  void leave(ThreadState& thread) {
    --thread.depth;
    holder_.store(nullptr, std::memory_order_relaxed);
  }
  void handBack() {
    std::uint32_t owned = kOwned;
    if (!state_.compare_exchange_strong(owned, 0, std::memory_order_release, std::memory_order_relaxed)) {
      advance(false);
    }
  }
  enum class Next {
    Task,
    Idle,
    Ended,
    NeedsWorker,
    LastMarker,
  };
  Next takeNext(bool on_worker, TaskPtr* task);
  Status waitForTurn();
  void runQueued(Task& task);
  void close();

  std::atomic<std::uint32_t> state_{0};
  int priority_ = 0;
  std::atomic<const ThreadState*> holder_{nullptr};
  Device* device_ = nullptr;
  std::uintptr_t handle_ = 0;
  std::atomic<bool> failed_{false};
  std::shared_ptr<Capture> capture_;
  std::mutex mutex_;  // guards the members below, and kLook
  Task* first_ = nullptr;
  Task* last_ = nullptr;
  bool retired_ = false;
  std::string failure_;
};

}  // namespace emulator
