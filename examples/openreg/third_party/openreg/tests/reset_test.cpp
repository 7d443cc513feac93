#include "support.h"

#include <atomic>
#include <stdexcept>
#include <thread>

namespace {

// Leaves the device as it was, whatever a test has done to it.
class Reset : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(orSetDevice(0));
    ASSERT_OK(orDeviceReset());
  }
  void TearDown() override {
    EXPECT_OK(orSetStickyErrors(0));
    for (const int device : {1, 0}) {
      EXPECT_OK(orSetDevice(device));
      EXPECT_OK(orDeviceReset());
    }
    orGetLastError();
  }
};

bool messageHas(const char* part) {
  return std::string(orGetLastErrorMessage()).find(part) != std::string::npos;
}

struct Figures {
  std::size_t free = 0;
  std::size_t total = 0;
  Figures() { EXPECT_OK(orMemGetInfo(&free, &total)); }
};

}  // namespace

TEST_F(Reset, LostDeviceRefusesEverything) {
  void* memory = nullptr;
  void* pinned = nullptr;
  orStream_t stream = nullptr;
  orEvent_t event = nullptr;
  orGraph_t graph = nullptr;
  orGraphExec_t exec = nullptr;
  ASSERT_OK(orMalloc(&memory, 64));
  ASSERT_OK(orMallocHost(&pinned, 64));
  ASSERT_OK(orStreamCreate(&stream));
  ASSERT_OK(orEventCreate(&event));
  ASSERT_OK(orEventRecord(event, stream));
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeGlobal));
  ASSERT_OK(orMemsetAsync(memory, 1, 64, stream));
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  ASSERT_OK(orGraphInstantiate(&exec, graph));
  ASSERT_OK(orDeviceFail(0, "the chip is on fire"));
  ASSERT_OK(orDeviceFail(0, "a later reason"));
  void* other = nullptr;
  orStream_t another_stream = nullptr;
  orEvent_t another_event = nullptr;
  std::size_t size = 0;
  float time = 0;
  const auto kernel = [](void*) { FAIL(); };
  int index = 0;
  for (const orError_t error :
       {orMalloc(&other, 8),
        orFree(memory),
        orMemGetInfo(&size, &size),
        orMemcpy(memory, &size, 8, orMemcpyDefault),
        orMemcpyAsync(pinned, memory, 8, orMemcpyDefault, stream),
        orMemset(memory, 0, 8),
        orMemsetAsync(memory, 0, 8, stream),
        orStreamCreate(&another_stream),
        orStreamQuery(stream),
        orStreamQuery(nullptr),
        orStreamSynchronize(stream),
        orStreamWaitEvent(stream, event, 0),
        orEventCreate(&another_event),
        orEventRecord(event, stream),
        orEventQuery(event),
        orEventSynchronize(event),
        orEventElapsedTime(&time, event, event),
        orDeviceSynchronize(),
        orLaunchKernel(kernel, nullptr, 0, stream),
        orLaunchKernelInline(kernel, nullptr, nullptr),
        orLaunchHostFunc(kernel, nullptr, stream),
        orStreamBeginCapture(stream, orStreamCaptureModeGlobal),
        orGraphLaunch(exec, stream)}) {
    EXPECT_EQ(orErrorDeviceLost, error) << index;
    ++index;
  }
  EXPECT_TRUE(messageHas("the chip is on fire")) << orGetLastErrorMessage();
  // The other device works, but not with what belongs to this one.
  ASSERT_OK(orSetDevice(1));
  EXPECT_OK(orDeviceSynchronize());
  EXPECT_OK(orMemcpy(pinned, &size, 8, orMemcpyDefault));
  EXPECT_EQ(orErrorDeviceLost, orStreamWaitEvent(nullptr, event, 0));
  EXPECT_EQ(orErrorDeviceLost, orMemcpy(memory, pinned, 8, orMemcpyDefault));
  EXPECT_EQ(orErrorDeviceLost, orGraphLaunch(exec, nullptr));
  EXPECT_OK(orFreeHost(pinned));
  EXPECT_EQ(orErrorInvalidDevice, orDeviceFail(2, nullptr));
}

