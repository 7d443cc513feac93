#include "graph_support.h"

#include <thread>

namespace {

// The capture has become invalid, can be ended, and leaves the stream usable.
void expectInvalid(orStream_t stream) {
  EXPECT_EQ(orStreamCaptureStatusInvalidated, statusOf(stream));
  EXPECT_EQ(orErrorStreamCaptureInvalidated, orLaunchKernel([](void*) {}, nullptr, 0, stream));
  auto graph = reinterpret_cast<orGraph_t>(1);
  EXPECT_EQ(orErrorStreamCaptureInvalidated, orStreamEndCapture(stream, &graph));
  EXPECT_EQ(nullptr, graph);
  EXPECT_EQ(orStreamCaptureStatusNone, statusOf(stream));
  EXPECT_OK(orLaunchKernelInline([](void*) {}, nullptr, stream));
  EXPECT_OK(orStreamSynchronize(stream));
}

class Capture : public testing::TestWithParam<orStreamCaptureMode> {};
INSTANTIATE_TEST_SUITE_P(
    Modes, Capture, testing::Values(orStreamCaptureModeGlobal, orStreamCaptureModeThreadLocal, orStreamCaptureModeRelaxed));

}  // namespace

TEST_P(Capture, RunsNothingUntilLaunched) {
  const StreamGuard stream;
  Number number(1);
  ASSERT_OK(orStreamBeginCapture(stream, GetParam()));
  EXPECT_EQ(orStreamCaptureStatusActive, statusOf(stream));
  EXPECT_EQ(orStreamCaptureStatusNone, statusOf(nullptr));
  EXPECT_OK(Add::launch(number.address(), 2, stream));
  EXPECT_OK(Multiply::launch(number.address(), 10, stream));
  const Graph graph(stream);
  EXPECT_EQ(orStreamCaptureStatusNone, statusOf(stream));
  EXPECT_OK(orStreamQuery(stream));
  EXPECT_EQ(1, number.get());
  EXPECT_EQ(2u, graph.nodes());
  graph.runOn(stream);
  EXPECT_EQ(30, number.get());
  graph.runOn(nullptr);
  EXPECT_EQ(320, number.get());
}

TEST(CaptureRules, UnjoinedForkIsRefused) {
  const StreamGuard first;
  const StreamGuard second;
  const EventGuard fork;
  ASSERT_OK(orStreamBeginCapture(first, orStreamCaptureModeGlobal));
  EXPECT_OK(orEventRecord(fork, first));
  EXPECT_OK(orStreamWaitEvent(second, fork, 0));
  EXPECT_OK(orLaunchKernel([](void*) {}, nullptr, 0, second));
  orGraph_t graph = nullptr;
  EXPECT_EQ(orErrorInvalidValue, orStreamEndCapture(second, &graph));
  EXPECT_EQ(orErrorStreamCaptureUnjoined, orStreamEndCapture(first, &graph));
  EXPECT_EQ(nullptr, graph);
  EXPECT_OK(orStreamSynchronize(first));
  EXPECT_OK(orStreamSynchronize(second));
}

TEST_P(Capture, SynchronisingCallsInvalidate) {
  const StreamGuard stream;
  const EventGuard event;
  const EventGuard outside;
  const DeviceMemory memory(64);
  char pageable[64] = {};
  EXPECT_OK(orEventRecord(outside, nullptr));
  const auto refused = [&](auto&& call) {
    ASSERT_OK(orStreamBeginCapture(stream, GetParam()));
    ASSERT_OK(orEventRecord(event, stream));
    EXPECT_EQ(orErrorStreamCaptureUnsupported, call()) << orGetLastErrorMessage();
    expectInvalid(stream);
  };
  refused([&] { return orStreamSynchronize(stream); });
  refused([&] { return orStreamQuery(stream); });
  refused([&] { return orStreamDestroy(stream); });
  refused([&] { return orDeviceSynchronize(); });
  refused([&] { return orEventSynchronize(event); });
  refused([&] { return orEventQuery(event); });
  refused([&] {
    float time = 0;
    return orEventElapsedTime(&time, outside, event);
  });
  refused([&] { return orLaunchKernelInline([](void*) {}, nullptr, stream); });
  refused([&] { return orMemcpyAsync(memory.pointer, pageable, 64, orMemcpyDefault, stream); });
  refused([&] { return orStreamWaitEvent(stream, outside, 0); });
  EXPECT_EQ(orErrorStreamCaptureUnsupported, orEventQuery(event));
  EXPECT_EQ(orErrorStreamCaptureUnsupported, orStreamWaitEvent(nullptr, event, 0));
  EXPECT_OK(orEventRecord(event, stream));
  EXPECT_OK(orEventSynchronize(event));
}

