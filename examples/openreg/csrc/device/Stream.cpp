#include "device/Stream.h"

#include "device/Error.h"
#include "device/Handles.h"
#include "device/Waiting.h"

// PORTING: make streams by your SDK's functions. streamPriority is optional.
namespace openreg::device {

StreamHandle createStream(int priority) {
  orStream_t stream = nullptr;
  DEVICE_CHECK(orStreamCreateWithPriority(&stream, 0, priority));
  return stream;
}

bool queryStream(StreamHandle stream) {
  const auto code = orStreamQuery(unwrap(stream));
  if (code == orErrorNotReady) {
    orGetLastError();
    return false;
  }
  DEVICE_CHECK_CODE(code, "orStreamQuery");
  return true;
}

void synchronizeStream(StreamHandle stream) {
  const Waiting waiting;
  DEVICE_CHECK(orStreamSynchronize(unwrap(stream)));
}

int streamPriority(StreamHandle stream) {
  int priority = 0;
  DEVICE_CHECK(orStreamGetPriority(unwrap(stream), &priority));
  return priority;
}

int streamDevice(StreamHandle stream) {
  int index = 0;
  DEVICE_CHECK(orStreamGetDevice(unwrap(stream), &index));
  return index;
}

}  // namespace openreg::device