TEST_F(Reset, EverythingEnds) {
  const Figures before;
  void* memory = nullptr;
  void* pinned = nullptr;
  orStream_t stream = nullptr;
  orEvent_t event = nullptr;
  orGraph_t graph = nullptr;
  orGraphExec_t exec = nullptr;
  ASSERT_OK(orMalloc(&memory, 3 << 20));
  ASSERT_OK(orMallocHost(&pinned, 64));
  ASSERT_OK(orStreamCreate(&stream));
  ASSERT_OK(orEventCreate(&event));
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeGlobal));
  ASSERT_OK(orMemsetAsync(memory, 1, 64, stream));
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  ASSERT_OK(orGraphInstantiate(&exec, graph));
  ASSERT_OK(orSetDevice(1));
  orStream_t elsewhere = nullptr;
  void* memory_elsewhere = nullptr;
  ASSERT_OK(orStreamCreate(&elsewhere));
  ASSERT_OK(orMalloc(&memory_elsewhere, 64));
  ASSERT_OK(orSetDevice(0));
  ASSERT_OK(orDeviceFail(0, nullptr));
  ASSERT_OK(orDeviceReset());
  EXPECT_EQ(before.free, Figures().free);
  EXPECT_EQ(orErrorInvalidPointer, orFree(memory));
  EXPECT_EQ(orErrorInvalidPointer, orMemset(memory, 0, 8));
  EXPECT_EQ(orErrorInvalidPointer, orMemcpyAsync(pinned, memory, 8, orMemcpyDefault, nullptr));
  EXPECT_EQ(orErrorInvalidHandle, orStreamQuery(stream));
  EXPECT_EQ(orErrorInvalidHandle, orStreamDestroy(stream));
  EXPECT_EQ(orErrorInvalidHandle, orLaunchKernel([](void*) { FAIL(); }, nullptr, 0, stream));
  EXPECT_EQ(orErrorInvalidHandle, orEventQuery(event));
  EXPECT_EQ(orErrorInvalidHandle, orEventRecord(event, nullptr));
  EXPECT_EQ(orErrorInvalidHandle, orEventDestroy(event));
  EXPECT_EQ(orErrorInvalidHandle, orGraphLaunch(exec, nullptr));
  EXPECT_EQ(orErrorInvalidHandle, orGraphDestroy(graph));
  // New ones, and the default stream, work.
  int runs = 0;
  const auto count = [](void* arguments) { ++*static_cast<int*>(arguments); };
  EXPECT_OK(orLaunchKernelInline(count, &runs, nullptr));
  const StreamGuard fresh;
  EXPECT_EQ(orErrorInvalidHandle, orStreamQuery(stream));
  EXPECT_OK(orLaunchKernelInline(count, &runs, fresh));
  EXPECT_OK(orDeviceSynchronize());
  EXPECT_EQ(2, runs);
  EXPECT_OK(orFreeHost(pinned));
  // What belongs to the other device is untouched.
  EXPECT_OK(orMemset(memory_elsewhere, 0, 64));
  EXPECT_OK(orStreamDestroy(elsewhere));
  EXPECT_OK(orFree(memory_elsewhere));
}

