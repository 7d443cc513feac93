#include "support.h"

#include <atomic>
#include <chrono>
#include <thread>

TEST(Event, NeverRecordedIsComplete) {
  const EventGuard event;
  EXPECT_OK(orEventQuery(event));
  EXPECT_OK(orEventSynchronize(event));
  EXPECT_OK(orStreamWaitEvent(nullptr, event, 0));
  EXPECT_OK(orStreamQuery(nullptr));
}

TEST(Event, WrongArgumentsAreRefused) {
  orEvent_t event = nullptr;
  EXPECT_EQ(orErrorInvalidValue, orEventCreate(nullptr));
  EXPECT_EQ(orErrorInvalidValue, orEventCreateWithFlags(&event, 8));
  EXPECT_EQ(orErrorInvalidValue, orEventCreateWithFlags(&event, orEventInterprocess));
  ASSERT_OK(orEventCreateWithFlags(&event, orEventBlockingSync));
  EXPECT_EQ(orErrorInvalidValue, orStreamWaitEvent(nullptr, event, 1));
  ASSERT_OK(orEventDestroy(event));
  int local = 0;
  for (const orEvent_t wrong : {event, static_cast<orEvent_t>(nullptr), reinterpret_cast<orEvent_t>(&local)}) {
    EXPECT_EQ(orErrorInvalidHandle, orEventQuery(wrong));
    EXPECT_EQ(orErrorInvalidHandle, orEventSynchronize(wrong));
    EXPECT_EQ(orErrorInvalidHandle, orEventRecord(wrong, nullptr));
    EXPECT_EQ(orErrorInvalidHandle, orEventDestroy(wrong));
    EXPECT_EQ(orErrorInvalidHandle, orStreamWaitEvent(nullptr, wrong, 0));
  }
}

TEST(Event, DeviceMustMatchTheStream) {
  const EventGuard event;
  const DeviceGuard guard(1);
  EXPECT_EQ(orErrorInvalidHandle, orEventRecord(event, nullptr));
  const EventGuard other;
  EXPECT_OK(orEventRecord(other, nullptr));
}

TEST(Event, CompleteWhenTheStreamComesToIt) {
  SKIP_IF_BLOCKING();
  const StreamGuard stream;
  const EventGuard event;
  Gate gate;
  gate.block(stream);
  ASSERT_OK(orEventRecord(event, stream));
  EXPECT_EQ(orErrorNotReady, orEventQuery(event));
  Gate behind;
  behind.block(stream);
  gate.open();
  EXPECT_OK(orEventSynchronize(event));  // although the stream is still busy
  EXPECT_OK(orEventQuery(event));
  EXPECT_EQ(orErrorNotReady, orStreamQuery(stream));
  behind.open();
  EXPECT_OK(orStreamSynchronize(stream));
}

TEST(Event, RecordingAgainForgetsForQueriesOnly) {
  SKIP_IF_BLOCKING();
  const StreamGuard a;
  const StreamGuard b;
  const StreamGuard waiting;
  const EventGuard event;
  Gate gate;
  gate.block(a);
  ASSERT_OK(orEventRecord(event, a));
  ASSERT_OK(orStreamWaitEvent(waiting, event, 0));
  ASSERT_OK(orEventRecord(event, b));  // b is idle: complete at once
  EXPECT_OK(orEventQuery(event));
  EXPECT_EQ(orErrorNotReady, orStreamQuery(waiting));  // still for the recording on a
  gate.open();
  EXPECT_OK(orStreamSynchronize(waiting));
}

TEST(Event, LaterRecordingDoesNotDelayAnEarlierWait) {
  SKIP_IF_BLOCKING();
  const StreamGuard a;
  const StreamGuard b;
  const StreamGuard waiting;
  const EventGuard event;
  Gate gate_a;
  Gate gate_b;
  gate_a.block(a);
  gate_b.block(b);
  ASSERT_OK(orEventRecord(event, a));
  ASSERT_OK(orStreamWaitEvent(waiting, event, 0));
  ASSERT_OK(orEventRecord(event, b));
  gate_a.open();
  EXPECT_OK(orStreamSynchronize(waiting));
  EXPECT_EQ(orErrorNotReady, orEventQuery(event));
  gate_b.open();
  EXPECT_OK(orEventSynchronize(event));
}

TEST(Event, StreamsWaitAcrossDevices) {
  SKIP_IF_BLOCKING();
  const StreamGuard on_0;
  const EventGuard event;
  Gate gate;
  gate.block(on_0);
  ASSERT_OK(orEventRecord(event, on_0));
  const DeviceGuard guard(1);
  const StreamGuard on_1;
  ASSERT_OK(orStreamWaitEvent(on_1, event, 0));
  std::atomic<bool> ran{false};
  std::atomic<bool>* const place = &ran;
  ASSERT_OK(
      orLaunchKernel([](void* arguments) { **static_cast<std::atomic<bool>* const*>(arguments) = true; }, &place, sizeof(place), on_1));
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(ran);
  EXPECT_EQ(orErrorNotReady, orStreamQuery(on_1));
  gate.open();
  EXPECT_OK(orStreamSynchronize(on_1));
  EXPECT_TRUE(ran);
}

