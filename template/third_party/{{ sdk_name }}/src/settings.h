// What the build and the environment decide: number of devices, their memory, how launches behave.
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
  std::string error;  // empty if everything makes sense
};

inline constexpr int kMaxDevices = 64;

// Read at the first call; the environment is not looked at again.
const Settings& settings();

}  // namespace emulator
