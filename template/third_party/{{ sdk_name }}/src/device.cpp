#include "device.h"

#include <algorithm>

namespace emulator {

Device::Device(int index, std::uintptr_t base, std::size_t size, std::ptrdiff_t kernel_offset, platform::Backing backing)
    : index(index), memory(base, size, kernel_offset, backing), workers(index) {
  default_stream.open(*this, kLeastPriority, 0);
  streams_.push_back(&default_stream);
}

void Device::add(Stream& stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(&stream);
}

void Device::remove(Stream& stream) {
  const std::lock_guard lock(mutex_);
  // Somebody may still synchronise the device to learn of it.
  stream.moveFailure(default_stream);
  std::erase(streams_, &stream);
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
  // All markers first: what is submitted while we wait for one stream is not ours to wait for on the next.
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
  const Status status = drain(thread);
  if (status != Status::Success) {
    return status;
  }
  const std::lock_guard lock(mutex_);
  Status failure = Status::Success;
  for (Stream* const stream : streams_) {
    // Each is reported with this one; the message is that of the first.
    if (failure == Status::Success) {
      failure = stream->takeFailure();
    } else {
      stream->dropFailure();
    }
  }
  return failure;
}

}  // namespace emulator
