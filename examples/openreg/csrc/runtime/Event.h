#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include "device/Event.h"
#include "runtime/Stream.h"

namespace openreg {

// An SDK event with an owner. Created on the device of the first stream it is recorded on; timing is off, as it is for
// every event that only orders work.
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

// Gives a c10::Event of `index` a handle that exists; it has none of its own yet. Core lets only the guard's record do that:
// within this call it takes the handle and records nothing.
BACKEND_API void adoptEvent(c10::Event& event, c10::DeviceIndex index, device::EventHandle handle);

// For the guard: the handle to take, nullptr if none is offered.
device::EventHandle takeOfferedEvent();

// Makes an event on a given device whatever the current one is.
BACKEND_API device::EventHandle createEventOn(c10::DeviceIndex index, bool timing);

}  // namespace openreg