TEST_P(Capture, SynchronousCopiesAsTheModeSays) {
  const StreamGuard stream;
  const DeviceMemory memory(64);
  char host[64] = {};
  const auto copy = [&] { return orMemcpy(memory.pointer, host, 64, orMemcpyDefault); };
  const auto fill = [&] { return orMemset(memory.pointer, 1, 64); };
  const auto elsewhere = [](auto call) {
    orError_t result = orSuccess;
    std::thread([&] { result = call(); }).join();
    return result;
  };
  for (int variant = 0; variant < 4; ++variant) {
    ASSERT_OK(orStreamBeginCapture(stream, GetParam()));
    const bool here = variant < 2;
    const bool allowed = GetParam() == orStreamCaptureModeRelaxed || (GetParam() == orStreamCaptureModeThreadLocal && !here);
    const orError_t result = variant % 2 == 0 ? (here ? copy() : elsewhere(copy)) : (here ? fill() : elsewhere(fill));
    EXPECT_EQ(allowed ? orSuccess : orErrorStreamCaptureUnsupported, result) << variant;
    if (allowed) {
      const Graph graph(stream);
      EXPECT_EQ(0u, graph.nodes());
      graph.runOn(stream);
    } else {
      expectInvalid(stream);
    }
  }
}

TEST(CaptureRules, TheDefaultStreamCanBeCaptured) {
  Number number(1);
  ASSERT_OK(orStreamBeginCapture(nullptr, orStreamCaptureModeRelaxed));
  EXPECT_OK(Add::launch(number.address(), 1, nullptr));
  int value = 0;
  EXPECT_EQ(orErrorStreamCaptureUnsupported, orMemcpy(&value, number.pointer, sizeof(value), orMemcpyDefault));
  expectInvalid(nullptr);
  ASSERT_OK(orStreamBeginCapture(nullptr, orStreamCaptureModeRelaxed));
  EXPECT_OK(Add::launch(number.address(), 1, nullptr));
  const Graph graph(nullptr);
  graph.runOn(nullptr);
  EXPECT_EQ(2, number.get());
}

TEST_P(Capture, MemoryCanBeAllocatedAndFreed) {
  const StreamGuard stream;
  Number number(1);
  void* before = nullptr;
  ASSERT_OK(orMalloc(&before, 64));
  ASSERT_OK(orStreamBeginCapture(stream, GetParam()));
  EXPECT_OK(Add::launch(number.address(), 1, stream));
  void* memory = nullptr;
  EXPECT_OK(orMalloc(&memory, 64));
  EXPECT_OK(orMemsetAsync(memory, 1, 64, stream));
  EXPECT_OK(orFree(before));
  void* pinned = nullptr;
  EXPECT_OK(orMallocHost(&pinned, 64));
  EXPECT_OK(orFreeHost(pinned));
  const Graph graph(stream);
  EXPECT_EQ(2u, graph.nodes());
  graph.runOn(stream);
  EXPECT_EQ(2, number.get());
  EXPECT_OK(orFree(memory));
}

TEST(CaptureRules, CapturesAreNotMerged) {
  const StreamGuard first;
  const StreamGuard second;
  const EventGuard event;
  ASSERT_OK(orStreamBeginCapture(first, orStreamCaptureModeGlobal));
  ASSERT_OK(orStreamBeginCapture(second, orStreamCaptureModeGlobal));
  EXPECT_OK(orEventRecord(event, first));
  EXPECT_EQ(orErrorStreamCaptureUnsupported, orStreamWaitEvent(second, event, 0));
  expectInvalid(first);
  expectInvalid(second);
}

TEST(CaptureRules, EndBelongsToTheThread) {
  const StreamGuard stream;
  orGraph_t graph = nullptr;
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeThreadLocal));
  std::thread([&] { EXPECT_EQ(orErrorNotSupported, orStreamEndCapture(stream, &graph)); }).join();
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  EXPECT_OK(orGraphDestroy(graph));
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeRelaxed));
  std::thread([&] { EXPECT_OK(orStreamEndCapture(stream, &graph)); }).join();
  EXPECT_OK(orGraphDestroy(graph));
}

TEST(CaptureRules, LaunchCannotBeCaptured) {
  const StreamGuard stream;
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeGlobal));
  const Graph graph(stream);
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeGlobal));
  EXPECT_EQ(orErrorStreamCaptureUnsupported, orGraphLaunch(graph.exec, stream));
  expectInvalid(stream);
}
