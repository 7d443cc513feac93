#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include "device/Event.h"
#include "runtime/Stream.h"

namespace openreg {

// Owns an SDK event. The event is created at its first record, on the device of that stream, without timing, because it only orders work.
class BACKEND_API Event {
 public:
  Event() = default;
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const Stream& stream);
  void block(const Stream& stream) const;  // later work of the stream waits for this event
  bool query() const;
  void synchronize() const;

 private:
  device::EventHandle event_ = nullptr;
};

// Gives an existing handle to a c10::Event of `index` that has no handle yet. PyTorch sets handles only in the guard's record
// function. During this call that function takes the offered handle and records nothing.
BACKEND_API void adoptEvent(c10::Event& event, c10::DeviceIndex index, device::EventHandle handle);

// For the guard: the offered handle, or nullptr.
device::EventHandle takeOfferedEvent();

// Creates an event on the given device, which may differ from the current device.
BACKEND_API device::EventHandle createEventOn(c10::DeviceIndex index, bool timing);

// Does nothing in the child of a fork, to which the event does not belong.
void destroyEvent(device::EventHandle event) noexcept;

}  // namespace openreg
