#pragma once

#include <c10/core/Stream.h>

#include "device/Device.h"
#include "device/Stream.h"
#include "runtime/Functions.h"

namespace openreg {

// A c10::Stream of this backend, with its SDK handle.
//
// Stream ids: 0 is the device's default stream, a negative id is a stream of the pool, and a positive id is the handle of an external
// stream, which another library created.
class BACKEND_API Stream {
 public:
  // Raises an error if `stream` belongs to another device type.
  explicit Stream(c10::Stream stream);

  operator c10::Stream() const {
    return stream_;
  }
  c10::Stream unwrap() const {
    return stream_;
  }
  c10::DeviceIndex device_index() const {
    return stream_.device_index();
  }
  c10::StreamId id() const {
    return stream_.id();
  }
  bool operator==(const Stream& other) const {
    return stream_ == other.stream_;
  }
  bool operator!=(const Stream& other) const {
    return stream_ != other.stream_;
  }

  // The SDK's stream. It is created at its first use and exists until the process ends.
  device::StreamHandle handle() const;

  bool query() const;
  void synchronize() const;
  int priority() const;

  // Whether the stream's work is recorded into a graph instead of run. False where nothing can capture.
  bool isCapturing() const;

 private:
  c10::Stream stream_;
};

// What isCapturing asks. Graph capture sets it while the library loads.
using CaptureQuery = bool (*)(device::StreamHandle stream);
void setCaptureQuery(CaptureQuery query);

// The range of streams' priorities; {0, 0} on a device without them.
BACKEND_API device::PriorityRange priorityRange();

BACKEND_API Stream defaultStream(c10::DeviceIndex index = -1);

// Returns one of a fixed number of streams for each device and priority, in rotation; never the default stream. Work of a
// lower priority number runs first. A priority outside the device's range is clamped.
BACKEND_API Stream streamFromPool(int priority, c10::DeviceIndex index = -1);

// Wraps an SDK stream that another library created. The caller remains responsible for destroying it.
BACKEND_API Stream streamFromExternal(device::StreamHandle handle, c10::DeviceIndex index);

// The calling thread's current stream of a device (-1: the current device).
BACKEND_API Stream currentStream(c10::DeviceIndex index = -1);
BACKEND_API void setCurrentStream(Stream stream);

// id() and handle() of the current stream without creating a Stream, because every operator needs them.
BACKEND_API c10::StreamId currentStreamId(c10::DeviceIndex index);
BACKEND_API device::StreamHandle currentStreamHandle(c10::DeviceIndex index);

}  // namespace openreg

template <>
struct std::hash<::openreg::Stream> {
  size_t operator()(const ::openreg::Stream& stream) const noexcept {
    return std::hash<c10::Stream>{}(stream.unwrap());
  }
};
