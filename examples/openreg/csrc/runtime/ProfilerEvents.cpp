#include <c10/util/ApproximateClock.h>
#include <c10/util/Exception.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <functional>

#include "device/Event.h"
#include "runtime/Event.h"
#include "runtime/Guard.h"
#include "runtime/Stream.h"

namespace openreg {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

// How the profiler of autograd measures the device time of an operator: events that record timestamps, on the operator's
// stream before it and after it. Without this class the profiler would use timestamps that were never recorded.
struct ProfilerEvents : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    const auto stream = currentStream();
    if (device != nullptr) {
      *device = stream.device_index();
    }
    if (stream.isCapturing()) {
      return;  // nothing runs during a capture, so the operator gets no events and no time
    }
    const ProfilerVoidEventStub handle(createEventOn(stream.device_index(), /*timing=*/true), destroyEvent);
    if (cpu_ns != nullptr) {
      *cpu_ns = c10::getTime();
    }
    device::recordEvent(handle.get(), stream.handle());
    *event = handle;
  }

  // In microseconds.
  float elapsed(const ProfilerVoidEventStub* start, const ProfilerVoidEventStub* end) const override {
    device::synchronizeEvent(start->get());
    device::synchronizeEvent(end->get());
    return static_cast<float>(device::elapsedTime(start->get(), end->get()) * 1000);
  }

  bool enabled() const override {
    return deviceCount() > 0;
  }

  void onEachDevice(std::function<void(int)> action) const override {
    for (c10::DeviceIndex i = 0; i < deviceCount(); ++i) {
      const DeviceGuard guard(i);
      action(i);
    }
  }

  void synchronize() const override {
    synchronizeDevice(currentDevice());
  }

  void mark(const char* /*name*/) const override {
    noRanges();
  }
  void rangePush(const char* /*name*/) const override {
    noRanges();
  }
  void rangePop() const override {
    noRanges();
  }

 private:
  [[noreturn]] static void noRanges() {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "no profiler of ", c10::get_privateuse1_backend(), " devices supports ranges");
  }
};

const bool events_registered = [] {
  torch::profiler::impl::registerPrivateUse1Methods(new ProfilerEvents);
  return true;
}();

}  // namespace
}  // namespace openreg
