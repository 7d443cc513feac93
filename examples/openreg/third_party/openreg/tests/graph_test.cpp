#include "support.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

// Adds to a number in device memory.
struct Add {
  int* target;
  int amount;
  static void run(void* arguments) {
    const auto& self = *static_cast<const Add*>(arguments);
    *self.target += self.amount;
  }
  static orError_t launch(int* device_address, int amount, orStream_t stream) {
    const Add add{kernelAddress(device_address), amount};
    return orLaunchKernel(&Add::run, &add, sizeof(add), stream);
  }
};

struct Multiply {
  static orError_t launch(int* device_address, int factor, orStream_t stream) {
    const Add multiply{kernelAddress(device_address), factor};
    const auto body = [](void* arguments) {
      const auto& self = *static_cast<const Add*>(arguments);
      *self.target *= self.amount;
    };
    return orLaunchKernel(body, &multiply, sizeof(multiply), stream);
  }
};

struct Number : DeviceMemory {
  explicit Number(int value) : DeviceMemory(sizeof(int)) { set(value); }
  int* address() const { return static_cast<int*>(pointer); }
  void set(int value) { EXPECT_OK(orMemcpy(pointer, &value, sizeof(value), orMemcpyDefault)); }
  int get() const {
    int value = 0;
    EXPECT_OK(orMemcpy(&value, pointer, sizeof(value), orMemcpyDefault));
    return value;
  }
};

struct Graph {
  orGraph_t handle = nullptr;
  orGraphExec_t exec = nullptr;
  // Ends the capture.
  explicit Graph(orStream_t stream) {
    EXPECT_OK(orStreamEndCapture(stream, &handle));
    EXPECT_OK(orGraphInstantiate(&exec, handle));
  }
  ~Graph() {
    EXPECT_OK(orGraphExecDestroy(exec));
    EXPECT_OK(orGraphDestroy(handle));
  }
  Graph(const Graph&) = delete;
  std::size_t nodes() const {
    std::size_t count = 0;
    EXPECT_OK(orGraphGetNodeCount(handle, &count));
    return count;
  }
  void runOn(orStream_t stream) const {
    EXPECT_OK(orGraphLaunch(exec, stream));
    EXPECT_OK(orStreamSynchronize(stream));
  }
};

orStreamCaptureStatus statusOf(orStream_t stream) {
  auto status = orStreamCaptureStatusNone;
  EXPECT_OK(orStreamGetCaptureStatus(stream, &status));
  return status;
}

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
INSTANTIATE_TEST_SUITE_P(Modes, Capture, testing::Values(orStreamCaptureModeGlobal, orStreamCaptureModeThreadLocal, orStreamCaptureModeRelaxed));

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

TEST(Graph, RecordsEveryKindOfWork) {
  const StreamGuard stream;
  constexpr std::size_t kSize = 1000;
  const DeviceMemory first(kSize);
  const DeviceMemory second(kSize);
  void* pinned = nullptr;
  ASSERT_OK(orMallocHost(&pinned, kSize));
  std::atomic<int> calls{0};
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeGlobal));
  EXPECT_OK(orMemsetAsync(first.pointer, 7, kSize, stream));
  EXPECT_OK(orMemcpyAsync(second.pointer, first.pointer, kSize, orMemcpyDefault, stream));
  EXPECT_OK(orMemcpyAsync(pinned, second.pointer, kSize, orMemcpyDefault, stream));
  EXPECT_OK(orLaunchHostFunc([](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &calls, stream));
  const Graph graph(stream);
  EXPECT_EQ(0, calls);
  EXPECT_EQ(0, static_cast<char*>(pinned)[0]);
  EXPECT_EQ(4u, graph.nodes());
  graph.runOn(stream);
  EXPECT_EQ(1, calls);
  EXPECT_EQ(7, static_cast<char*>(pinned)[kSize - 1]);
  EXPECT_OK(orFreeHost(pinned));
}

TEST(Graph, ForkAndJoin) {
  const StreamGuard first;
  const StreamGuard second;
  const EventGuard fork;
  const EventGuard join;
  Number number(1);
  Number other(2);
  ASSERT_OK(orStreamBeginCapture(first, orStreamCaptureModeGlobal));
  EXPECT_OK(Add::launch(number.address(), 4, first));
  EXPECT_OK(orEventRecord(fork, first));
  EXPECT_OK(orStreamWaitEvent(second, fork, 0));
  EXPECT_EQ(orStreamCaptureStatusActive, statusOf(second));
  EXPECT_OK(Multiply::launch(other.address(), 3, second));
  EXPECT_OK(Multiply::launch(number.address(), 2, first));
  EXPECT_OK(orEventRecord(join, second));
  EXPECT_OK(orStreamWaitEvent(first, join, 0));
  EXPECT_OK(Add::launch(other.address(), 1, first));
  const Graph graph(first);
  EXPECT_EQ(4u, graph.nodes());
  EXPECT_EQ(orStreamCaptureStatusNone, statusOf(second));
  graph.runOn(first);
  EXPECT_EQ(10, number.get());
  EXPECT_EQ(7, other.get());
  EXPECT_OK(orStreamSynchronize(second));
}

