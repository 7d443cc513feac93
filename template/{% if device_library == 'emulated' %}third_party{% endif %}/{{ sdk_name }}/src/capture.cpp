#include "capture.h"

#include <algorithm>
#include <utility>

#include "device.h"
#include "stream.h"

namespace emulator {
namespace {

void merge(std::vector<std::size_t>& ends, const std::vector<std::size_t>& more) {
  for (const std::size_t end : more) {
    if (std::find(ends.begin(), ends.end(), end) == ends.end()) {
      ends.push_back(end);
    }
  }
}

}  // namespace

Capture::Branch& Capture::branchOf(const Stream& stream) {
  return *std::find_if(branches.begin(), branches.end(), [&](const Branch& branch) { return branch.stream == &stream; });
}

Status Captures::begin(ThreadState& thread, Stream& origin, CaptureMode mode) {
  if (origin.heldBy(thread)) {
    return fail(Status::NotSupported, "a kernel cannot capture the stream that it runs on");
  }
  const std::lock_guard lock(mutex_);
  if (origin.capture() != nullptr) {
    return fail(Status::InvalidValue, "the stream is being captured already; end that capture first");
  }
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->thread = &thread;
  capture->branches.push_back({&origin, {}});
  capture->graph = std::make_shared<Graph>();
  active_.push_back(capture);
  count_.fetch_add(1, std::memory_order_relaxed);
  origin.setCapture(std::move(capture));
  return Status::Success;
}

Status Captures::end(ThreadState& thread, Stream& origin, std::shared_ptr<const Graph>* graph) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Capture> capture = origin.capture();
  if (capture == nullptr) {
    return fail(Status::InvalidValue, "the stream is not being captured; begin a capture on it first");
  }
  if (capture->branches.front().stream != &origin) {
    return fail(Status::InvalidValue, "the stream joined a capture that began on another stream; end it there");
  }
  if (capture->mode != CaptureMode::Relaxed && capture->thread != &thread) {
    return fail(Status::NotSupported, "the capture began on another thread; end it there, or begin it in the relaxed mode");
  }
  close(capture);
  if (!capture->invalid.empty()) {
    return reportInvalid(*capture);
  }
  if (!capture->graph->allBefore(capture->branches.front().ends)) {
    return fail(
        Status::StreamCaptureUnjoined,
        "work of another stream that joined the capture is not awaited by the stream on which it began; record an event behind that work "
        "and have the first stream wait for it before the end");
  }
  *graph = capture->graph;
  return Status::Success;
}

void Captures::close(const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  for (const Capture::Branch& branch : capture->branches) {
    branch.stream->setCapture(nullptr);
  }
  std::erase(active_, capture);
  count_.fetch_sub(1, std::memory_order_relaxed);
}

CaptureState Captures::state(const Stream& stream) {
  const std::lock_guard lock(mutex_);
  const auto& capture = stream.capture();
  if (capture == nullptr) {
    return CaptureState::None;
  }
  return capture->invalid.empty() ? CaptureState::Active : CaptureState::Invalidated;
}

Status Captures::record(Stream& stream, TaskPtr work) {
  const std::lock_guard lock(mutex_);
  const auto& capture = stream.capture();
  if (capture == nullptr) {
    stream.enqueue(std::move(work));
    return Status::Success;
  }
  if (!capture->invalid.empty()) {
    return reportInvalid(*capture);
  }
  std::vector<std::size_t>& ends = capture->branchOf(stream).ends;
  const std::size_t index = capture->graph->add({std::move(work), stream.device().index, stream.handle(), ends});
  ends.assign(1, index);
  return Status::Success;
}

Status Captures::mark(const Stream& stream, CapturedPointPtr* point) {
  const std::lock_guard lock(mutex_);
  const auto& capture = stream.capture();
  if (capture == nullptr) {
    return Status::Success;
  }
  if (!capture->invalid.empty()) {
    return reportInvalid(*capture);
  }
  *point = std::make_shared<const CapturedPoint>(CapturedPoint{capture, capture->branchOf(stream).ends});
  return Status::Success;
}

