#include "basalt.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMemory = size_t{16} << 30;

// Worker threads exist in the process alone that made them: the first one that uses more than the current device.
bool inForkedChild() {
  static const pid_t owner = getpid();
  return getpid() != owner;
}

int deviceCount() {
  static const int count = [] {
    const char* text = std::getenv("BASALT_DEVICES");
    return text == nullptr ? 2 : std::atoi(text);
  }();
  return count;
}

thread_local int current_device = 0;

struct Allocation {
  bsMemoryKind kind;
  int device;
  size_t bytes;
  int unlocked = 0;
};

struct Memory {
  std::mutex mutex;
  std::map<char*, Allocation> allocations;  // by their first byte
  std::map<int, size_t> used;  // bytes of each device

  // The allocation that holds the address, or the end. With the mutex held.
  std::map<char*, Allocation>::iterator find(const void* address) {
    auto* byte = static_cast<char*>(const_cast<void*>(address));
    auto next = allocations.upper_bound(byte);
    if (next == allocations.begin()) {
      return allocations.end();
    }
    --next;
    return byte < next->first + next->second.bytes ? next : allocations.end();
  }

  bool unlock(const void* address, int by) {
    const std::lock_guard<std::mutex> guard(mutex);
    const auto found = find(address);
    if (found == allocations.end() || found->second.kind != bsMemoryDevice || found->second.unlocked + by < 0) {
      return false;
    }
    found->second.unlocked += by;
    return mprotect(found->first, found->second.bytes, found->second.unlocked > 0 ? PROT_READ | PROT_WRITE : PROT_NONE) == 0;
  }

  static Memory& instance() {
    static auto& memory = *new Memory;
    return memory;
  }
};

size_t wholePages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

bsStatus allocate(void** memory, size_t bytes, bsMemoryKind kind) {
  if (memory == nullptr || bytes == 0 || inForkedChild()) {
    return bsErrorInvalid;
  }
  auto& all = Memory::instance();
  const std::lock_guard<std::mutex> guard(all.mutex);
  const size_t size = wholePages(bytes);
  auto& used = all.used[current_device];
  if (kind == bsMemoryDevice && (size > kMemory || used > kMemory - size)) {
    return bsErrorMemory;
  }
  const int access = kind == bsMemoryDevice ? PROT_NONE : PROT_READ | PROT_WRITE;
  void* start = mmap(nullptr, size, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) {
    return bsErrorMemory;
  }
  used += kind == bsMemoryDevice ? size : 0;
  all.allocations[static_cast<char*>(start)] = {kind, current_device, size};
  *memory = start;
  return bsSuccess;
}

bsStatus release(void* memory, bsMemoryKind kind) {
  auto& all = Memory::instance();
  const std::lock_guard<std::mutex> guard(all.mutex);
  const auto found = all.allocations.find(static_cast<char*>(memory));
  if (found == all.allocations.end() || found->second.kind != kind) {
    return bsErrorInvalid;
  }
  if (kind == bsMemoryDevice) {
    all.used[found->second.device] -= found->second.bytes;
  }
  munmap(memory, found->second.bytes);
  all.allocations.erase(found);
  return bsSuccess;
}

}  // namespace

struct bsStream {
  const int device = current_device;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool running = false;
  bool ending = false;
  std::thread worker{[this] { work(); }};

  void add(std::function<void()> task) {
    {
      const std::lock_guard<std::mutex> guard(mutex);
      tasks.push_back(std::move(task));
    }
    changed.notify_all();
  }

  void finish() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return tasks.empty() && !running; });
  }

  void work() {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ending || !tasks.empty(); });
      if (tasks.empty()) {
        return;
      }
      const auto task = std::move(tasks.front());
      tasks.pop_front();
      running = true;
      lock.unlock();
      task();
      lock.lock();
      running = false;
      changed.notify_all();
    }
  }
};

struct bsEvent {
  // Shared with the tasks that speak of the event, which may outlive it.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    long records = 0;  // that were asked for
    long reached = 0;  // of them
    Clock::time_point time;
  };
  const std::shared_ptr<State> state = std::make_shared<State>();
};

namespace {

// Never destroyed: threads of the program may use streams until the process ends.
struct Streams {
  std::mutex mutex;
  std::set<bsStream_t> all;
  static Streams& instance() {
    static auto& streams = *new Streams;
    return streams;
  }
};

void waitFor(bsEvent::State& state) {
  std::unique_lock<std::mutex> lock(state.mutex);
  state.changed.wait(lock, [&] { return state.reached == state.records; });
}

}  // namespace

bsStatus bsGetDeviceCount(int* count) {
  *count = deviceCount();
  return bsSuccess;
}

bsStatus bsGetDevice(int* device) {
  *device = current_device;
  return bsSuccess;
}

bsStatus bsSetDevice(int device) {
  if (device < 0 || device >= deviceCount()) {
    return bsErrorInvalid;
  }
  current_device = device;
  return bsSuccess;
}

bsStatus bsDeviceSynchronize() {
  auto& streams = Streams::instance();
  std::set<bsStream_t> all;
  {
    const std::lock_guard<std::mutex> guard(streams.mutex);
    all = streams.all;
  }
  for (auto* stream : all) {
    if (stream->device == current_device) {
      stream->finish();
    }
  }
  return bsSuccess;
}

bsStatus bsMalloc(void** memory, size_t bytes) {
  return allocate(memory, bytes, bsMemoryDevice);
}

