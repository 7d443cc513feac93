#include "device/Stream.h"

#include "device/Device.h"
#include "device/Error.h"
#include "device/Handles.h"
#include "device/Waiting.h"

namespace acme::device {

StreamHandle createStream(int /*priority*/) {
  bsStream_t stream = nullptr;
  DEVICE_CHECK(bsStreamCreate(&stream));
  return streams().add(stream, current());
}

bool queryStream(StreamHandle stream) {
  return streams().query(stream);
}

void synchronizeStream(StreamHandle stream) {
  const Waiting waiting;
  DEVICE_CHECK(bsStreamSynchronize(unwrap(stream)));
}

int streamDevice(StreamHandle stream) {
  return streams().device(stream);
}

}  // namespace acme::device
