// Diagnosis, off by default: delays, injected failures, sticky errors, the launch log.
#pragma once

#include <atomic>

namespace emulator {

struct Settings;

namespace diagnosis {

// The switches. Most calls read them, and they change rarely.
enum Switch : unsigned {
  kFailures = 1,  // calls may have to fail
  kDelay = 2,  // kernels take longer
  kLog = 4,  // submissions are written to a file
  kLost = 8,  // a device is lost
  kSticky = 16,  // the device is lost when a queued kernel fails
};

// Failures are possible until the first call has read the environment.
struct alignas(64) Switches {
  std::atomic<unsigned> on{kFailures};
};
extern constinit Switches g_switches;

inline bool on(unsigned which) {
  return (g_switches.on.load(std::memory_order_relaxed) & which) != 0;
}
void turn(Switch which, bool on);

void setDelay(unsigned microseconds);

// Delays the calling thread, which does the device's work.
void delay();

}  // namespace diagnosis
}  // namespace emulator