TEST(Event, WaitingStreamsHoldNoThread) {
  SKIP_IF_BLOCKING();
  // More waiting streams than there are workers, and the work they wait for needs one.
  const StreamGuard source;
  const EventGuard event;
  Gate gate;
  gate.block(source);
  ASSERT_OK(orEventRecord(event, source));
  std::vector<std::unique_ptr<StreamGuard>> waiting;
  std::atomic<int> count{0};
  for (int i = 0; i < 64; ++i) {
    waiting.push_back(std::make_unique<StreamGuard>(-2));
    ASSERT_OK(orStreamWaitEvent(*waiting.back(), event, 0));
    ASSERT_OK(orLaunchHostFunc([](void* counter) { ++*static_cast<std::atomic<int>*>(counter); }, &count, *waiting.back()));
  }
  const StreamGuard other;
  ASSERT_OK(orLaunchHostFunc([](void* counter) { ++*static_cast<std::atomic<int>*>(counter); }, &count, other));
  ASSERT_OK(orStreamSynchronize(other));
  EXPECT_EQ(1, count);
  gate.open();
  ASSERT_OK(orDeviceSynchronize());
  EXPECT_EQ(65, count);
}

TEST(Event, DestroyWhilePendingStillReleases) {
  SKIP_IF_BLOCKING();
  const StreamGuard source;
  const StreamGuard waiting;
  Gate gate;
  gate.block(source);
  orEvent_t event = nullptr;
  ASSERT_OK(orEventCreate(&event));
  ASSERT_OK(orEventRecord(event, source));
  ASSERT_OK(orStreamWaitEvent(waiting, event, 0));
  ASSERT_OK(orEventDestroy(event));
  EXPECT_EQ(orErrorNotReady, orStreamQuery(waiting));
  gate.open();
  EXPECT_OK(orStreamSynchronize(waiting));
}

// Also in the blocking mode: the caller may hold a lock that the work before the event needs.
TEST(Event, RecordingAndWaitingNeverBlockTheCaller) {
  const StreamGuard busy;
  const StreamGuard waiting;
  const EventGuard event;
  Gate gate;
  std::thread holder([&] { gate.block(busy); });
  gate.awaitArrival();
  EXPECT_OK(orEventRecord(event, busy));
  EXPECT_OK(orStreamWaitEvent(waiting, event, 0));
  EXPECT_EQ(orErrorNotReady, orEventQuery(event));
  EXPECT_EQ(orErrorNotReady, orStreamQuery(waiting));
  gate.open();
  holder.join();
  EXPECT_OK(orStreamSynchronize(waiting));
  EXPECT_OK(orEventQuery(event));
}

TEST(Event, ElapsedTimeIsThatOfTheDevice) {
  const StreamGuard stream;
  const EventGuard start;
  const EventGuard end;
  const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  ASSERT_OK(orEventRecord(start, stream));
  ASSERT_OK(orLaunchHostFunc(sleep, nullptr, stream));
  ASSERT_OK(orEventRecord(end, stream));
  float milliseconds = 0;
  if (launchMode() != "blocking") {
    EXPECT_EQ(orErrorNotReady, orEventElapsedTime(&milliseconds, start, end));
  }
  ASSERT_OK(orEventSynchronize(end));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // host time does not count
  ASSERT_OK(orEventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 20.0f);
  EXPECT_LT(milliseconds, kSanitized ? 1000.0f : 200.0f);
  float reverse = 0;
  ASSERT_OK(orEventElapsedTime(&reverse, end, start));
  EXPECT_EQ(-milliseconds, reverse);
}

TEST(Event, ElapsedTimeNeedsTimes) {
  const EventGuard timed;
  const EventGuard never;
  const EventGuard untimed(orEventDisableTiming);
  ASSERT_OK(orEventRecord(timed, nullptr));
  ASSERT_OK(orEventRecord(untimed, nullptr));
  float milliseconds = 0;
  EXPECT_EQ(orErrorInvalidValue, orEventElapsedTime(&milliseconds, timed, never));
  EXPECT_EQ(orErrorInvalidValue, orEventElapsedTime(&milliseconds, untimed, timed));
  EXPECT_EQ(orErrorInvalidValue, orEventElapsedTime(nullptr, timed, timed));
  EXPECT_OK(orEventElapsedTime(&milliseconds, timed, timed));
  EXPECT_EQ(0.0f, milliseconds);
  const DeviceGuard guard(1);
  const EventGuard other;
  ASSERT_OK(orEventRecord(other, nullptr));
  EXPECT_EQ(orErrorInvalidValue, orEventElapsedTime(&milliseconds, timed, other));
}
