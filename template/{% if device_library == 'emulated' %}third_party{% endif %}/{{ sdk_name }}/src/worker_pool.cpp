#include "worker_pool.h"

#include <algorithm>
#include <cstdio>
#include <thread>

#include "platform/platform.h"
#include "runtime.h"
#include "stream.h"

namespace emulator {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

// How long a worker without work polls without a pause, how often after that, and for how long.
constexpr auto kSpin = microseconds(5);
constexpr auto kShortestNap = microseconds(20);
constexpr auto kLongestNap = microseconds(250);
constexpr auto kAwake = std::chrono::milliseconds(50);

std::atomic<bool> g_exiting{false};
std::atomic<int> g_waiters{0};

}  // namespace

int WorkerPool::limit() {
  static const int result = std::clamp(platform::hardwareThreads(), 2, 4);
  return result;
}

bool WorkerPool::exiting() {
  return g_exiting.load(std::memory_order_relaxed);
}

void WorkerPool::beginExit() {
  g_exiting.store(true);
}

void WorkerPool::schedule(Stream& stream) {
  std::unique_lock lock(mutex_);
  Queue& queue = ready_[stream.priority() - kGreatestPriority];
  stream.next_ready = nullptr;
  (queue.first != nullptr ? queue.last->next_ready : queue.first) = &stream;
  queue.last = &stream;
  ready_count_.store(ready_count_ + 1);
  updateMostUrgent();
  const bool awake = ready_count_ <= resting_ - sleeping_;
  if (awake) {
    left_alone_.store(true);
  }
  // Each stream needs its own thread, because its work may block the thread until another stream has done something.
  std::condition_variable* const wake = !awake ? &sleep_ : (g_waiters.load() != 0 ? &nap_ : nullptr);
  const bool short_of_threads = ready_count_ > resting_ && threads_ < limit() && !exiting();
  if (short_of_threads && !startWorker() && threads_ == 0) {
    // The system starts no thread at all, so the work runs here.
    work(lock);
    return;
  }
  lock.unlock();
  if (wake != nullptr) {
    wake->notify_one();
  }
}

bool WorkerPool::startWorker() {
  char name[16];
  std::snprintf(name, sizeof(name), "device%d-%d", device_, threads_);
  // Counted before it runs: it cannot run before the lock is released.
  ++threads_;
  if (platform::startThread(runThread, this, name)) {
    return true;
  }
  --threads_;
  return false;
}

void WorkerPool::runThread(void* argument) {
  auto& pool = *static_cast<WorkerPool*>(argument);
  std::unique_lock lock(pool.mutex_);
  while (!exiting()) {
    pool.work(lock);
    pool.rest(lock);
  }
  --pool.threads_;
  pool.rested_.notify_all();
}

void WorkerPool::rest(std::unique_lock<std::mutex>& lock) {
  static const bool spin = platform::hardwareThreads() > 1;
  const auto mayGoOn = [this] { return ready_count_.load(std::memory_order_relaxed) > 0 || exiting(); };
  ++resting_;
  rested_.notify_all();
  const auto start = Clock::now();
  auto time = start;
  lock.unlock();
  while (spin && !mayGoOn() && time - start < kSpin) {
    std::this_thread::yield();  // a thread that waits for the completed work may need this core
    time = Clock::now();
  }
  lock.lock();
  while (!mayGoOn() && time - start < kAwake) {
    const auto nap = std::clamp<Clock::duration>((time - start) / 4, kShortestNap, kLongestNap);
    nap_.wait_for(lock, nap);
    time = Clock::now();
  }
  ++sleeping_;
  sleep_.wait(lock, mayGoOn);
  --sleeping_;
  --resting_;
}

void WorkerPool::wake() {
  // With the lock, so that no worker is between its check of the queue and its sleep.
  {
    const std::lock_guard lock(mutex_);
    if (!left_alone_.exchange(false)) {
      return;
    }
  }
  nap_.notify_all();
}

WorkerPool::Waiter::Waiter() {
  g_waiters.fetch_add(1);
  Runtime::get()->hurry();
}

WorkerPool::Waiter::~Waiter() {
  g_waiters.fetch_sub(1);
}

void WorkerPool::work(std::unique_lock<std::mutex>& lock) {
  while (ready_count_ > 0 && !exiting()) {
    Stream* const stream = take();
    lock.unlock();
    stream->advance(true);
    lock.lock();
  }
}

Stream* WorkerPool::take() {
  for (Queue& queue : ready_) {
    if (queue.first != nullptr) {
      Stream* const stream = queue.first;
      queue.first = stream->next_ready;
      ready_count_.store(ready_count_ - 1);
      if (ready_count_ == 0) {
        left_alone_.store(false);
      }
      updateMostUrgent();
      return stream;
    }
  }
  return nullptr;
}

void WorkerPool::updateMostUrgent() {
  int priority = kGreatestPriority;
  for (const Queue& queue : ready_) {
    if (queue.first != nullptr) {
      break;
    }
    ++priority;
  }
  most_urgent_.store(priority, std::memory_order_relaxed);
}

void WorkerPool::awaitExit(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  nap_.notify_all();
  sleep_.notify_all();
  rested_.wait_until(lock, deadline, [this] { return threads_ == resting_; });
}

}  // namespace emulator
