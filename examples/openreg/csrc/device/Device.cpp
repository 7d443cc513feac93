#include "device/Device.h"

#include <openreg/openreg.h>

#include "device/Error.h"
#include "device/ScopedDevice.h"
#include "device/Waiting.h"

// PORTING: start the SDK and select devices by your SDK's functions. supportsDtype, canAccessPeer and priorityRange are optional.
namespace openreg::device {

void initialize() {
  int devices = 0;
  DEVICE_CHECK(orGetDeviceCount(&devices));
}

int count() noexcept {
  int devices = 0;
  if (orGetDeviceCount(&devices) != orSuccess) {
    orGetLastError();
    return 0;
  }
  return devices;
}

int current() {
  int index = 0;
  DEVICE_CHECK(orGetDevice(&index));
  return index;
}

void setCurrent(int index) {
  DEVICE_CHECK(orSetDevice(index));
}

void synchronize(int index) {
  const Waiting waiting;
  const ScopedDevice scope(index);
  DEVICE_CHECK(orDeviceSynchronize());
}

Properties properties(int index) {
  orDeviceProp prop{};
  DEVICE_CHECK(orGetDeviceProperties(&prop, index));
  Properties result;
  result.name = prop.name;
  result.total_memory = prop.totalGlobalMem;
  result.allocation_alignment = prop.allocationAlignment;
  result.multi_processor_count = prop.multiProcessorCount;
  result.major = prop.major;
  result.minor = prop.minor;
  return result;
}

void uncheckedSetCurrent(int index) noexcept {
  int previous = 0;
  if (orGetDevice(&previous) != orSuccess || previous != index) {
    DEVICE_WARN(orSetDevice(index));
  }
}

MemoryInfo memoryInfo(int index) {
  const ScopedDevice scope(index);
  MemoryInfo info;
  DEVICE_CHECK(orMemGetInfo(&info.free, &info.total));
  return info;
}

bool supportsDtype(int /*index*/, c10::ScalarType /*dtype*/) {
  return true;  // memory of the host holds them all
}

bool canAccessPeer(int index, int peer) {
  int can = 0;
  DEVICE_CHECK(orDeviceCanAccessPeer(&can, index, peer));
  return can != 0;
}

PriorityRange priorityRange() {
  PriorityRange range;
  DEVICE_CHECK(orDeviceGetStreamPriorityRange(&range.least, &range.greatest));
  return range;
}

}  // namespace openreg::device
