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
//   inline StreamTable& streams() {  // in Handles.h, because Stream, Memory, Event and Launch.cpp use it; never destroyed
//     static auto& table = *new StreamTable;
//     return table;
//   }
//   StreamHandle createStream(int) { ...; return streams().add(stream, current()); }
//   int streamDevice(StreamHandle stream) { return streams().device(stream); }
//   bool queryStream(StreamHandle stream) { return streams().query(stream); }  // with streams().submitted(stream) after each submission
//
// A stream that another library made is not in the table: get_stream_from_external() raises ValueError for it, unless the port adds it.
class StreamTable {
 public:
  // Returns the stream.
  StreamHandle add(StreamHandle stream, int device) {
    const std::lock_guard<std::mutex> guard(mutex_);
    streams_.insert_or_assign(stream, Entry{device});
    return stream;
  }

  int device(StreamHandle stream) {
    return find(stream).device;
  }

  // Records an event behind the work that was submitted. Call it after each submission of a kernel, copy, fill, wait or held function, but
  // not after recordEvent. It needs the functions of Event.h.
  void submitted(StreamHandle stream) {
    auto* last = find(stream).last;
    recordEvent(last != nullptr ? last : makeLast(stream), stream);
  }

  // Whether everything submitted has completed, as the event behind the last submission tells.
  bool query(StreamHandle stream) {
    auto* const last = find(stream).last;
    return last == nullptr || queryEvent(last);
  }

 private:
  struct Entry {
    int device;
    EventHandle last = nullptr;  // behind the last submission
  };

  EventHandle makeLast(StreamHandle stream) {
    const ScopedDevice scope(device(stream));
    auto* const made = createEvent(/*timing=*/false);
    EventHandle last = nullptr;
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      auto& entry = streams_.at(stream);
      last = entry.last = entry.last != nullptr ? entry.last : made;
    }
    if (last != made) {
      destroyEvent(made);  // another thread was first
    }
    return last;
  }

  Entry find(StreamHandle stream) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = streams_.find(stream);
    TORCH_CHECK_VALUE(found != streams_.end(), stream, " is not a stream that this device has made");
    return found->second;
  }

  std::mutex mutex_;  // not held while functions of the seam run, because they may use the table
  std::unordered_map<StreamHandle, Entry> streams_;
};

}  // namespace openreg::device
