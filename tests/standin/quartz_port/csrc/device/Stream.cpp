#include "device/Stream.h"

#include "device/Device.h"
#include "device/Handles.h"
#include "device/Waiting.h"

namespace acme::device {

StreamHandle createStream(int /*priority*/) {
  return wrap(static_cast<uint32_t>(guarded([] { return quartz::open_queue(static_cast<unsigned>(current())); })));
}

bool queryStream(StreamHandle stream) {
  return guarded([&] { return quartz::idle(unwrap(stream)); });
}

void synchronizeStream(StreamHandle stream) {
  const Waiting waiting;
  guarded([&] { quartz::drain(unwrap(stream)); });
}

int streamDevice(StreamHandle stream) {
  return static_cast<int>(guarded([&] { return quartz::board_of(unwrap(stream)); }));
}

}  // namespace acme::device
