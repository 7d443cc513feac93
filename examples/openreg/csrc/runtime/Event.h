#pragma once

#include <c10/core/Device.h>

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

// Makes an event on a given device whatever the current one is.
BACKEND_API device::EventHandle createEventOn(c10::DeviceIndex index, bool timing);

}  // namespace openreg