Status Captures::join(ThreadState& thread, Stream& stream, const CapturedPoint& point) {
  if (stream.heldBy(thread)) {
    return fail(Status::NotSupported, "a kernel cannot have its own stream take part in a capture");
  }
  const std::lock_guard lock(mutex_);
  Capture& capture = *point.capture;
  const std::shared_ptr<Capture> own = stream.capture();
  if (own != nullptr && own != point.capture) {
    const Status status = fail(
        Status::StreamCaptureUnsupported,
        "the event belongs to another capture than the stream; captures cannot be merged, nor wait for each other");
    if (!capture.ended) {
      invalidate(capture, status);
    }
    return invalidate(*own, status);
  }
  if (capture.ended) {
    return fail(
        Status::StreamCaptureUnsupported, "the event was recorded in a capture that has ended; record it again before waiting for it");
  }
  if (!capture.invalid.empty()) {
    return reportInvalid(capture);
  }
  if (own != nullptr) {
    merge(capture.branchOf(stream).ends, point.ends);
    return Status::Success;
  }
  capture.branches.push_back({&stream, point.ends});
  stream.setCapture(point.capture);
  return Status::Success;
}

Status Captures::invalidate(Capture& capture, Status status) {
  if (capture.invalid.empty()) {
    capture.invalid = thisThread().detail;
  }
  return status;
}

Status Captures::reportInvalid(const Capture& capture) {
  return fail(
      Status::StreamCaptureInvalidated,
      "the capture became invalid by an earlier call: %.300s; end it, and capture again without that call", capture.invalid.c_str());
}

Status Captures::refuse(const Stream& stream, const char* why) {
  const std::lock_guard lock(mutex_);
  const Status status = fail(Status::StreamCaptureUnsupported, "%s", why);
  const auto& capture = stream.capture();
  return capture != nullptr ? invalidate(*capture, status) : status;
}

Status Captures::refuse(const CapturedPoint& point) {
  const std::lock_guard lock(mutex_);
  if (point.capture->ended) {
    return fail(
        Status::StreamCaptureUnsupported,
        "the event was recorded in a capture, where nothing runs, and stands for no work; record it outside of a capture first");
  }
  return invalidate(
      *point.capture, fail(
                          Status::StreamCaptureUnsupported,
                          "the event was recorded in a capture that is going on, where nothing runs; ask for it after the graph was "
                          "launched, by an event recorded behind the launch"));
}

Status Captures::checkDevice(int device) {
  const std::lock_guard lock(mutex_);
  Status status = Status::Success;
  for (const auto& capture : active_) {
    const auto onDevice = [device](const Capture::Branch& branch) { return branch.stream->device().index == device; };
    if (std::any_of(capture->branches.begin(), capture->branches.end(), onDevice)) {
      status = fail(
          Status::StreamCaptureUnsupported,
          "a stream of device %d is being captured, and the device cannot be waited for; synchronise before the capture begins or after it "
          "has ended",
          device);
      invalidate(*capture, status);
    }
  }
  return status;
}

void Captures::abandon(int device) {
  const std::lock_guard lock(mutex_);
  const auto captures = active_;
  for (const auto& capture : captures) {
    const auto onDevice = [device](const Capture::Branch& branch) { return branch.stream->device().index == device; };
    if (std::none_of(capture->branches.begin(), capture->branches.end(), onDevice)) {
      continue;
    }
    if (capture->invalid.empty()) {
      capture->invalid = "device " + std::to_string(device) + " was reset";
    }
    if (onDevice(capture->branches.front())) {
      close(capture);
      continue;
    }
    for (const Capture::Branch& branch : capture->branches) {
      if (onDevice(branch)) {
        branch.stream->setCapture(nullptr);
      }
    }
    std::erase_if(capture->branches, onDevice);
  }
}

Status Captures::checkSynchronous(const ThreadState& thread) {
  const std::lock_guard lock(mutex_);
  Status status = Status::Success;
  for (const auto& capture : active_) {
    const bool everywhere = capture->mode == CaptureMode::Global;
    if (everywhere || (capture->mode == CaptureMode::ThreadLocal && capture->thread == &thread)) {
      status = fail(
          Status::StreamCaptureUnsupported,
          "this is synchronous, and a capture in the %s mode is going on%s; use the asynchronous function with a stream, or capture in the "
          "relaxed mode",
          everywhere ? "global" : "thread-local", everywhere ? " in the process" : " on this thread");
      invalidate(*capture, status);
    }
  }
  return status;
}

}  // namespace emulator
