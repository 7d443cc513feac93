#include "ipc_event.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace emulator {
namespace {

// The process of a recording, and half of the recording's number, by which an older recording is recognized.
constexpr std::uint64_t authorOf(std::uint64_t number, std::uint32_t process) {
  return (number << 32) | process;
}

// The thread that polls the recordings of other processes, because these cannot call this one. It sleeps a little longer each time
// that it finds no change, and stops polling while no recording is pending.
class Watch {
 public:
  static Watch& instance() {
    static auto& watch = *new Watch;
    return watch;
  }

  // Returns false if the system refuses to start the thread.
  bool add(std::shared_ptr<SharedEvent> event, std::uint64_t number, CompletionPtr completion) {
    const std::lock_guard lock(mutex_);
    if (!started_) {
      started_ = platform::startThread([](void*) { instance().run(); }, nullptr, "event-watch");
    }
    if (started_) {
      entries_.push_back({std::move(event), number, std::move(completion)});
      wake_.notify_all();
    }
    return started_;
  }

 private:
  struct Entry {
    std::shared_ptr<SharedEvent> event;
    std::uint64_t number;
    CompletionPtr completion;
  };

  [[noreturn]] void run() {
    using namespace std::chrono;
    constexpr microseconds kShortest{20};
    constexpr microseconds kLongest{1000};
    constexpr milliseconds kBetweenLooksForTheLost{50};
    microseconds nap = kShortest;
    auto look_for_the_lost = steady_clock::now() + kBetweenLooksForTheLost;
    std::unique_lock lock(mutex_);
    while (true) {
      if (entries_.empty()) {
        wake_.wait(lock, [this] { return !entries_.empty(); });
        nap = kShortest;
      }
      const bool look = steady_clock::now() >= look_for_the_lost;
      if (look) {
        look_for_the_lost = steady_clock::now() + kBetweenLooksForTheLost;
      }
      std::vector<Entry> over;
      std::erase_if(entries_, [&](Entry& entry) {
        const bool lost = look && entry.event->isLost(entry.number);
        if (!lost && !entry.event->done(entry.number)) {
          return false;
        }
        over.push_back(std::move(entry));
        return true;
      });
      lock.unlock();
      nap = over.empty() ? std::min(nap * 3 / 2, kLongest) : kShortest;
      for (const Entry& entry : over) {
        entry.completion->complete();
      }
      over.clear();
      std::this_thread::sleep_for(nap);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool started_ = false;
  std::vector<Entry> entries_;
};

}  // namespace

SharedEvent::SharedEvent(Ipc& owner, const IpcHandle& handle, EventSlot& slot) : owner_(&owner), handle_(handle), slot_(slot) {}

SharedEvent::SharedEvent(std::shared_ptr<Peer> peer, const IpcHandle& handle, EventSlot& slot)
    : owner_(nullptr), peer_(std::move(peer)), handle_(handle), slot_(slot) {}

SharedEvent::~SharedEvent() {
  if (owner_ != nullptr) {
    owner_->takeBackEvent(handle_.slot);
  }
}

std::uint64_t SharedEvent::latest() const {
  const std::uint64_t number = slot_.recorded.load();
  return alive() ? number : 0;
}

bool SharedEvent::done(std::uint64_t number) const {
  return markOf(number).done.load() >= number || !alive();
}

bool SharedEvent::isLost(std::uint64_t number) const {
  const std::uint64_t author = markOf(number).author.load();
  const auto process = static_cast<std::uint32_t>(author);
  return !done(number) && author == authorOf(number, process) && !platform::isRunning({process, 0});
}

Status SharedEvent::begin(std::uint64_t* number) {
  std::uint64_t before = slot_.recorded.load();
  do {
    if (!alive()) {
      return fail(
          Status::InvalidHandle, "the process that made this event (%lu) has destroyed it; keep it as long as others use it",
          static_cast<unsigned long>(handle_.process));
    }
    *number = before + 1;
    if (*number > EventSlot::kMarks && !done(*number - EventSlot::kMarks) && !isLost(*number - EventSlot::kMarks)) {
      return fail(
          Status::NotSupported,
          "the last %zu recordings of this event are all pending, and other processes can tell no more apart; wait for it, or use several "
          "events",
          EventSlot::kMarks);
    }
  } while (!slot_.recorded.compare_exchange_weak(before, *number));
  markOf(*number).author.store(authorOf(*number, platform::thisProcess().number));
  return Status::Success;
}

void SharedEvent::finish(std::uint64_t number) {
  std::atomic<std::uint64_t>& done = markOf(number).done;
  std::uint64_t before = done.load();
  while (before < number && !done.compare_exchange_weak(before, number)) {
  }
}

CompletionPtr SharedEvent::watch(std::uint64_t number) {
  if (done(number)) {
    return nullptr;
  }
  auto completion = std::make_shared<Completion>(nullptr);
  if (!Watch::instance().add(shared_from_this(), number, completion)) {
    throw std::bad_alloc();
  }
  return completion;
}

}  // namespace emulator
