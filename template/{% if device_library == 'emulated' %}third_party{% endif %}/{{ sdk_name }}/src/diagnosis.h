// What helps to find mistakes and is off by default: delays, injected failures, errors that stick, the launch log.
#pragma once

#include <atomic>

namespace emulator {

struct Settings;

namespace diagnosis {

// What is on. Most calls look at it, and it changes next to never.
enum Switch : unsigned {
  kFailures = 1,  // calls may have to fail
  kDelay = 2,  // kernels take longer
  kLog = 4,  // submissions are written to a file
  kLost = 8,  // a device is lost
  kSticky = 16,  // a queued kernel that fails takes its device with it
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

// Holds the calling thread, which does the work of the device, for as long as the delay says.
void delay();

}  // namespace diagnosis
}  // namespace emulator
