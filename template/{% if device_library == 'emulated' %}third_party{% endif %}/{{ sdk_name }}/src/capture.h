// Captures in progress: what their streams are given becomes a graph instead of being run.
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
    std::vector<std::size_t> ends;  // what comes next on the stream comes after these nodes
  };

  CaptureMode mode;
  const ThreadState* thread;
  std::vector<Branch> branches;  // the first is the origin's
  std::shared_ptr<Graph> graph;
  std::string invalid;  // why, empty if it is not
  bool ended = false;

  Branch& branchOf(const Stream& stream);
};

// What an event stands for that was recorded in a capture.
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

  // The capture is over also if this fails, except if it is not this stream's or thread's to end.
  Status end(ThreadState& thread, Stream& origin, std::shared_ptr<const Graph>* graph);

  CaptureState state(const Stream& stream);

  // Makes a node of the work; the stream is given it if its capture has ended meanwhile.
  Status record(Stream& stream, TaskPtr work);

  // Where the stream has come to; null if its capture has ended meanwhile.
  Status mark(const Stream& stream, CapturedPointPtr* point);

  // What the stream is given from now on comes after the point; it takes part in the capture from here on.
  Status join(ThreadState& thread, Stream& stream, const CapturedPoint& point);

  // The call cannot be captured: invalidates what the stream or the event belongs to. `why` is a sentence.
  Status refuse(const Stream& stream, const char* why);
  Status refuse(const CapturedPoint& point);

  // Refuses to wait for a device if it has a stream in a capture.
  Status checkDevice(int device);

  // Ends what a device that is being reset has to do with captures.
  void abandon(int device);

  // Refuses to do something synchronous where the mode of a capture forbids it.
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
