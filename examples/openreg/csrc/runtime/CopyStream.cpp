#include "runtime/CopyStream.h"

#include <map>
#include <mutex>

#include "runtime/Guard.h"

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

}  // namespace openreg
