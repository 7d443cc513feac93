#pragma once

#include <c10/util/Exception.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "device/Event.h"
#include "device/ScopedDevice.h"

namespace openreg::device {

// For an SDK whose waits move when an event is recorded again: an event that has a new event of the SDK for each record. A wait keeps the
// one that was the latest when it was submitted.
//
// `Sdk` has the SDK's functions: an `Event` type whose null value is `nullptr`, `Event create(bool timing)`, `void destroy(Event)` and
// `void record(Event, StreamHandle)`. create() is called at each record, with the stream's device as the current one. The SDK must keep an
// event that is destroyed while a stream waits for it.
//
//   using Events = FreshEvents<Sdk>;
//   EventHandle createEvent(bool timing) { return Events::create(timing); }
//   void destroyEvent(EventHandle event) noexcept { Events::destroy(event); }
//   void recordEvent(EventHandle event, StreamHandle stream) { Events::record(event, stream); }
//   void waitEvent(StreamHandle stream, EventHandle event) {
//     Events::with(event, [&](Sdk::Event latest) { /* the SDK's wait */ });  // not called if the event was never recorded
//   }
//   double elapsedTime(EventHandle start, EventHandle end) {
//     double milliseconds = 0;
//     Events::withBoth(start, end, [&](Sdk::Event begin, Sdk::Event finish) { /* the SDK's time */ });
//     return milliseconds;
//   }
template <class Sdk>
class FreshEvents {
 public:
  static EventHandle create(bool timing) {
    return new FreshEvents(timing);
  }

  static void destroy(EventHandle event) noexcept {
    delete static_cast<FreshEvents*>(event);
  }

  static void record(EventHandle event, StreamHandle stream) {
    auto* self = static_cast<FreshEvents*>(event);
    const ScopedDevice scope(streamDevice(stream));
    auto fresh = self->make();
    Sdk::record(fresh.get(), stream);
    const std::lock_guard<std::mutex> guard(self->mutex_);
    self->latest_ = std::move(fresh);
    self->device_ = streamDevice(stream);
  }

  // Calls the function with the SDK's event of the latest record, and keeps that event meanwhile. Does nothing without a record.
  template <class Function>
  static void with(EventHandle event, Function&& function) {
    if (const auto latest = static_cast<FreshEvents*>(event)->latest()) {
      std::forward<Function>(function)(latest.get());
    }
  }

  // The same with two events, of which both must have been recorded, and on one device.
  template <class Function>
  static void withBoth(EventHandle start, EventHandle end, Function&& function) {
    auto *first = static_cast<FreshEvents*>(start), *second = static_cast<FreshEvents*>(end);
    const auto begin = first->latest(), finish = second->latest();
    TORCH_CHECK(first->timing_ && second->timing_, "make both events with enable_timing=True");
    TORCH_CHECK(begin && finish, "record both events before you measure the time between them");
    TORCH_CHECK(
        first->device_ == second->device_, "the events were recorded on the devices ", first->device_.load(), " and ",
        second->device_.load(), ", whose clocks cannot be compared");
    std::forward<Function>(function)(begin.get(), finish.get());
  }

 private:
  // Shared, because one thread may wait for a record while another records again.
  using Shared = std::shared_ptr<std::remove_pointer_t<typename Sdk::Event>>;

  explicit FreshEvents(bool timing) : timing_(timing) {}

  Shared make() const {
    return Shared(Sdk::create(timing_), &Sdk::destroy);
  }

  Shared latest() {
    const std::lock_guard<std::mutex> guard(mutex_);
    return latest_;
  }

  const bool timing_;
  std::mutex mutex_;
  Shared latest_;
  std::atomic<int> device_{-1};  // of the latest record
};

}  // namespace openreg::device