TEST(Graph, ForkToAnotherDevice) {
  const StreamGuard first;
  const EventGuard fork;
  const DeviceGuard guard(1);
  const StreamGuard second;
  const EventGuard join;
  int device = 9;
  ASSERT_OK(orStreamBeginCapture(first, orStreamCaptureModeGlobal));
  EXPECT_OK(orEventRecord(fork, first));
  EXPECT_OK(orStreamWaitEvent(second, fork, 0));
  int* const pointer = &device;
  const auto body = [](void* arguments) { EXPECT_OK(orGetDevice(*static_cast<int* const*>(arguments))); };
  EXPECT_OK(orLaunchKernel(body, &pointer, sizeof(pointer), second));
  EXPECT_OK(orEventRecord(join, second));
  EXPECT_OK(orStreamWaitEvent(first, join, 0));
  const Graph graph(first);
  EXPECT_OK(orSetDevice(0));
  graph.runOn(first);
  EXPECT_EQ(1, device);
  int current = 9;
  EXPECT_OK(orGetDevice(&current));
  EXPECT_EQ(0, current);
}

TEST(Graph, UnjoinedForkIsRefused) {
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

TEST(Graph, WorkSubmittedBeforeIsNoPartOfIt) {
  SKIP_IF_BLOCKING();
  const StreamGuard stream;
  Number number(0);
  Gate gate;
  gate.block(stream);
  ASSERT_OK(Add::launch(number.address(), 1, stream));
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeRelaxed));
  ASSERT_OK(Add::launch(number.address(), 10, stream));
  const Graph graph(stream);
  EXPECT_EQ(1u, graph.nodes());
  EXPECT_EQ(orErrorNotReady, orStreamQuery(stream));
  ASSERT_OK(orGraphLaunch(graph.exec, stream));
  gate.open();
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(11, number.get());
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

TEST(Graph, TheDefaultStreamCanBeCaptured) {
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

TEST(Graph, OtherStreamsGoOn) {
  const StreamGuard captured;
  const StreamGuard stream;
  const EventGuard event;
  Number number(1);
  ASSERT_OK(orStreamBeginCapture(captured, orStreamCaptureModeGlobal));
  EXPECT_OK(Add::launch(number.address(), 1, stream));
  EXPECT_OK(orEventRecord(event, stream));
  EXPECT_OK(orEventSynchronize(event));
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_OK(orLaunchKernelInline([](void*) {}, nullptr, stream));
  const Graph graph(captured);
  EXPECT_EQ(0u, graph.nodes());
  EXPECT_EQ(2, number.get());
}

TEST(Graph, CapturesAreNotMerged) {
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

TEST(Graph, EndBelongsToTheThread) {
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

TEST(Graph, LaunchCannotBeCaptured) {
  const StreamGuard stream;
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeGlobal));
  const Graph graph(stream);
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeGlobal));
  EXPECT_EQ(orErrorStreamCaptureUnsupported, orGraphLaunch(graph.exec, stream));
  expectInvalid(stream);
}

TEST(Graph, ExecOutlivesGraphAndLaunchOutlivesExec) {
  const StreamGuard stream;
  Number number(1);
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeGlobal));
  EXPECT_OK(Add::launch(number.address(), 1, stream));
  orGraph_t graph = nullptr;
  orGraphExec_t exec = nullptr;
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  ASSERT_OK(orGraphInstantiate(&exec, graph));
  EXPECT_OK(orGraphDestroy(graph));
  EXPECT_EQ(orErrorInvalidHandle, orGraphDestroy(graph));
  EXPECT_EQ(orErrorInvalidHandle, orGraphInstantiate(&exec, graph));
  EXPECT_OK(orGraphLaunch(exec, stream));
  EXPECT_OK(orGraphExecDestroy(exec));
  EXPECT_EQ(orErrorInvalidHandle, orGraphExecDestroy(exec));
  EXPECT_EQ(orErrorInvalidHandle, orGraphLaunch(exec, stream));
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(2, number.get());
}

TEST(Graph, NeverRunsConcurrentlyWithItself) {
  const StreamGuard first;
  const StreamGuard second;
  struct State {
    std::atomic<int> inside{0};
    std::atomic<int> most{0};
    std::atomic<int> runs{0};
  } state;
  State* const pointer = &state;
  ASSERT_OK(orStreamBeginCapture(first, orStreamCaptureModeGlobal));
  const auto body = [](void* arguments) {
    State& state = **static_cast<State* const*>(arguments);
    const int inside = ++state.inside;
    state.most = std::max(state.most.load(), inside);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    --state.inside;
    ++state.runs;
  };
  ASSERT_OK(orLaunchKernel(body, &pointer, sizeof(pointer), first));
  const Graph graph(first);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 10; ++i) {
        EXPECT_OK(orGraphLaunch(graph.exec, thread % 2 == 0 ? first : second));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_OK(orDeviceSynchronize());
  EXPECT_EQ(40, state.runs);
  EXPECT_EQ(1, state.most);
}

