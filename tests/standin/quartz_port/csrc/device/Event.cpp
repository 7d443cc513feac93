#include "device/Event.h"

#include "device/Handles.h"
#include "device/Waiting.h"

namespace acme::device {

EventHandle createEvent(bool timing) {
  return wrap(static_cast<uint32_t>(guarded([&] { return quartz::make_mark(timing); })));
}

void destroyEvent(EventHandle event) noexcept {
  warned([&] { quartz::drop(unwrapEvent(event)); });
}

void recordEvent(EventHandle event, StreamHandle stream) {
  guarded([&] { quartz::set(unwrapEvent(event), unwrap(stream)); });
}

void waitEvent(StreamHandle stream, EventHandle event) {
  guarded([&] { quartz::hold(unwrap(stream), unwrapEvent(event)); });
}

bool queryEvent(EventHandle event) {
  return guarded([&] { return quartz::passed(unwrapEvent(event)); });
}

void synchronizeEvent(EventHandle event) {
  const Waiting waiting;
  guarded([&] { quartz::wait(unwrapEvent(event)); });
}

double elapsedTime(EventHandle start, EventHandle end) {
  return guarded([&] { return quartz::seconds_between(unwrapEvent(start), unwrapEvent(end)); }) * 1000;
}

}  // namespace acme::device
