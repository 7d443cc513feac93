// What the build and the environment decide: number of devices, their memory, how launches behave, help with mistakes.
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
  std::string error;  // empty if everything makes sense
};

inline constexpr int kMaxDevices = 64;
inline constexpr unsigned kMaxDelay = 10'000'000;

// Read at the first call; the environment is not looked at again. Failures to be injected are noted at once.
const Settings& settings();

}  // namespace emulator
