// Settings from the build and the environment: number of devices, their memory, launch mode, diagnosis.
#pragma once

#include <cstddef>
#include <string>

namespace emulator {

enum class LaunchMode {
  Inline,
  Async,
  Blocking,
};

struct Settings {
  int device_count = 0;
  std::size_t device_memory = 0;
  LaunchMode launch_mode = LaunchMode::Inline;
  unsigned delay = 0;  // microseconds
  bool sticky_errors = false;
  std::string launch_log;  // empty: none
  std::string error;  // empty if all settings are valid
};

inline constexpr int kMaxDevices = 64;
inline constexpr unsigned kMaxDelay = 10'000'000;

// The first call reads the environment; later calls do not. It also registers the failures to inject.
const Settings& settings();

}  // namespace emulator
