#include "support.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace {

// Appends its number to a list when it runs.
struct Entry {
  std::vector<int>* list;
  int number;
  static void run(void* arguments) {
    const auto& entry = *static_cast<const Entry*>(arguments);
    entry.list->push_back(entry.number);
  }
};

void submit(std::vector<int>& list, int number, orStream_t stream) {
  const Entry entry{&list, number};
  ASSERT_OK(orLaunchKernel(&Entry::run, &entry, sizeof(entry), stream));
}

}  // namespace

TEST(Stream, CreateQueryDestroy) {
  orStream_t stream = nullptr;
  ASSERT_OK(orStreamCreate(&stream));
  EXPECT_NE(nullptr, stream);
  EXPECT_OK(orStreamQuery(stream));
  EXPECT_OK(orStreamSynchronize(stream));
  int value = 9;
  EXPECT_OK(orStreamGetPriority(stream, &value));
  EXPECT_EQ(0, value);
  EXPECT_OK(orStreamGetDevice(stream, &value));
  EXPECT_EQ(0, value);
  EXPECT_OK(orStreamDestroy(stream));
}

TEST(Stream, BelongsToTheDeviceThatWasCurrent) {
  const DeviceGuard guard(1);
  const StreamGuard stream(-2);
  int value = 9;
  const DeviceGuard back(0);
  EXPECT_OK(orStreamGetDevice(stream, &value));
  EXPECT_EQ(1, value);
  EXPECT_OK(orStreamGetPriority(stream, &value));
  EXPECT_EQ(-2, value);
}

TEST(Stream, DefaultStreamFollowsTheCurrentDevice) {
  int value = 9;
  EXPECT_OK(orStreamGetDevice(nullptr, &value));
  EXPECT_EQ(0, value);
  const DeviceGuard guard(1);
  EXPECT_OK(orStreamGetDevice(nullptr, &value));
  EXPECT_EQ(1, value);
  EXPECT_EQ(orErrorInvalidHandle, orStreamDestroy(nullptr));
}

TEST(Stream, WrongArgumentsAreRefused) {
  orStream_t stream = nullptr;
  EXPECT_EQ(orErrorInvalidValue, orStreamCreate(nullptr));
  EXPECT_EQ(orErrorInvalidValue, orStreamCreateWithPriority(&stream, 1, 0));
  EXPECT_EQ(orErrorInvalidValue, orStreamCreateWithPriority(&stream, 0, 1));
  EXPECT_EQ(orErrorInvalidValue, orStreamCreateWithPriority(&stream, 0, -3));
  EXPECT_EQ(nullptr, stream);
}

TEST(Stream, ForeignAndDestroyedHandlesAreRefused) {
  orStream_t stream = nullptr;
  ASSERT_OK(orStreamCreate(&stream));
  ASSERT_OK(orStreamDestroy(stream));
  const StreamGuard reuses_the_slot;
  const EventGuard event;
  int local = 0;
  const std::uintptr_t never_used = (reinterpret_cast<std::uintptr_t>(event.handle) >> 56 << 56) | 100;
  EXPECT_EQ(orErrorInvalidHandle, orEventQuery(reinterpret_cast<orEvent_t>(never_used)));
  const std::uintptr_t beyond = reinterpret_cast<std::uintptr_t>(reuses_the_slot.handle) + 100000;
  for (const orStream_t wrong :
       {stream, reinterpret_cast<orStream_t>(&local), reinterpret_cast<orStream_t>(event.handle),
        reinterpret_cast<orStream_t>(std::uintptr_t{1}), reinterpret_cast<orStream_t>(~std::uintptr_t{0}),
        reinterpret_cast<orStream_t>(beyond)}) {
    EXPECT_EQ(orErrorInvalidHandle, orStreamQuery(wrong));
    EXPECT_EQ(orErrorInvalidHandle, orStreamSynchronize(wrong));
    EXPECT_EQ(orErrorInvalidHandle, orStreamDestroy(wrong));
    EXPECT_EQ(orErrorInvalidHandle, orStreamGetDevice(wrong, &local));
    EXPECT_EQ(orErrorInvalidHandle, orEventRecord(event, wrong));
    EXPECT_EQ(orErrorInvalidHandle, orStreamWaitEvent(wrong, event, 0));
    EXPECT_EQ(orErrorInvalidHandle, orMemcpyAsync(nullptr, nullptr, 0, orMemcpyDefault, wrong));
    EXPECT_EQ(orErrorInvalidHandle, orLaunchKernelInline([](void*) {}, nullptr, wrong));
  }
  EXPECT_EQ(orErrorInvalidHandle, orEventQuery(reinterpret_cast<orEvent_t>(reuses_the_slot.handle)));
}

TEST(Stream, WorkRunsInTheOrderOfSubmission) {
  const StreamGuard stream;
  std::vector<int> order;
  std::vector<int> expected;
  for (int i = 0; i < 1000; ++i) {
    submit(order, i, stream);
    expected.push_back(i);
    if (i % 100 == 50) {
      // Makes it busy in every mode.
      ASSERT_OK(orLaunchHostFunc([](void* list) { static_cast<std::vector<int>*>(list)->push_back(-1); }, &order, stream));
      expected.push_back(-1);
    }
  }
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(expected, order);
}

TEST(Stream, BusyStreamQueuesAndQueryTellsTheTruth) {
  SKIP_IF_BLOCKING();
  const StreamGuard stream;
  const StreamGuard other;
  std::vector<int> order;
  Gate gate;
  gate.block(stream);
  submit(order, 1, stream);
  EXPECT_EQ(orErrorNotReady, orStreamQuery(stream));
  EXPECT_OK(orStreamQuery(other));  // independent
  EXPECT_OK(orStreamQuery(nullptr));
  gate.awaitArrival();
  EXPECT_TRUE(order.empty());
  gate.open();
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_OK(orStreamQuery(stream));
  EXPECT_EQ(std::vector<int>{1}, order);
}

