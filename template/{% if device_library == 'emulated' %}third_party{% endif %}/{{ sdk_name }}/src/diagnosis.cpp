#include "diagnosis.h"

#include <chrono>
#include <thread>

namespace emulator::diagnosis {
namespace {

std::atomic<unsigned> g_delay{0};

}  // namespace

constinit Switches g_switches;

void turn(Switch which, bool on) {
  if (on) {
    g_switches.on.fetch_or(which);
  } else {
    g_switches.on.fetch_and(~static_cast<unsigned>(which));
  }
}

void setDelay(unsigned microseconds) {
  g_delay.store(microseconds);
  turn(kDelay, microseconds != 0);
}

void delay() {
  std::this_thread::sleep_for(std::chrono::microseconds(g_delay.load(std::memory_order_relaxed)));
}

}  // namespace emulator::diagnosis
