#include "runtime/CopyStream.h"

#include <map>
#include <mutex>

#include "device/Launch.h"
#include "device/Memory.h"
#include "runtime/Guard.h"
#include "runtime/Stream.h"

namespace openreg {

device::StreamHandle copyStream(c10::DeviceIndex device) {
  static std::mutex mutex;
  static auto& streams = *new std::map<c10::DeviceIndex, device::StreamHandle>;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& stream = streams[device];
  if (stream == nullptr) {
    const DeviceGuard guard(c10::Device(kDeviceType, device));
    stream = device::createStream(0);
  }
  return stream;
}

void copyInOrder(void* dst, const void* src, size_t nbytes, c10::DeviceIndex device) {
  auto* const stream = currentStreamHandle(device);
  if (device::runningStream() != stream) {
    device::copyAsync(dst, src, nbytes, stream);
    return;
  }
  auto* const copies = copyStream(device);
  device::copyAsync(dst, src, nbytes, copies);
  device::synchronizeStream(copies);
}

}  // namespace openreg
