#include "event.h"

#include "device.h"
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
}

int Event::device() {
  const std::lock_guard lock(mutex_);
  return device_;
}

Status Event::record(Stream& stream) {
  TaskPtr marker;
  {
    const std::lock_guard lock(mutex_);
    if (device_ != stream.device().index) {
      return fail(Status::InvalidHandle, "the event was made for device %d and the stream is on device %d; make the event while the stream's device is current", device_, stream.device().index);
    }
    // An idle stream has come to this point already.
    if (!stream.idle()) {
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
CompletionPtr Event::pending() {
  const std::lock_guard lock(mutex_);
  return latest_ != nullptr && !latest_->done() ? latest_ : nullptr;
}

Status Event::hold(ThreadState& thread, Stream& stream) {
  CompletionPtr completion = pending();
  if (completion == nullptr) {
    return Status::Success;
  }
  if (stream.heldBy(thread)) {
    return fail(Status::NotSupported, "a kernel cannot have its own stream wait; let the stream wait before the launch");
  }
  stream.enqueue(makeMarker(Kind::Wait, std::move(completion)));
  return Status::Success;
}

bool Event::done() {
  return pending() == nullptr;
}

Status Event::synchronize(ThreadState& thread) {
  const CompletionPtr completion = pending();
  if (completion == nullptr) {
    return Status::Success;
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
