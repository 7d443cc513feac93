#pragma once

#include <c10/core/Stream.h>

#include "device/Stream.h"
#include "runtime/Functions.h"

namespace openreg {

// A c10::Stream that is known to be one of this backend's, with its SDK handle.
//
// Stream ids: 0 is the device's default stream, negative ids name a stream of the pool, and a positive id is the handle
// of a stream that somebody else created ("external").
class BACKEND_API Stream {
 public:
  // Raises if `stream` belongs to another device type.
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

  // The SDK's stream. Created on first use, alive until the process ends.
  device::StreamHandle handle() const;

  bool query() const;
  void synchronize() const;
  int priority() const;

 private:
  c10::Stream stream_;
};

BACKEND_API Stream defaultStream(c10::DeviceIndex index = -1);

// One of a fixed number of streams per device and priority, handed out in turn. Never the default stream. A lower
// number is served first; a priority outside of the device's range is clamped to it.
BACKEND_API Stream streamFromPool(int priority, c10::DeviceIndex index = -1);

// Wraps a stream made by the SDK outside of PyTorch. It stays the caller's to destroy.
BACKEND_API Stream streamFromExternal(device::StreamHandle handle, c10::DeviceIndex index);

// The calling thread's current stream of a device (-1: the current device).
BACKEND_API Stream currentStream(c10::DeviceIndex index = -1);
BACKEND_API void setCurrentStream(Stream stream);

// id() and handle() of the current stream without building a Stream: every operator needs them.
BACKEND_API c10::StreamId currentStreamId(c10::DeviceIndex index);
BACKEND_API device::StreamHandle currentStreamHandle(c10::DeviceIndex index);

}  // namespace openreg

template <>
struct std::hash<openreg::Stream> {
  size_t operator()(const openreg::Stream& stream) const noexcept {
    return std::hash<c10::Stream>{}(stream.unwrap());
  }
};