TEST(Stream, SynchronizeWaitsForEarlierWorkOnly) {
  SKIP_IF_BLOCKING();
  const StreamGuard stream;
  Gate first;
  Gate second;
  first.block(stream);
  std::atomic<bool> begun{false};
  std::atomic<bool> returned{false};
  std::thread waiter([&] {
    begun = true;
    EXPECT_OK(orStreamSynchronize(stream));
    returned = true;
  });
  first.awaitArrival();
  while (!begun) {
    std::this_thread::yield();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(returned);
  second.block(stream);  // submitted after the wait began
  first.open();
  waiter.join();
  EXPECT_EQ(orErrorNotReady, orStreamQuery(stream));
  second.open();
  EXPECT_OK(orStreamSynchronize(stream));
}

TEST(Stream, DestroyWithPendingWorkCompletesIt) {
  SKIP_IF_BLOCKING();
  std::vector<int> order;
  orStream_t stream = nullptr;
  ASSERT_OK(orStreamCreate(&stream));
  Gate gate;
  gate.block(stream);
  submit(order, 1, stream);
  ASSERT_OK(orStreamDestroy(stream));
  EXPECT_EQ(orErrorInvalidHandle, orStreamQuery(stream));
  gate.open();
  ASSERT_OK(orDeviceSynchronize());
  EXPECT_EQ(std::vector<int>{1}, order);
}

TEST(Stream, HandlesAreNotMixedUpByReuse) {
  std::vector<orStream_t> ended;
  for (int i = 0; i < 1000; ++i) {
    orStream_t stream = nullptr;
    ASSERT_OK(orStreamCreate(&stream));
    ASSERT_OK(orStreamDestroy(stream));
    ended.push_back(stream);
  }
  const StreamGuard live;
  for (const orStream_t stream : ended) {
    ASSERT_EQ(orErrorInvalidHandle, orStreamQuery(stream));
  }
}

TEST(Stream, UrgentStreamsAreServedFirst) {
  SKIP_IF_BLOCKING();
  orDeviceProp properties;
  ASSERT_OK(orGetDeviceProperties(&properties, 0));
  // Occupy every worker, queue on streams of each priority, and let one worker go: the others stay occupied.
  const int workers = properties.maxConcurrentStreams;
  std::vector<std::unique_ptr<StreamGuard>> blockers;
  std::vector<Gate> gates(static_cast<std::size_t>(workers));
  for (Gate& gate : gates) {
    blockers.push_back(std::make_unique<StreamGuard>());
    gate.block(*blockers.back());
    gate.awaitArrival();
  }
  const StreamGuard low(0);
  const StreamGuard middle(-1);
  const StreamGuard high(-2);
  std::vector<int> order;
  const orStream_t streams[] = {low, middle, high};
  for (int number = 0; number < 3; ++number) {
    struct HostEntry {
      static void run(void* entry) {
        Entry::run(entry);
        delete static_cast<Entry*>(entry);
      }
    };
    ASSERT_OK(orLaunchHostFunc(&HostEntry::run, new Entry{&order, number}, streams[number]));
  }
  gates[0].open();
  for (const orStream_t stream : {low.handle, middle.handle, high.handle}) {
    ASSERT_OK(orStreamSynchronize(stream));
  }
  EXPECT_EQ((std::vector<int>{2, 1, 0}), order);
}

TEST(Stream, ManyThreadsSubmitToOneStream) {
  const StreamGuard stream;
  constexpr int kThreads = 8;
  constexpr int kEach = 500;
  long total = 0;  // guarded by the order of the stream alone
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      long* const place = &total;
      for (int k = 0; k < kEach; ++k) {
        const auto add = [](void* arguments) { ++**static_cast<long* const*>(arguments); };
        if ((i + k) % 3 == 0) {
          EXPECT_OK(orLaunchKernelInline(add, const_cast<long**>(&place), stream));
        } else {
          EXPECT_OK(orLaunchKernel(add, &place, sizeof(place), stream));
        }
        if (k % 100 == 0) {
          EXPECT_OK(orStreamSynchronize(stream));
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(kThreads * kEach, total);
}

// However many threads are resting, and whatever the state of their rest: each stream that is ready gets one.
TEST(Stream, StreamsThatNeedEachOtherRunTogether) {
  SKIP_IF_BLOCKING();
  const StreamGuard first;
  const StreamGuard second;
  for (const auto pause : {0, 1, 10, 60, 0}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    std::atomic<int> arrived{0};
    const auto meet = [](void* place) {
      auto& arrived = *static_cast<std::atomic<int>*>(place);
      ++arrived;
      while (arrived < 2) {
        std::this_thread::yield();
      }
    };
    for (int round = 0; round < 5; ++round) {
      arrived = 0;
      ASSERT_OK(orLaunchHostFunc(meet, &arrived, first));
      ASSERT_OK(orLaunchHostFunc(meet, &arrived, second));
      EXPECT_OK(orDeviceSynchronize());
    }
  }
}

TEST(Stream, WorkBeginsThoughNobodyWaits) {
  SKIP_IF_BLOCKING();
  const StreamGuard stream;
  for (const auto pause : {0, 1, 10, 60}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    std::atomic<bool> done{false};
    ASSERT_OK(orLaunchHostFunc([](void* place) { *static_cast<std::atomic<bool>*>(place) = true; }, &done, stream));
    while (!done) {
      std::this_thread::yield();
    }
  }
}
