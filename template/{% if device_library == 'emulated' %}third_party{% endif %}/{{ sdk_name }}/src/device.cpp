#include "device.h"

#include <algorithm>

#include "diagnosis.h"
#include "runtime.h"

namespace emulator {

Device::Device(
    int index, std::uintptr_t base, std::size_t size, std::ptrdiff_t kernel_offset, platform::Backing backing, std::uintptr_t import_base,
    std::size_t import_size)
    : index(index), memory(base, size, kernel_offset, backing, import_base, import_size), workers(index) {
  default_stream.open(*this, kLeastPriority, 0);
  streams_.push_back(&default_stream);
}

void Device::add(Stream& stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(&stream);
  stream.setLost(lost_.load(std::memory_order_relaxed));
}

void Device::remove(Stream& stream) {
  const std::lock_guard lock(mutex_);
  // A later synchronization of the device reports it.
  stream.moveFailure(default_stream);
  std::erase(streams_, &stream);
}

Status Device::explainLoss() {
  const std::lock_guard lock(mutex_);
  return fail(
      Status::DeviceLost,
      "device %d is lost: %.300s; reset the device, which ends its streams, events and graphs and frees its memory, or start the process "
      "again",
      index, loss_.c_str());
}

void Device::lose(const char* reason) {
  const std::lock_guard lock(mutex_);
  if (lost_.load(std::memory_order_relaxed)) {
    return;
  }
  loss_ = reason;
  lost_.store(true, std::memory_order_release);
  diagnosis::turn(diagnosis::kLost, true);
  for (Stream* const stream : streams_) {
    stream->setLost(true);
  }
}

void Device::restore() {
  {
    const std::lock_guard lock(mutex_);
    default_stream.dropFailure();
    default_stream.setLost(false);
    lost_.store(false, std::memory_order_release);
  }
  // Other devices may be lost too: the switch is on if any device is lost.
  diagnosis::turn(diagnosis::kLost, false);
  Runtime& runtime = *Runtime::get();
  for (int other = 0; other < runtime.deviceCount(); ++other) {
    if (runtime.device(other).lost_.load()) {
      diagnosis::turn(diagnosis::kLost, true);
    }
  }
}

std::vector<Stream*> Device::busyStreams() {
  std::vector<Stream*> busy;
  const std::lock_guard lock(mutex_);
  for (Stream* const stream : streams_) {
    if (!stream->idle()) {
      busy.push_back(stream);
    }
  }
  return busy;
}

Status Device::drain(ThreadState& thread) {
  const std::vector<Stream*> busy = busyStreams();
  for (const Stream* const stream : busy) {
    if (stream->heldBy(thread)) {
      return fail(Status::NotSupported, "a kernel cannot wait for the device that it runs on; synchronise after the launch has returned");
    }
  }
  if (!busy.empty() && WorkerPool::exiting()) {
    return fail(Status::NotSupported, "the process is exiting and queued work is not run any more");
  }
  // Submit all markers first: work that is submitted while this thread waits for one stream is not waited for on the next.
  std::vector<CompletionPtr> ends;
  ends.reserve(busy.size());
  for (Stream* const stream : busy) {
    ends.push_back(std::make_shared<Completion>(stream));
    stream->enqueue(makeMarker(Kind::Record, ends.back()));
  }
  for (const CompletionPtr& end : ends) {
    end->wait();
  }
  return Status::Success;
}

Status Device::synchronize(ThreadState& thread) {
  Status status = check();
  if (status == Status::Success) {
    status = drain(thread);
  }
  if (status == Status::Success) {
    status = check();
  }
  if (status != Status::Success) {
    return status;
  }
  const std::lock_guard lock(mutex_);
  Status failure = Status::Success;
  for (Stream* const stream : streams_) {
    // All failures are reported at once, with the message of the first.
    if (failure == Status::Success) {
      failure = stream->takeFailure();
    } else {
      stream->dropFailure();
    }
  }
  return failure;
}

}  // namespace emulator