TEST_F(Reset, QueuedWorkIsDiscardedAndWaitersAreReleased) {
  SKIP_IF_BLOCKING();
  orStream_t stream = nullptr;
  ASSERT_OK(orStreamCreate(&stream));
  std::atomic<int> runs{0};
  Gate gate;
  gate.block(stream);
  gate.awaitArrival();
  for (int i = 0; i < 10; ++i) {
    ASSERT_OK(orLaunchHostFunc([](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &runs, stream));
  }
  std::atomic<bool> waiting{false};
  std::thread waiter([&] {
    waiting = true;
    EXPECT_EQ(orErrorDeviceLost, orStreamSynchronize(stream));
  });
  while (!waiting) {
    std::this_thread::yield();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_OK(orDeviceFail(0, "a test"));
  gate.open();
  waiter.join();
  EXPECT_EQ(0, runs);
  EXPECT_OK(orDeviceReset());
  EXPECT_EQ(orErrorInvalidHandle, orStreamSynchronize(stream));
}

TEST_F(Reset, WaitsForWhatIsRunning) {
  SKIP_IF_BLOCKING();
  static std::atomic<int> stage;
  stage = 0;
  void* memory = nullptr;
  ASSERT_OK(orMalloc(&memory, 4));
  static int* place;
  place = static_cast<int*>(kernelAddress(memory));
  const auto slow = [](void*) {
    stage = 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    *place = 1;
    stage = 2;
  };
  ASSERT_OK(orLaunchHostFunc(slow, nullptr, nullptr));
  while (stage == 0) {
    std::this_thread::yield();
  }
  EXPECT_OK(orDeviceReset());
  EXPECT_EQ(2, stage);
  EXPECT_OK(orStreamQuery(nullptr));
}

TEST_F(Reset, AKernelCanLoseTheDeviceAndCannotResetIt) {
  EXPECT_OK(orLaunchKernelInline([](void*) { EXPECT_EQ(orErrorNotSupported, orDeviceReset()); }, nullptr, nullptr));
  EXPECT_OK(orDeviceSynchronize());
  EXPECT_OK(orLaunchKernelInline([](void*) { EXPECT_OK(orDeviceFail(0, "from inside")); }, nullptr, nullptr));
  EXPECT_EQ(orErrorDeviceLost, orDeviceSynchronize());
  EXPECT_TRUE(messageHas("from inside"));
  EXPECT_EQ(orErrorDeviceLost, orLaunchKernelInline([](void*) { FAIL(); }, nullptr, nullptr));
}

TEST_F(Reset, StickyErrorsLoseTheDeviceIfQueued) {
  SKIP_IF_BLOCKING();
  const auto failing = [](void*) { throw std::runtime_error("an illegal address"); };
  ASSERT_OK(orSetStickyErrors(1));
  EXPECT_EQ(orErrorLaunchFailure, orLaunchKernelInline(failing, nullptr, nullptr));
  EXPECT_OK(orDeviceSynchronize());
  orStream_t stream = nullptr;
  ASSERT_OK(orStreamCreate(&stream));
  ASSERT_OK(orLaunchHostFunc(failing, nullptr, stream));
  EXPECT_EQ(orErrorLaunchFailure, orStreamSynchronize(stream));
  Gate gate;
  gate.block(stream);
  ASSERT_OK(orLaunchKernel(failing, nullptr, 0, stream));
  ASSERT_OK(orLaunchKernel([](void*) { FAIL(); }, nullptr, 0, stream));
  gate.open();
  EXPECT_EQ(orErrorDeviceLost, orStreamSynchronize(stream));
  EXPECT_TRUE(messageHas("an illegal address"));
  EXPECT_EQ(orErrorDeviceLost, orDeviceSynchronize());
  ASSERT_OK(orDeviceReset());
  EXPECT_OK(orDeviceSynchronize());
  ASSERT_OK(orSetStickyErrors(0));
  ASSERT_OK(orStreamCreate(&stream));
  Gate second;
  second.block(stream);
  ASSERT_OK(orLaunchKernel(failing, nullptr, 0, stream));
  second.open();
  EXPECT_EQ(orErrorLaunchFailure, orStreamSynchronize(stream));
  EXPECT_OK(orDeviceSynchronize());
}

TEST_F(Reset, CapturesOfTheDeviceEnd) {
  orStream_t first = nullptr;
  orEvent_t fork = nullptr;
  ASSERT_OK(orSetDevice(1));
  ASSERT_OK(orStreamCreate(&first));
  ASSERT_OK(orEventCreate(&fork));
  ASSERT_OK(orSetDevice(0));
  orStream_t second = nullptr;
  ASSERT_OK(orStreamCreate(&second));
  // The capture of one device has a branch on the other, which is reset.
  ASSERT_OK(orStreamBeginCapture(first, orStreamCaptureModeGlobal));
  ASSERT_OK(orEventRecord(fork, first));
  ASSERT_OK(orStreamWaitEvent(second, fork, 0));
  ASSERT_OK(orDeviceReset());
  orGraph_t graph = nullptr;
  EXPECT_EQ(orErrorStreamCaptureInvalidated, orStreamEndCapture(first, &graph));
  EXPECT_TRUE(messageHas("device 0 was reset"));
  EXPECT_OK(orStreamSynchronize(first));
  // One that began on the device is over.
  ASSERT_OK(orStreamBeginCapture(nullptr, orStreamCaptureModeGlobal));
  ASSERT_OK(orDeviceReset());
  EXPECT_EQ(orErrorInvalidValue, orStreamEndCapture(nullptr, &graph));
  EXPECT_OK(orStreamSynchronize(nullptr));
  EXPECT_OK(orEventDestroy(fork));
  EXPECT_OK(orStreamDestroy(first));
}
