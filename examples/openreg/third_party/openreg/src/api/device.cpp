// Device functions of the C interface.
#include "api.h"

#include <cstdio>

#include "../platform/platform.h"

using namespace emulator;
using namespace emulator::api;

namespace {

// Does not use the runtime, because counting devices must not set them up.
Status checkSettings() {
  const Settings& wanted = settings();
  return wanted.error.empty() ? Status::Success : fail(Status::Initialization, "%s", wanted.error.c_str());
}

Status checkDevice(int device) {
  EMULATOR_TRY(checkSettings());
  const int count = settings().device_count;
  if (device >= 0 && device < count) {
    return Status::Success;
  }
  return fail(Status::InvalidDevice, "there is no device %d; the number of devices is %d", device, count);
}

}  // namespace

orError_t orGetDeviceCount(int* count) {
  return call(__func__, [&] {
    EMULATOR_TRY(requireOutput(count, "count"));
    EMULATOR_TRY(checkSettings());
    *count = settings().device_count;
    return Status::Success;
  });
}

orError_t orGetDevice(int* device) {
  return call(__func__, [&] {
    EMULATOR_TRY(requireOutput(device, "device"));
    EMULATOR_TRY(checkDevice(thisThread().device));
    *device = thisThread().device;
    return Status::Success;
  });
}

orError_t orSetDevice(int device) {
  return call(__func__, [&] {
    EMULATOR_TRY(Runtime::checkFork());
    EMULATOR_TRY(checkDevice(device));
    thisThread().device = device;
    return Status::Success;
  });
}

orError_t orDeviceSynchronize() {
  return callRuntime(__func__, [](Runtime& runtime, ThreadState& thread) {
    if (runtime.captures.any()) [[unlikely]] {
      EMULATOR_TRY(runtime.captures.checkDevice(thread.device));
    }
    return runtime.currentDevice(thread).synchronize(thread);
  });
}

orError_t orGetDeviceProperties(orDeviceProp* properties, int device) {
  return call(__func__, [&] {
    EMULATOR_TRY(requireOutput(properties, "properties"));
    EMULATOR_TRY(checkDevice(device));
    const std::size_t page = platform::pageSize();
    *properties = {};
    std::snprintf(properties->name, sizeof(properties->name), "Emulated accelerator");
    properties->totalGlobalMem = (settings().device_memory + page - 1) / page * page;
    properties->allocationAlignment = DeviceMemory::kAlignment;
    properties->multiProcessorCount = platform::hardwareThreads();
    properties->major = OPENREG_VERSION / 1000;
    properties->minor = OPENREG_VERSION % 1000 / 10;
    properties->maxConcurrentStreams = WorkerPool::limit();
    return Status::Success;
  });
}

orError_t orDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call(__func__, [&] {
    EMULATOR_TRY(requireOutput(least, "least"));
    EMULATOR_TRY(requireOutput(greatest, "greatest"));
    *least = kLeastPriority;
    *greatest = kGreatestPriority;
    return Status::Success;
  });
}

orError_t orDeviceCanAccessPeer(int* can, int device, int peer) {
  return call(__func__, [&] {
    EMULATOR_TRY(requireOutput(can, "can"));
    EMULATOR_TRY(checkDevice(device));
    EMULATOR_TRY(checkDevice(peer));
    *can = device != peer ? 1 : 0;
    return Status::Success;
  });
}

orError_t orRuntimeGetVersion(int* version) {
  return call(__func__, [&] {
    EMULATOR_TRY(requireOutput(version, "version"));
    *version = OPENREG_VERSION;
    return Status::Success;
  });
}
