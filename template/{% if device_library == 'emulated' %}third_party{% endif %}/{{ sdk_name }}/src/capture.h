// Captures in progress: work that is submitted to their streams becomes part of a graph and does not run.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph.h"
#include "status.h"
#include "task.h"

namespace emulator {

class Stream;

// Same numbers as in the C interface.
enum class CaptureMode : int {
  Global = 0,
  ThreadLocal = 1,
  Relaxed = 2,
};
enum class CaptureState : int {
  None = 0,
  Active = 1,
  Invalidated = 2,
};

// Guarded by the mutex of Captures.
struct Capture {
  struct Branch {
    Stream* stream;
    std::vector<std::size_t> ends;  // the stream's next node depends on these nodes
  };

  CaptureMode mode;
  const ThreadState* thread;
  std::vector<Branch> branches;  // the first is the origin's
  std::shared_ptr<Graph> graph;
  std::string invalid;  // the reason; empty if the capture is valid
  bool ended = false;

  Branch& branchOf(const Stream& stream);
};

// The point of a capture at which an event was recorded.
struct CapturedPoint {
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> ends;
};
using CapturedPointPtr = std::shared_ptr<const CapturedPoint>;

// Captures are rare, and one lock is enough for all of them. Thread-safe.
class Captures {
 public:
  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }

  Status begin(ThreadState& thread, Stream& origin, CaptureMode mode);

  // Ends the capture even if this fails, unless the stream or the thread must not end it.
  Status end(ThreadState& thread, Stream& origin, std::shared_ptr<const Graph>* graph);

  CaptureState state(const Stream& stream);

  // Adds the work to the graph as a node. If the capture has ended meanwhile, submits it to the stream instead.
  Status record(Stream& stream, TaskPtr work);

  // The stream's present point in the graph; null if its capture has ended meanwhile.
  Status mark(const Stream& stream, CapturedPointPtr* point);

  // Later work of the stream depends on the point. The stream joins the capture.
  Status join(ThreadState& thread, Stream& stream, const CapturedPoint& point);

  // The call cannot be captured: invalidates the capture of the stream or the event. `why` is a sentence.
  Status refuse(const Stream& stream, const char* why);
  Status refuse(const CapturedPoint& point);

  // Refuses to wait for a device if it has a stream in a capture.
  Status checkDevice(int device);

  // Ends the captures of a device that is being reset.
  void abandon(int device);

  // Refuses a synchronous call if the mode of a capture forbids it.
  Status checkSynchronous(const ThreadState& thread);

 private:
  static Status invalidate(Capture& capture, Status status);
  static Status reportInvalid(const Capture& capture);
  void close(const std::shared_ptr<Capture>& capture);

  std::atomic<int> count_{0};
  std::mutex mutex_;
  std::vector<std::shared_ptr<Capture>> active_;
};

}  // namespace emulator
