#include "device/Device.h"

#include "device/Error.h"
#include "device/Handles.h"
#include "device/ScopedDevice.h"
#include "device/Waiting.h"

namespace acme::device {

void initialize() {
  int devices = 0;
  DEVICE_CHECK(bsGetDeviceCount(&devices));
}

int count() noexcept {
  int devices = 0;
  return bsGetDeviceCount(&devices) == bsSuccess ? devices : 0;
}

int current() {
  int index = 0;
  DEVICE_CHECK(bsGetDevice(&index));
  return index;
}

void setCurrent(int index) {
  DEVICE_CHECK(bsSetDevice(index));
}

void uncheckedSetCurrent(int index) noexcept {
  DEVICE_WARN(bsSetDevice(index));
}

void synchronize(int index) {
  const Waiting waiting;
  const ScopedDevice scope(index);
  DEVICE_CHECK(bsDeviceSynchronize());
}

Properties properties(int /*index*/) {
  Properties result;
  result.name = "Basalt";
  result.total_memory = size_t{16} << 30;
  result.allocation_alignment = 4096;
  return result;
}

MemoryInfo memoryInfo(int index) {
  return budget().info(index);
}

}  // namespace acme::device
