#include "support.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace {

struct Where {
  std::thread::id thread;
  static void run(void* self) { static_cast<Where*>(self)->thread = std::this_thread::get_id(); }
  static void runIndirect(void* arguments) { run(*static_cast<Where* const*>(arguments)); }
};

void failing(void*) {
  throw std::runtime_error("the reason");
}

}  // namespace

TEST(Launch, InlineRunsOnTheCallingThreadInEveryMode) {
  const StreamGuard stream;
  Where where;
  EXPECT_OK(orLaunchKernelInline(&Where::run, &where, stream));
  EXPECT_EQ(std::this_thread::get_id(), where.thread);
}

TEST(Launch, InlineWaitsForItsTurn) {
  SKIP_IF_BLOCKING();
  const StreamGuard stream;
  Gate gate;
  gate.block(stream);
  std::atomic<bool> opened{false};
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    opened = true;
    gate.open();
  });
  struct Check {
    std::atomic<bool>* opened = nullptr;
    bool in_order = false;
    Where where;
  } check;
  check.opened = &opened;
  const auto body = [](void* arguments) {
    auto& check = *static_cast<Check*>(arguments);
    check.in_order = *check.opened;
    Where::run(&check.where);
  };
  EXPECT_OK(orLaunchKernelInline(body, &check, stream));
  EXPECT_TRUE(check.in_order);
  EXPECT_EQ(std::this_thread::get_id(), check.where.thread);
  opener.join();
}

TEST(Launch, WhereKernelsRun) {
  const StreamGuard stream;
  Where where;
  Where* const pointer = &where;
  EXPECT_OK(orLaunchKernel(&Where::runIndirect, &pointer, sizeof(pointer), stream));
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(launchMode() != "async", where.thread == std::this_thread::get_id());
  EXPECT_OK(orLaunchHostFunc(&Where::run, &where, stream));
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_NE(std::this_thread::get_id(), where.thread);
}

TEST(Launch, QueuedArgumentsAreCopied) {
  SKIP_IF_BLOCKING();
  const StreamGuard stream;
  Gate gate;
  gate.block(stream);
  struct Arguments {
    int* result;
    int values[100];
  };
  int result = 0;
  {
    Arguments arguments = {};
    arguments.result = &result;
    arguments.values[99] = 12;
    const auto body = [](void* place) {
      EXPECT_EQ(0u, reinterpret_cast<std::uintptr_t>(place) % 16);
      const auto& arguments = *static_cast<const Arguments*>(place);
      *arguments.result = arguments.values[99];
    };
    ASSERT_OK(orLaunchKernel(body, &arguments, sizeof(arguments), stream));
    arguments = {};
  }
  gate.open();
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(12, result);
}

TEST(Launch, QueuedWorkSeesItsDevice) {
  const DeviceGuard guard(1);
  int device = 9;
  EXPECT_OK(orLaunchHostFunc([](void* result) { EXPECT_OK(orGetDevice(static_cast<int*>(result))); }, &device, nullptr));
  EXPECT_OK(orStreamSynchronize(nullptr));
  EXPECT_EQ(1, device);
}

TEST(Launch, WrongArgumentsAreRefused) {
  EXPECT_EQ(orErrorInvalidValue, orLaunchKernel(nullptr, nullptr, 0, nullptr));
  EXPECT_EQ(orErrorInvalidValue, orLaunchKernel([](void*) {}, nullptr, 4, nullptr));
  EXPECT_EQ(orErrorInvalidValue, orLaunchKernelInline(nullptr, nullptr, nullptr));
  EXPECT_EQ(orErrorInvalidValue, orLaunchHostFunc(nullptr, nullptr, nullptr));
  EXPECT_OK(orLaunchKernel([](void*) {}, nullptr, 0, nullptr));
  EXPECT_OK(orStreamSynchronize(nullptr));
}

