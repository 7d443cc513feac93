#include "event.h"

#include "device.h"
#include "runtime.h"
#include "worker_pool.h"

namespace emulator {

void Event::open(int device, unsigned flags) {
  const std::lock_guard lock(mutex_);
  device_ = device;
  flags_ = flags;
  recorded_ = false;
}

void Event::close() {
  const std::lock_guard lock(mutex_);
  latest_.reset();
  captured_.reset();
  shared_.reset();
}

Status Event::share(IpcHandle* handle) {
  const std::lock_guard lock(mutex_);
  if ((flags_ & kInterprocess) == 0) {
    return fail(Status::InvalidValue, "the event was made for this process alone; make it with the flag for several processes");
  }
  if (shared_ == nullptr) {
    std::shared_ptr<SharedEvent> shared;
    if (const Status status = Runtime::get()->ipc.shareEvent(device_, &shared); status != Status::Success) {
      return status;
    }
    number_ = shared->latest();
    if (latest_ != nullptr && !latest_->done()) {
      if (const Status status = shared->begin(&number_); status != Status::Success) {
        return status;
      }
      latest_->then([shared, number = number_] { shared->finish(number); });
    }
    shared_ = std::move(shared);
  }
  *handle = shared_->handle();
  return Status::Success;
}

void Event::adopt(std::shared_ptr<SharedEvent> shared) {
  const std::lock_guard lock(mutex_);
  shared_ = std::move(shared);
  number_ = 0;
}

int Event::device() {
  const std::lock_guard lock(mutex_);
  return device_;
}

Status Event::record(Stream& stream) {
  TaskPtr marker;
  CapturedPointPtr captured;
  if (stream.lost()) [[unlikely]] {
    return stream.device().check();
  }
  if (stream.capturing()) [[unlikely]] {
    if (const Status status = Runtime::get()->captures.mark(stream, &captured); status != Status::Success) {
      return status;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (device_ != stream.device().index) {
      return fail(
          Status::InvalidHandle,
          "the event was made for device %d and the stream is on device %d; make the event while the stream's device is current", device_,
          stream.device().index);
    }
    if (shared_ != nullptr && captured == nullptr) [[unlikely]] {
      if (const Status status = shared_->begin(&number_); status != Status::Success) {
        return status;
      }
    }
    captured_ = std::move(captured);
    // An idle stream has already reached this point.
    if (captured_ != nullptr) {
      latest_.reset();
    } else if (!stream.idle()) {
      marker = makeMarker(Kind::Record, std::make_shared<Completion>(&stream));
      latest_ = marker->completion;
      if (shared_ != nullptr) [[unlikely]] {
        latest_->then([shared = shared_, number = number_] { shared->finish(number); });
      }
    } else {
      if (shared_ != nullptr) [[unlikely]] {
        shared_->finish(number_);
      }
      latest_.reset();
      time_ = (flags_ & kDisableTiming) == 0 ? now() : 0;
    }
    recorded_ = true;
  }
  if (marker != nullptr) {
    stream.enqueue(std::move(marker));
  }
  return Status::Success;
}

// The latest recording, of any process, if it is not complete. With the lock.
CompletionPtr Event::latestPending() {
  if (shared_ != nullptr) [[unlikely]] {
    if (const std::uint64_t number = shared_->latest(); number != number_) {
      latest_ = shared_->watch(number);
      number_ = number;
    }
    if (latest_ != nullptr && latest_->stream() == nullptr && shared_->done(number_)) {
      latest_.reset();  // its waiters are notified separately
    }
  }
  return latest_ != nullptr && !latest_->done() ? latest_ : nullptr;
}

Status Event::failIfLost(const Completion& completion) const {
  if (completion.stream() != nullptr || shared_ == nullptr || shared_->done(number_)) {
    return Status::Success;
  }
  return fail(
      Status::LaunchFailure,
      "the process that recorded this event has ended before it came to it; what it was to announce may not have happened");
}

// The latest recording, if it is not complete.
Status Event::pending(CompletionPtr* completion) {
  CapturedPointPtr captured;
  {
    const std::lock_guard lock(mutex_);
    if (captured_ == nullptr) {
      *completion = latestPending();
      return *completion == nullptr && latest_ != nullptr ? failIfLost(*latest_) : Status::Success;
    }
    captured = captured_;
  }
  return Runtime::get()->captures.refuse(*captured);
}

Status Event::hold(ThreadState& thread, Stream& stream) {
  CompletionPtr completion;
  CapturedPointPtr captured;
  bool recorded;
  {
    const std::lock_guard lock(mutex_);
    completion = latestPending();
    captured = captured_;
    recorded = recorded_ || shared_ != nullptr;
  }
  if (captured != nullptr) [[unlikely]] {
    return Runtime::get()->captures.join(thread, stream, *captured);
  }
  if (recorded && stream.capturing()) [[unlikely]] {
    return Runtime::get()->captures.refuse(
        stream,
        "the event was recorded outside of the capture, and a graph cannot wait for what is not a part of it; have the stream wait before "
        "the capture begins");
  }
  if (completion == nullptr) {
    return Status::Success;
  }
  if (stream.heldBy(thread)) {
    return fail(Status::NotSupported, "a kernel cannot have its own stream wait; let the stream wait before the launch");
  }
  stream.enqueue(makeMarker(Kind::Wait, std::move(completion)));
  return Status::Success;
}

Status Event::query() {
  CompletionPtr completion;
  const Status status = pending(&completion);
  return status == Status::Success && completion != nullptr ? Status::NotReady : status;
}

Status Event::synchronize(ThreadState& thread) {
  CompletionPtr completion;
  if (const Status status = pending(&completion); status != Status::Success || completion == nullptr) {
    return status;
  }
  if (completion->stream() != nullptr && completion->stream()->heldBy(thread)) {
    return fail(
        Status::NotSupported, "a kernel cannot wait for an event of the stream that it runs on; synchronise after the launch has returned");
  }
  if (WorkerPool::exiting()) {
    return fail(Status::NotSupported, "the process is exiting and queued work is not run any more");
  }
  completion->wait();
  const std::lock_guard lock(mutex_);
  return completion == latest_ ? failIfLost(*completion) : Status::Success;
}

Status Event::time(std::int64_t* nanoseconds) {
  // A pending event is no failure here, but a captured one is.
  if (CompletionPtr completion; pending(&completion) != Status::Success) {
    return Status::StreamCaptureUnsupported;
  }
  const std::lock_guard lock(mutex_);
  if ((flags_ & kDisableTiming) != 0) {
    return fail(Status::InvalidValue, "the event was made without timing; make it without the flag that disables timing");
  }
  if (!recorded_) {
    return fail(Status::InvalidValue, "the event was never recorded");
  }
  if (latest_ != nullptr && !latest_->done()) {
    return Status::NotReady;
  }
  *nanoseconds = latest_ != nullptr ? latest_->time() : time_;
  return Status::Success;
}

}  // namespace emulator
