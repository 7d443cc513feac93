#pragma once

#include <c10/util/Exception.h>
#include <quartz.hpp>

#include <source_location>
#include <utility>

#include "device/Event.h"
#include "device/Stream.h"

// The SDK's types behind the opaque handles of the seam, and its exceptions as PyTorch's. For the sources of this folder only.
namespace acme::device {

// Numbers count from 0, but nullptr is no handle, and a small number that somebody takes for one should not be either.
constexpr uintptr_t kFirstHandle = uintptr_t{0x51} << 32;

inline void* wrap(uint32_t number) {
  return reinterpret_cast<void*>(kFirstHandle + number);
}

inline uint32_t number(void* handle) {
  const auto distance = reinterpret_cast<uintptr_t>(handle) - kFirstHandle;
  TORCH_CHECK_VALUE(distance <= UINT32_MAX, handle, " is not a handle of a stream or an event of this device");
  return static_cast<uint32_t>(distance);
}

inline quartz::queue unwrap(StreamHandle stream) {
  return quartz::queue{number(stream)};
}

inline quartz::mark unwrapEvent(EventHandle event) {
  return quartz::mark{number(event)};
}

inline uint64_t bits(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

std::string describe(const quartz::failure& failure, const char* function);

// Calls `function` of the SDK; what it throws becomes c10::AcceleratorError.
template <class Function>
auto guarded(Function&& function, const std::source_location& place = std::source_location::current()) {
  try {
    return std::forward<Function>(function)();
  } catch (const quartz::failure& failure) {
    throw c10::AcceleratorError(
        {place.function_name(), place.file_name(), place.line()}, static_cast<int>(failure.why()),
        describe(failure, place.function_name()));
  }
}

// The same where nothing may be thrown: a warning.
template <class Function>
void warned(Function&& function, const std::source_location& place = std::source_location::current()) noexcept {
  try {
    std::forward<Function>(function)();
  } catch (const std::exception& error) {
    try {
      TORCH_WARN(error.what(), " (in ", place.function_name(), ")");
    } catch (...) {
      // A warning that is turned into an error by a Python filter has nowhere to go from here.
    }
  }
}

}  // namespace acme::device
