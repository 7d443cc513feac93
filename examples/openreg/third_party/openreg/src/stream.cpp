#include "stream.h"

#include <exception>
#include <utility>
#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif

#include "device.h"
#include "diagnosis.h"
#include "runtime.h"

namespace emulator {
Status invoke(Kernel function, void* arguments) {
  try {
    function(arguments);
    return Status::Success;
#if defined(__GLIBCXX__)
  } catch (const abi::__forced_unwind&) {
    throw;  // the thread is being ended, which must not be stopped
#endif
  } catch (const std::exception& error) {
    return fail(Status::LaunchFailure, "the device function ended with an exception: %s", error.what());
  } catch (...) {
    return fail(Status::LaunchFailure, "the device function ended with an exception");
  }
}

void Stream::open(Device& device, int priority, std::uintptr_t handle) {
  const std::lock_guard lock(mutex_);
  device_ = &device;
  priority_ = priority;
  handle_ = handle;
  retired_ = false;
  failed_.store(false, std::memory_order_relaxed);
  state_.fetch_and(~kMarks, std::memory_order_relaxed);
}

Status Stream::runOwned(ThreadState& thread, Kernel function, void* arguments) {
  // Hands the stream back even if the thread is ended inside the function.
  struct Hold {
    Stream& stream;
    ThreadState& thread;
    Hold(Stream& stream, ThreadState& thread) : stream(stream), thread(thread) { stream.enter(thread); }
    ~Hold() {
      stream.leave(thread);
      stream.handBack();
    }
  } const hold(*this, thread);
  if (diagnosis::on(diagnosis::kDelay)) [[unlikely]] {
    diagnosis::delay();
  }
  return invoke(function, arguments);
}

Status Stream::runInline(ThreadState& thread, Kernel function, void* arguments) {
  if (tryTake()) [[likely]] {
    return runOwned(thread, function, arguments);
  }
  if (heldBy(thread)) {
    return invoke(function, arguments);
  }
  if (capturing()) {
    return Runtime::get()->captures.refuse(
        *this,
        "the stream is being captured, and work that has to be done on the calling thread at once cannot be; use a launch or copy that can "
        "be queued");
  }
  Status status = device_->check();
  if (status == Status::Success) {
    status = waitForTurn();
  }
  if (status != Status::Success) {
    return status;
  }
  // It may have been lost meanwhile.
  status = device_->check();
  if (status != Status::Success) {
    handBack();
    return status;
  }
  return runOwned(thread, function, arguments);
}

Status Stream::waitForTurn() {
  if (WorkerPool::exiting()) {
    return fail(Status::NotSupported, "the process is exiting and queued work is not run any more");
  }
  const auto turn = std::make_shared<Completion>(this);
  enqueue(makeMarker(Kind::Turn, turn));
  turn->wait();
  return Status::Success;
}

Status Stream::launch(ThreadState& thread, Kind kind, Kernel function, const void* arguments, std::size_t size, bool at_once) {
  if (at_once && tryTake()) [[likely]] {
    return runOwned(thread, function, const_cast<void*>(arguments));
  }
  if (heldBy(thread)) {
    return invoke(function, const_cast<void*>(arguments));
  }
  return submit(makeWork(kind, function, arguments, size));
}

Status Stream::submit(TaskPtr task) {
  if ((state_.load(std::memory_order_relaxed) & kMarks) != 0) [[unlikely]] {
    if (const Status status = device_->check(); status != Status::Success) {
      return status;
    }
    if (capturing()) {
      return Runtime::get()->captures.record(*this, std::move(task));
    }
  }
  enqueue(std::move(task));
  return Status::Success;
}

void Stream::setCapture(std::shared_ptr<Capture> capture) {
  capture_ = std::move(capture);
  if (capture_ != nullptr) {
    state_.fetch_or(kCaptured, std::memory_order_relaxed);
  } else {
    state_.fetch_and(~kCaptured, std::memory_order_relaxed);
  }
}

void Stream::enqueue(TaskPtr task) {
  std::uint32_t before;
  {
    const std::lock_guard lock(mutex_);
    Task* const added = task.release();
    (first_ != nullptr ? last_->next : first_) = added;
    last_ = added;
    before = state_.fetch_or(kOwned | kLook, std::memory_order_acq_rel);
  }
  if ((before & kOwned) == 0) {
    advance(false);
  }
}

// Takes the next task out of the queue. After Ended, Idle or LastMarker the caller no longer owns the stream.
Stream::Next Stream::takeNext(bool on_worker, TaskPtr* task) {
  const std::lock_guard lock(mutex_);
  if (first_ == nullptr) {
    const bool ended = retired_;
    retired_ = false;
    state_.fetch_and(ended ? kOwned | kMarks : kMarks, std::memory_order_release);
    return ended ? Next::Ended : Next::Idle;
  }
  if (first_->isWork() && !on_worker && !lost()) {
    return Next::NeedsWorker;
  }
  task->reset(first_);
  first_ = first_->next;
  if ((*task)->kind == Kind::Record && first_ == nullptr && !retired_) {
    // The stream becomes idle before the marker is complete: a thread that waited for the end of the stream must find it idle.
    state_.fetch_and(kMarks, std::memory_order_release);
    return Next::LastMarker;
  }
  return Next::Task;
}

void Stream::advance(bool on_worker) {
  while (true) {
    TaskPtr task;
    switch (takeNext(on_worker, &task)) {
      case Next::Idle:
        return;
      case Next::Ended:
        close();
        return;
      case Next::NeedsWorker:
        device_->workers.schedule(*this);
        return;
      case Next::LastMarker:
        task->completion->complete();
        return;
      case Next::Task:
        break;
    }
    switch (task->kind) {
      case Kind::Record:
        task->completion->complete();
        break;
      case Kind::Wait:
        // From here on the stream may be running elsewhere.
        if (task->completion->park(*this)) {
          return;
        }
        break;
      case Kind::Turn:
        task->completion->complete();
        return;
      default:
        if (!lost()) {
          runQueued(*task);
        }
        if (task->completion != nullptr) {
          task->completion->complete();
        }
        task.reset();
        if (WorkerPool::exiting()) {
          return;
        }
        if (device_->workers.wantedBy(priority_)) {
          device_->workers.schedule(*this);
          return;
        }
    }
  }
}

void Stream::runQueued(Task& task) {
  ThreadState& thread = thisThread();
  const int device = std::exchange(thread.device, device_->index);
  enter(thread);
  if (diagnosis::on(diagnosis::kDelay) && task.isDeviceWork()) [[unlikely]] {
    diagnosis::delay();
  }
  const Status status = invoke(task.function, task.arguments);
  leave(thread);
  thread.device = device;
  if (status != Status::Success) {
    setFailure(thread.detail);
    if (diagnosis::on(diagnosis::kSticky) && task.kind != Kind::HostFunction) {
      device_->lose(thread.detail);
    }
    thread.detail[0] = '\0';
  }
}

Status Stream::drain(ThreadState& thread) {
  if (idle()) {
    return Status::Success;
  }
  if (heldBy(thread)) {
    return fail(Status::NotSupported, "a kernel cannot wait for the stream that it runs on; synchronise after the launch has returned");
  }
  if (WorkerPool::exiting()) {
    return fail(Status::NotSupported, "the process is exiting and queued work is not run any more");
  }
  const auto end = std::make_shared<Completion>(this);
  enqueue(makeMarker(Kind::Record, end));
  end->wait();
  return Status::Success;
}

Status Stream::synchronize(ThreadState& thread) {
  const Status status = drain(thread);
  if (status != Status::Success) {
    return status;
  }
  return lost() ? device_->check() : takeFailure();
}

Status Stream::takeFailure() {
  if (!failed_.load(std::memory_order_acquire)) {
    return Status::Success;
  }
  const std::lock_guard lock(mutex_);
  if (!failed_.exchange(false, std::memory_order_relaxed)) {
    return Status::Success;
  }
  return fail(Status::LaunchFailure, "%s", failure_.c_str());
}

void Stream::moveFailure(Stream& other) {
  const std::lock_guard lock(mutex_);
  if (failed_.exchange(false, std::memory_order_relaxed)) {
    other.setFailure(failure_.c_str());
  }
}

void Stream::setFailure(const char* message) {
  const std::lock_guard lock(mutex_);
  if (!failed_.load(std::memory_order_relaxed)) {
    failure_ = message;  // the first failure may have caused the others
    failed_.store(true, std::memory_order_release);
  }
}

void Stream::retire() {
  std::uint32_t before;
  {
    const std::lock_guard lock(mutex_);
    retired_ = true;
    before = state_.fetch_or(kOwned | kLook, std::memory_order_acq_rel);
  }
  if ((before & kOwned) == 0) {
    advance(false);
  }
}

// The stream stays owned, so that no other thread can run work in between.
void Stream::close() {
  device_->remove(*this);
  const std::uintptr_t handle = handle_;
  // A synchronisation of the device that began earlier may still leave its marker in the queue.
  handBack();
  Runtime::get()->streams.recycle(handle);
}

}  // namespace emulator
