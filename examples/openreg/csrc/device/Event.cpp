#include "device/Event.h"

#include "device/Error.h"
#include "device/Handles.h"
#include "device/Waiting.h"

// PORTING: make events by your SDK's functions. elapsedTime is optional.
namespace openreg::device {

EventHandle createEvent(bool timing) {
  orEvent_t event = nullptr;
  // An event is shared only when its handle is requested.
  const unsigned flags = timing ? orEventDefault : orEventDisableTiming | orEventInterprocess;
  DEVICE_CHECK(orEventCreateWithFlags(&event, flags));
  return event;
}

void destroyEvent(EventHandle event) noexcept {
  DEVICE_WARN(orEventDestroy(unwrapEvent(event)));
}

void recordEvent(EventHandle event, StreamHandle stream) {
  DEVICE_CHECK(orEventRecord(unwrapEvent(event), unwrap(stream)));
}

void waitEvent(StreamHandle stream, EventHandle event) {
  DEVICE_CHECK(orStreamWaitEvent(unwrap(stream), unwrapEvent(event), 0));
}

bool queryEvent(EventHandle event) {
  const auto code = orEventQuery(unwrapEvent(event));
  if (code == orErrorNotReady) {
    orGetLastError();
    return false;
  }
  DEVICE_CHECK_CODE(code, "orEventQuery");
  return true;
}

void synchronizeEvent(EventHandle event) {
  const Waiting waiting;
  DEVICE_CHECK(orEventSynchronize(unwrapEvent(event)));
}

double elapsedTime(EventHandle start, EventHandle end) {
  float milliseconds = 0;
  DEVICE_CHECK(orEventElapsedTime(&milliseconds, unwrapEvent(start), unwrapEvent(end)));
  return milliseconds;
}

}  // namespace openreg::device
