#include "runtime/Event.h"

#include <utility>

#include "device/Capabilities.h"
#include "runtime/Guard.h"

namespace openreg {

device::EventHandle createEventOn(c10::DeviceIndex index, bool timing) {
  if (timing) {
    device::requireCapability("timing");
  }
  const DeviceGuard device_guard(c10::Device(kDeviceType, index));
  return device::createEvent(timing);
}

void destroyEvent(device::EventHandle event) noexcept {
  if (!inBadFork()) {
    device::destroyEvent(event);
  }
}

namespace {

thread_local device::EventHandle offered_event = nullptr;

}  // namespace

void adoptEvent(c10::Event& event, c10::DeviceIndex index, device::EventHandle handle) {
  offered_event = handle;
  try {
    event.record(defaultStream(index));
  } catch (...) {
    if (takeOfferedEvent() != nullptr) {
      destroyEvent(handle);
    }
    throw;
  }
  TORCH_INTERNAL_ASSERT(offered_event == nullptr, "only an event that was never recorded can adopt a handle");
}

device::EventHandle takeOfferedEvent() {
  return std::exchange(offered_event, nullptr);
}

Event::~Event() {
  if (event_ != nullptr) {
    destroyEvent(event_);
  }
}

Event::Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(event_, other.event_);
  return *this;
}

void Event::record(const Stream& stream) {
  if (event_ == nullptr) {
    event_ = createEventOn(stream.device_index(), /*timing=*/false);
  }
  device::recordEvent(event_, stream.handle());
}

void Event::block(const Stream& stream) const {
  if (event_ != nullptr) {
    device::waitEvent(stream.handle(), event_);
  }
}

bool Event::query() const {
  return event_ == nullptr || device::queryEvent(event_);
}

void Event::synchronize() const {
  if (event_ != nullptr) {
    device::synchronizeEvent(event_);
  }
}

}  // namespace openreg
