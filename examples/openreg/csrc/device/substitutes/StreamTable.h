#pragma once

#include <c10/util/Exception.h>

#include <mutex>
#include <unordered_map>

#include "device/Event.h"
#include "device/ScopedDevice.h"
#include "device/Stream.h"

namespace openreg::device {

// For an SDK that does not tell a stream's device, or whose query is wrong while a task runs: facts of streams, kept beside the SDK.
//
//   StreamTable streams;  // never destroyed
//   StreamHandle createStream(int) { ...; return streams.add(stream, current()); }
//   int streamDevice(StreamHandle stream) { return streams.device(stream); }
//   bool queryStream(StreamHandle stream) { return streams.query(stream); }  // with streams.submitted(stream) after each submission
//
// A stream that another library made is not in the table: get_stream_from_external() raises ValueError for it, unless the port adds it.
class StreamTable {
 public:
  StreamHandle add(StreamHandle stream, int device) {
    const std::lock_guard<std::mutex> guard(mutex_);
    streams_[stream].device = device;
    return stream;
  }

  int device(StreamHandle stream) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = streams_.find(stream);
    TORCH_CHECK_VALUE(found != streams_.end(), stream, " is not a stream that this device has made");
    return found->second.device;
  }

  // Notes that work was submitted. Call it after each submission of a kernel, copy, fill or wait, but not after recordEvent.
  void submitted(StreamHandle stream) {
    const std::lock_guard<std::mutex> guard(mutex_);
    ++streams_[stream].submissions;
  }

  // Whether everything submitted has completed: records an event behind the last submission and asks the event. An idle stream may need a
  // moment to reach it, so the first answer may be false.
  bool query(StreamHandle stream) {
    const std::lock_guard<std::mutex> guard(mutex_);
    auto& entry = streams_[stream];
    if (entry.marked != entry.submissions) {
      const ScopedDevice scope(entry.device);
      if (entry.mark == nullptr) {
        entry.mark = createEvent(/*timing=*/false);
      }
      recordEvent(entry.mark, stream);
      entry.marked = entry.submissions;
    }
    return entry.mark == nullptr || queryEvent(entry.mark);
  }

 private:
  struct Entry {
    int device = 0;
    int64_t submissions = 0;
    int64_t marked = 0;  // the submissions before the mark
    EventHandle mark = nullptr;
  };

  std::mutex mutex_;
  std::unordered_map<StreamHandle, Entry> streams_;
};

}  // namespace openreg::device
