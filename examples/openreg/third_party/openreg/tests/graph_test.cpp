#include "graph_support.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

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
  const std::vector<std::string> expected{
      "digraph", "fill", "64 bytes", "copy", "48 bytes", address, "kernel", "16 bytes of arguments", "device 0", "n0 -> n1", "n1 -> n2"};
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
