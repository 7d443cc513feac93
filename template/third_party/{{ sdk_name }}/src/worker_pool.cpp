#include "worker_pool.h"

#include <algorithm>
#include <cstdio>

#include "platform/platform.h"
#include "stream.h"

namespace emulator {
namespace {

std::atomic<bool> g_exiting{false};

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
  ++ready_count_;
  updateMostUrgent();
  const bool wake = resting_ > 0;
  const bool short_of_threads = ready_count_ > resting_ && threads_ < limit() && !exiting();
  if (short_of_threads && !startWorker() && threads_ == 0) {
    // The system gives us no thread at all: better here than never.
    work(lock);
    return;
  }
  lock.unlock();
  if (wake) {
    wake_.notify_one();
  }
}

bool WorkerPool::startWorker() {
  char name[16];
  std::snprintf(name, sizeof(name), "device%d-%d", device_, threads_);
  // Counted before it runs, which it cannot before the lock is released.
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
    ++pool.resting_;
    pool.rested_.notify_all();
    pool.wake_.wait(lock, [&pool] { return pool.ready_count_ > 0 || exiting(); });
    --pool.resting_;
  }
  --pool.threads_;
  pool.rested_.notify_all();
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
      --ready_count_;
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
  wake_.notify_all();
  rested_.wait_until(lock, deadline, [this] { return threads_ == resting_; });
}

}  // namespace emulator
