// Many threads, streams, events and allocations at once: bounded and seeded.
#include "support.h"

#include <random>
#include <thread>
#include <vector>

namespace {

constexpr int kWords = 40000;  // large enough for copies to be queued

struct Fill {
  unsigned* words;
  unsigned value;
  static void run(void* arguments) {
    const auto& fill = *static_cast<const Fill*>(arguments);
    for (int i = 0; i < kWords; ++i) {
      fill.words[i] = fill.value;
    }
  }
};

// Moves a buffer through streams of two devices, ordered by events alone.
void relay(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<orStream_t> streams;
  for (int i = 0; i < 4; ++i) {
    EXPECT_OK(orSetDevice(i % 2));
    orStream_t stream = nullptr;
    EXPECT_OK(orStreamCreateWithPriority(&stream, 0, -static_cast<int>(random() % 3)));
    streams.push_back(stream);
  }
  void* host = nullptr;
  EXPECT_OK(orMallocHost(&host, kWords * sizeof(unsigned)));
  for (int round = 0; round < 30; ++round) {
    void* buffers[2] = {};
    for (int device = 0; device < 2; ++device) {
      EXPECT_OK(orSetDevice(device));
      EXPECT_OK(orMalloc(&buffers[device], kWords * sizeof(unsigned)));
    }
    const unsigned value = random();
    std::size_t on = random() % streams.size();
    const auto hop = [&] {
      const std::size_t next = random() % streams.size();
      orEvent_t event = nullptr;
      EXPECT_OK(orSetDevice(static_cast<int>(on % 2)));
      EXPECT_OK(orEventCreateWithFlags(&event, random() % 2 != 0 ? orEventDisableTiming : orEventDefault));
      EXPECT_OK(orEventRecord(event, streams[on]));
      EXPECT_OK(orStreamWaitEvent(streams[next], event, 0));
      EXPECT_OK(orEventDestroy(event));
      on = next;
    };
    const Fill fill{static_cast<unsigned*>(kernelAddress(buffers[0])), value};
    EXPECT_OK(orLaunchKernel(&Fill::run, &fill, sizeof(fill), streams[on]));
    hop();
    EXPECT_OK(orMemcpyAsync(buffers[1], buffers[0], kWords * sizeof(unsigned), orMemcpyDeviceToDevice, streams[on]));
    hop();
    EXPECT_OK(orMemcpyAsync(host, buffers[1], kWords * sizeof(unsigned), orMemcpyDeviceToHost, streams[on]));
    hop();
    if (round % 5 == 4) {
      EXPECT_OK(orStreamDestroy(streams[on]));
      EXPECT_OK(orSetDevice(static_cast<int>(on % 2)));
      EXPECT_OK(orStreamCreate(&streams[on]));
      EXPECT_OK(orDeviceSynchronize());
    } else {
      EXPECT_OK(orStreamSynchronize(streams[on]));
    }
    const unsigned* const words = static_cast<const unsigned*>(host);
    EXPECT_EQ(value, words[0]);
    EXPECT_EQ(value, words[kWords - 1]);
    EXPECT_OK(orFree(buffers[0]));
    EXPECT_OK(orFree(buffers[1]));
  }
  EXPECT_OK(orFreeHost(host));
  for (const orStream_t stream : streams) {
    EXPECT_OK(orStreamDestroy(stream));
  }
}

}  // namespace

TEST(Stress, ThreadsStreamsEventsAndMemory) {
  std::size_t before[2] = {};
  std::size_t after[2] = {};
  std::size_t total = 0;
  for (int device = 0; device < 2; ++device) {
    const DeviceGuard guard(device);
    ASSERT_OK(orMemGetInfo(&before[device], &total));
  }
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    threads.emplace_back(relay, seed);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (int device = 0; device < 2; ++device) {
    const DeviceGuard guard(device);
    ASSERT_OK(orMemGetInfo(&after[device], &total));
    EXPECT_EQ(before[device], after[device]);
  }
}
