#include "device/Event.h"

#include "device/Error.h"
#include "device/Handles.h"
#include "device/Waiting.h"
#include "device/substitutes/FreshEvents.h"

namespace acme::device {
namespace {

struct Sdk {
  using Event = bsEvent_t;
  static Event create(bool /*timing*/) {
    Event event = nullptr;
    DEVICE_CHECK(bsEventCreate(&event));
    return event;
  }
  static void destroy(Event event) {
    DEVICE_WARN(bsEventDestroy(event));
  }
  static void record(Event event, StreamHandle stream) {
    DEVICE_CHECK(bsEventRecord(event, unwrap(stream)));
  }
};
using Events = FreshEvents<Sdk>;

}  // namespace

EventHandle createEvent(bool timing) {
  return Events::create(timing);
}

void destroyEvent(EventHandle event) noexcept {
  Events::destroy(event);
}

void recordEvent(EventHandle event, StreamHandle stream) {
  Events::record(event, stream);
}

void waitEvent(StreamHandle stream, EventHandle event) {
  Events::with(event, [&](bsEvent_t latest) { DEVICE_CHECK(bsStreamWaitEvent(unwrap(stream), latest)); });
  streams().submitted(stream);
}

bool queryEvent(EventHandle event) {
  bool reached = true;
  Events::with(event, [&](bsEvent_t latest) { reached = bsEventQuery(latest) == bsSuccess; });
  return reached;
}

void synchronizeEvent(EventHandle event) {
  const Waiting waiting;
  Events::with(event, [](bsEvent_t latest) { DEVICE_CHECK(bsEventSynchronize(latest)); });
}

double elapsedTime(EventHandle start, EventHandle end) {
  float milliseconds = 0;
  Events::withBoth(start, end, [&](bsEvent_t first, bsEvent_t last) { DEVICE_CHECK(bsEventElapsed(first, last, &milliseconds)); });
  return milliseconds;
}

}  // namespace acme::device
