// What submissions cost the submitting thread: median, and the value that 9 of 10 do not exceed, in nanoseconds.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <openreg/openreg.h>

namespace {

using Clock = std::chrono::steady_clock;

void check(orError_t error) {
  if (error != orSuccess) {
    std::fprintf(stderr, "%s\n", orGetLastErrorMessage());
    std::exit(1);
  }
}

double nanoseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::nano>(duration).count();
}

// Times `body` in groups of `group` calls, with `prepare` before each group.
template <class Prepare, class Body>
void measure(const char* what, int groups, int group, Prepare prepare, Body body) {
  std::vector<double> times;
  for (int i = 0; i < groups; ++i) {
    prepare();
    const auto start = Clock::now();
    for (int j = 0; j < group; ++j) {
      body();
    }
    times.push_back(nanoseconds(Clock::now() - start) / group);
  }
  std::sort(times.begin(), times.end());
  std::printf("%-64s %9.0f %9.0f\n", what, times[times.size() / 2], times[times.size() * 9 / 10]);
}

void nothing(void*) {}

std::atomic<bool> g_open{false};
void hold(void*) {
  while (!g_open) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

struct Arguments {
  void* pointers[4];
};

}  // namespace

int main() {
  // Launches on an idle stream are queued, too.
  setenv("OPENREG_LAUNCH", "async", 0);
  orStream_t stream = nullptr;
  orEvent_t event = nullptr;
  check(orStreamCreate(&stream));
  check(orEventCreateWithFlags(&event, orEventDisableTiming));
  const Arguments arguments{};
  const auto launch = [&] { check(orLaunchKernel(nothing, &arguments, sizeof(arguments), stream)); };
  const auto synchronize = [&] { check(orStreamSynchronize(stream)); };
  const auto rest = [&](std::chrono::microseconds time) {
    return [&synchronize, time] {
      synchronize();
      // Busy: a thread that has slept itself is slow at anything for a moment.
      for (const auto start = Clock::now(); Clock::now() - start < time;) {
      }
    };
  };

  std::printf("%-64s %9s %9s\n", "nanoseconds per call", "median", "9 of 10");
  measure("launch on the calling thread, idle stream", 200, 100, [] {}, [&] { check(orLaunchKernelInline(nothing, nullptr, stream)); });
  measure("queued launch, the worker is held by an earlier task", 200, 100, [&] {
    g_open = true;
    synchronize();
    g_open = false;
    check(orLaunchHostFunc(hold, nullptr, stream)); }, launch);
  g_open = true;
  synchronize();
  measure("queued launch, the worker is running what is queued", 200, 1000, synchronize, launch);
  measure("queued launch, the worker has come to rest 5 us ago", 1000, 1, rest(std::chrono::microseconds(5)), launch);
  measure("queued launch, the worker has been resting for 100 us", 1000, 1, rest(std::chrono::microseconds(100)), launch);
  measure("queued launch, the worker has been resting for 5 ms", 200, 1, rest(std::chrono::milliseconds(5)), launch);
  measure("queued launch, the worker has been asleep (resting for 200 ms)", 20, 1, rest(std::chrono::milliseconds(200)), launch);
  measure("queued launch and synchronize", 1000, 1, synchronize, [&] {
    launch();
    synchronize(); });
  measure("event record and synchronize, idle stream", 200, 100, synchronize, [&] {
    check(orEventRecord(event, stream));
    check(orEventSynchronize(event)); });
  check(orEventDestroy(event));
  check(orStreamDestroy(stream));
}