TEST(Graph, LaunchIsOrderedOnItsStream) {
  SKIP_IF_BLOCKING();
  const StreamGuard stream;
  Number number(1);
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeGlobal));
  EXPECT_OK(Multiply::launch(number.address(), 10, stream));
  const Graph graph(stream);
  Gate gate;
  gate.block(stream);
  EXPECT_OK(Add::launch(number.address(), 1, stream));
  EXPECT_OK(orGraphLaunch(graph.exec, stream));
  EXPECT_OK(Add::launch(number.address(), 3, stream));
  EXPECT_OK(orGraphLaunch(graph.exec, stream));
  EXPECT_EQ(orErrorNotReady, orStreamQuery(stream));
  gate.open();
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(230, number.get());
}

TEST(Graph, FailingNodeIsReported) {
  const StreamGuard stream;
  Number number(1);
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeGlobal));
  EXPECT_OK(Add::launch(number.address(), 1, stream));
  EXPECT_OK(orLaunchKernel([](void*) { throw std::runtime_error("the reason"); }, nullptr, 0, stream));
  EXPECT_OK(Add::launch(number.address(), 1, stream));
  const Graph graph(stream);
  orError_t result = orGraphLaunch(graph.exec, stream);
  if (result == orSuccess) {
    result = orStreamSynchronize(stream);
  }
  EXPECT_EQ(orErrorLaunchFailure, result);
  EXPECT_NE(std::string::npos, std::string(orGetLastErrorMessage()).find("node 1 of the graph: the reason")) << orGetLastErrorMessage();
  EXPECT_EQ(2, number.get());
  EXPECT_OK(orStreamSynchronize(stream));
}

TEST(Graph, DebugDump) {
  const StreamGuard stream;
  const DeviceMemory memory(64);
  const DeviceMemory other(64);
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeGlobal));
  EXPECT_OK(orMemsetAsync(memory.pointer, 5, 64, stream));
  EXPECT_OK(orMemcpyAsync(other.pointer, memory.pointer, 48, orMemcpyDefault, stream));
  EXPECT_OK(Add::launch(static_cast<int*>(memory.pointer), 1, stream));
  const Graph graph(stream);
  const std::string path = testing::TempDir() + "/graph_test.dot";
  ASSERT_OK(orGraphDebugDump(graph.handle, path.c_str()));
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  std::remove(path.c_str());
  char address[32];
  std::snprintf(address, sizeof(address), "%#zx", reinterpret_cast<std::size_t>(memory.pointer));
  const std::vector<std::string> expected{"digraph", "fill", "64 bytes", "copy", "48 bytes", address, "kernel", "16 bytes of arguments", "device 0", "n0 -> n1", "n1 -> n2"};
  for (const std::string& part : expected) {
    EXPECT_NE(std::string::npos, content.str().find(part)) << part << " is not in " << content.str();
  }
  EXPECT_EQ(orErrorInvalidValue, orGraphDebugDump(graph.handle, "/nonexistent/folder/file"));
  EXPECT_EQ(orErrorInvalidValue, orGraphDebugDump(graph.handle, nullptr));
}

TEST(Graph, WrongArgumentsAreRefused) {
  const StreamGuard stream;
  orGraph_t graph = nullptr;
  orGraphExec_t exec = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(orErrorInvalidValue, orStreamBeginCapture(stream, static_cast<orStreamCaptureMode>(3)));
  EXPECT_EQ(orErrorInvalidValue, orStreamEndCapture(stream, &graph));
  EXPECT_EQ(orErrorInvalidValue, orStreamGetCaptureStatus(stream, nullptr));
  EXPECT_EQ(orErrorInvalidHandle, orGraphGetNodeCount(nullptr, &count));
  EXPECT_EQ(orErrorInvalidHandle, orGraphInstantiate(&exec, nullptr));
  EXPECT_EQ(orErrorInvalidHandle, orGraphLaunch(nullptr, stream));
  EXPECT_EQ(orErrorInvalidHandle, orGraphDestroy(nullptr));
  ASSERT_OK(orStreamBeginCapture(stream, orStreamCaptureModeGlobal));
  EXPECT_EQ(orErrorInvalidValue, orStreamBeginCapture(stream, orStreamCaptureModeGlobal));
  EXPECT_EQ(orErrorInvalidValue, orStreamEndCapture(stream, nullptr));
  EXPECT_OK(orStreamEndCapture(stream, &graph));
  EXPECT_EQ(orErrorInvalidValue, orGraphInstantiate(nullptr, graph));
  EXPECT_EQ(orErrorInvalidValue, orGraphGetNodeCount(graph, nullptr));
  EXPECT_OK(orGraphDestroy(graph));
}
