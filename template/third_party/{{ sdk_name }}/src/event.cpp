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
      return fail(Status::InvalidHandle, "the event was made for device %d and the stream is on device %d; make the event while the stream's device is current", device_, stream.device().index);
    }
    captured_ = std::move(captured);
    // An idle stream has come to this point already.
    if (captured_ != nullptr) {
      latest_.reset();
    } else if (!stream.idle()) {
      marker = makeMarker(Kind::Record, std::make_shared<Completion>(&stream));
      latest_ = marker->completion;
    } else {
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

// The latest recording, if it is not complete.
Status Event::pending(CompletionPtr* completion) {
  CapturedPointPtr captured;
  {
    const std::lock_guard lock(mutex_);
    if (captured_ == nullptr) {
      *completion = latest_ != nullptr && !latest_->done() ? latest_ : nullptr;
      return Status::Success;
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
    completion = latest_ != nullptr && !latest_->done() ? latest_ : nullptr;
    captured = captured_;
    recorded = recorded_;
  }
  if (captured != nullptr) [[unlikely]] {
    return Runtime::get()->captures.join(thread, stream, *captured);
  }
  if (recorded && stream.capturing()) [[unlikely]] {
    return Runtime::get()->captures.refuse(stream, "the event was recorded outside of the capture, and a graph cannot wait for what is not a part of it; have the stream wait before the capture begins");
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
  if (completion->stream()->heldBy(thread)) {
    return fail(Status::NotSupported, "a kernel cannot wait for an event of the stream that it runs on; synchronise after the launch has returned");
  }
  if (WorkerPool::exiting()) {
    return fail(Status::NotSupported, "the process is exiting and queued work is not run any more");
  }
  completion->wait();
  return Status::Success;
}

Status Event::time(std::int64_t* nanoseconds) {
  // Pending is no failure here, but captured is.
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