bsStatus bsFree(void* memory) {
  return release(memory, bsMemoryDevice);
}

bsStatus bsUnlock(void* memory) {
  return Memory::instance().unlock(memory, 1) ? bsSuccess : bsErrorInvalid;
}

bsStatus bsLock(void* memory) {
  return Memory::instance().unlock(memory, -1) ? bsSuccess : bsErrorInvalid;
}

bsStatus bsMallocHost(void** memory, size_t bytes) {
  return allocate(memory, bytes, bsMemoryHost);
}

bsStatus bsFreeHost(void* memory) {
  return release(memory, bsMemoryHost);
}

bsStatus bsGetPointerInfo(const void* pointer, bsPointerInfo* info) {
  auto& all = Memory::instance();
  const std::lock_guard<std::mutex> guard(all.mutex);
  const auto found = all.find(pointer);
  const bool known = found != all.allocations.end();
  *info = known ? bsPointerInfo{found->second.kind, found->second.device, found->first} : bsPointerInfo{bsMemoryUnknown, -1, nullptr};
  return bsSuccess;
}

bsStatus bsStreamCreate(bsStream_t* stream) {
  if (inForkedChild()) {
    return bsErrorInvalid;
  }
  *stream = new bsStream;
  auto& streams = Streams::instance();
  const std::lock_guard<std::mutex> guard(streams.mutex);
  streams.all.insert(*stream);
  return bsSuccess;
}

bsStatus bsStreamDestroy(bsStream_t stream) {
  if (stream == nullptr || inForkedChild()) {
    return bsErrorInvalid;
  }
  {
    auto& streams = Streams::instance();
    const std::lock_guard<std::mutex> guard(streams.mutex);
    streams.all.erase(stream);
  }
  {
    const std::lock_guard<std::mutex> guard(stream->mutex);
    stream->ending = true;
  }
  stream->changed.notify_all();
  stream->worker.join();
  delete stream;
  return bsSuccess;
}

bsStatus bsStreamQuery(bsStream_t stream) {
  if (stream == nullptr || inForkedChild()) {
    return bsErrorInvalid;
  }
  const std::lock_guard<std::mutex> guard(stream->mutex);
  return stream->tasks.empty() ? bsSuccess : bsErrorNotReady;
}

bsStatus bsStreamSynchronize(bsStream_t stream) {
  if (stream == nullptr || inForkedChild()) {
    return bsErrorInvalid;
  }
  stream->finish();
  return bsSuccess;
}

bsStatus bsMemcpyAsync(void* to, const void* from, size_t bytes, bsStream_t stream) {
  if (stream == nullptr || bytes == 0 || to == nullptr || from == nullptr || inForkedChild()) {
    return bsErrorInvalid;
  }
  stream->add([=] {
    auto& memory = Memory::instance();
    const bool unlocked_to = memory.unlock(to, 1);
    const bool unlocked_from = memory.unlock(from, 1);
    std::memmove(to, from, bytes);
    if (unlocked_from) {
      memory.unlock(from, -1);
    }
    if (unlocked_to) {
      memory.unlock(to, -1);
    }
  });
  return bsSuccess;
}

bsStatus bsEnqueue(bsStream_t stream, void (*function)(void*), void* argument) {
  if (stream == nullptr || inForkedChild() || function == nullptr) {
    return bsErrorInvalid;
  }
  stream->add([=] { function(argument); });
  return bsSuccess;
}

bsStatus bsEventCreate(bsEvent_t* event) {
  if (inForkedChild()) {
    return bsErrorInvalid;
  }
  *event = new bsEvent;
  return bsSuccess;
}

bsStatus bsEventDestroy(bsEvent_t event) {
  if (event == nullptr || inForkedChild()) {
    return bsErrorInvalid;
  }
  delete event;
  return bsSuccess;
}

bsStatus bsEventRecord(bsEvent_t event, bsStream_t stream) {
  if (event == nullptr || stream == nullptr) {
    return bsErrorInvalid;
  }
  long number = 0;
  {
    const std::lock_guard<std::mutex> guard(event->state->mutex);
    number = ++event->state->records;
  }
  stream->add([state = event->state, number] {
    {
      const std::lock_guard<std::mutex> guard(state->mutex);
      state->reached = std::max(state->reached, number);  // streams reach records in any order
      state->time = Clock::now();
    }
    state->changed.notify_all();
  });
  return bsSuccess;
}

bsStatus bsStreamWaitEvent(bsStream_t stream, bsEvent_t event) {
  if (event == nullptr || stream == nullptr) {
    return bsErrorInvalid;
  }
  stream->add([state = event->state] { waitFor(*state); });
  return bsSuccess;
}

bsStatus bsEventQuery(bsEvent_t event) {
  if (event == nullptr || inForkedChild()) {
    return bsErrorInvalid;
  }
  const std::lock_guard<std::mutex> guard(event->state->mutex);
  return event->state->reached == event->state->records ? bsSuccess : bsErrorNotReady;
}

bsStatus bsEventSynchronize(bsEvent_t event) {
  if (event == nullptr || inForkedChild()) {
    return bsErrorInvalid;
  }
  waitFor(*event->state);
  return bsSuccess;
}

bsStatus bsEventElapsed(bsEvent_t begin, bsEvent_t end, float* milliseconds) {
  if (begin == nullptr || end == nullptr || bsEventQuery(begin) != bsSuccess || bsEventQuery(end) != bsSuccess) {
    return bsErrorNotReady;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->state->time - begin->state->time).count();
  return bsSuccess;
}