TEST(Launch, NestedLaunchesRunAtOnce) {
  const StreamGuard stream;
  struct State {
    orStream_t stream;
    orStream_t other;
    int depth;
    int most;
  } state{stream, nullptr, 0, 0};
  struct Body {
    static void run(void* arguments) {
      auto& state = *static_cast<State*>(arguments);
      state.most = std::max(state.most, ++state.depth);
      if (state.depth < 3) {
        EXPECT_OK(orLaunchKernelInline(&Body::run, &state, state.stream));
        State* const pointer = &state;
        EXPECT_OK(orLaunchKernel(
            [](void* indirect) { Body::run(*static_cast<State* const*>(indirect)); }, &pointer, sizeof(pointer), state.stream));
        EXPECT_OK(orLaunchKernelInline([](void* place) { Where::run(place); }, &(*std::make_unique<Where>()), state.other));
      }
      EXPECT_EQ(orErrorNotReady, orStreamQuery(state.stream));
      --state.depth;
    }
  };
  EXPECT_OK(orLaunchKernelInline(&Body::run, &state, stream));
  EXPECT_EQ(3, state.most);
  EXPECT_EQ(0, state.depth);
  EXPECT_OK(orStreamQuery(stream));
}

TEST(Launch, WaitingForOneselfIsRefused) {
  const StreamGuard stream;
  const EventGuard event;
  struct State {
    orStream_t stream;
    orEvent_t event;
  } state{stream, event};
  const auto body = [](void* arguments) {
    const auto& state = *static_cast<State*>(arguments);
    EXPECT_EQ(orErrorNotSupported, orStreamSynchronize(state.stream));
    EXPECT_EQ(orErrorNotSupported, orDeviceSynchronize());
    EXPECT_OK(orStreamSynchronize(nullptr));  // another stream
    EXPECT_OK(orEventRecord(state.event, state.stream));
    EXPECT_EQ(orErrorNotReady, orEventQuery(state.event));  // the kernel was submitted before and is not over
    EXPECT_EQ(orErrorNotSupported, orEventSynchronize(state.event));
    EXPECT_EQ(orErrorNotSupported, orStreamWaitEvent(state.stream, state.event, 0));
    void* memory = nullptr;
    EXPECT_OK(orMalloc(&memory, 64));
    EXPECT_OK(orFree(memory));  // does not wait for the kernel either
  };
  EXPECT_OK(orLaunchKernelInline(body, &state, stream));
  EXPECT_OK(orEventSynchronize(event));
}

TEST(Launch, FailureAtOnceIsReturned) {
  const StreamGuard stream;
  EXPECT_EQ(orErrorLaunchFailure, orLaunchKernelInline(&failing, nullptr, stream));
  EXPECT_NE(std::string::npos, std::string(orGetLastErrorMessage()).find("the reason"));
  EXPECT_EQ(orErrorLaunchFailure, orLaunchKernelInline([](void*) { throw 1; }, nullptr, stream));
  EXPECT_OK(orStreamQuery(stream));
  EXPECT_OK(orLaunchKernelInline([](void*) {}, nullptr, stream));
}

TEST(Launch, FailureOfQueuedWorkIsReportedOnce) {
  SKIP_IF_BLOCKING();
  const StreamGuard stream;
  ASSERT_OK(orLaunchHostFunc(&failing, nullptr, stream));
  EXPECT_EQ(orErrorLaunchFailure, orStreamSynchronize(stream));
  EXPECT_NE(std::string::npos, std::string(orGetLastErrorMessage()).find("the reason"));
  EXPECT_OK(orStreamSynchronize(stream));
  ASSERT_OK(orLaunchHostFunc(&failing, nullptr, stream));
  EXPECT_EQ(orErrorLaunchFailure, orDeviceSynchronize());
  EXPECT_OK(orDeviceSynchronize());
}

TEST(Launch, FailureOutlivesItsStream) {
  SKIP_IF_BLOCKING();
  orStream_t stream = nullptr;
  ASSERT_OK(orStreamCreate(&stream));
  ASSERT_OK(orLaunchHostFunc(&failing, nullptr, stream));
  ASSERT_OK(orStreamDestroy(stream));
  EXPECT_EQ(orErrorLaunchFailure, orDeviceSynchronize());
  EXPECT_OK(orDeviceSynchronize());
}

TEST(Launch, DestroyFromInsideIsSafe) {
  orStream_t stream = nullptr;
  ASSERT_OK(orStreamCreate(&stream));
  EXPECT_OK(orLaunchKernelInline([](void* handle) { EXPECT_OK(orStreamDestroy(static_cast<orStream_t>(handle))); }, stream, stream));
  EXPECT_EQ(orErrorInvalidHandle, orStreamQuery(stream));
}
