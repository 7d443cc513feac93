#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "device/Launch.h"

namespace openreg::device {

// For an SDK that queues functions of the host: launchInline that holds its stream. The queued function says that the stream has reached
// it, and ends when the caller's function has run. Without it another thread's work on the same stream could run in between.
//
//   void launchInline(HostFunction function, void* arguments, StreamHandle stream) {
//     HeldStream::run(function, arguments, stream, [&](HostFunction hold, void* state) {
//       /* queue hold(state) on the stream; with a StreamTable also streams().submitted(stream) */
//     });
//   }
//   StreamHandle runningStream() { return HeldStream::running(); }
class HeldStream {
 public:
  template <class Queue>
  static void run(HostFunction function, void* arguments, StreamHandle stream, Queue&& queue) {
    HeldStream held;
    std::forward<Queue>(queue)(&HeldStream::hold, &held);
    held.await(kReached);
    auto* const outer = std::exchange(running_, stream);
    function(arguments);
    running_ = outer;
    held.advance(kDone);
    held.await(kLeft);  // `held` is on this stack
  }

  static StreamHandle running() noexcept {
    return running_;
  }

 private:
  enum Step { kQueued,
              kReached,
              kDone,
              kLeft };

  static void hold(void* opaque) {
    auto* self = static_cast<HeldStream*>(opaque);
    self->advance(kReached);
    self->await(kDone);
    self->advance(kLeft);
  }

  // Under the lock until the last access, because the other thread may destroy the object as soon as it sees the step.
  void advance(Step step) {
    const std::lock_guard<std::mutex> guard(mutex_);
    step_ = step;
    changed_.notify_all();
  }

  void await(Step step) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return step_ >= step; });
  }

  inline static thread_local StreamHandle running_ = nullptr;

  std::mutex mutex_;
  std::condition_variable changed_;
  Step step_ = kQueued;
};

}  // namespace openreg::device
