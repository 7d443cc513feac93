#include "runtime.h"

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>

#include "fault_report.h"
#include "launch_log.h"
#include "platform/platform.h"

namespace emulator {
namespace {

std::atomic<bool> g_set_up{false};
std::atomic<bool> g_forked{false};
bool g_refused = false;  // guarded by setUpMutex

// Never destroyed, because a thread may use it while the process exits.
std::mutex& setUpMutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

Status failSetUp() {
  return fail(
      Status::Initialization,
      "the system refuses the address space or the shared memory for the devices; lower %sDEVICE_MEMORY or %sNUM_DEVICES",
      EMULATOR_ENV_PREFIX, EMULATOR_ENV_PREFIX);
}

}  // namespace

std::atomic<Runtime*> Runtime::instance_{nullptr};

Status Runtime::checkFork() {
  if (!g_forked.load(std::memory_order_relaxed)) {
    return Status::Success;
  }
  return fail(
      Status::Forked,
      "the devices were in use before this process was forked, and cannot be used in the child; start child processes with the `spawn` "
      "method, for example multiprocessing.get_context(\"spawn\")");
}

Status Runtime::setUp(Runtime** runtime) {
  if (const Status status = checkFork(); status != Status::Success) {
    return status;
  }
  const Settings& wanted = settings();
  if (!wanted.error.empty()) {
    return fail(Status::Initialization, "%s", wanted.error.c_str());
  }
  if (wanted.device_count == 0) {
    return fail(Status::InvalidDevice, "there are no devices; set %sNUM_DEVICES to a number above 0", EMULATOR_ENV_PREFIX);
  }
  const std::lock_guard lock(setUpMutex());
  if (g_refused) {
    return failSetUp();
  }
  if (get() == nullptr) {
    if (!wanted.launch_log.empty() && openLaunchLog(wanted.launch_log.c_str()) != Status::Success) {
      return Status::Initialization;
    }
    auto created = std::make_unique<Runtime>();
    const Status status = created->create(wanted);
    if (status != Status::Success) {
      g_refused = true;
      return status;
    }
    instance_.store(created.release(), std::memory_order_release);
    g_set_up.store(true);
  }
  *runtime = get();
  return Status::Success;
}

Status Runtime::create(const Settings& wanted) {
  const std::size_t page = platform::pageSize();
  const std::size_t memory = (wanted.device_memory + page - 1) / page * page;
  mode_ = wanted.launch_mode;
  diagnosis::setDelay(wanted.delay);
  diagnosis::turn(diagnosis::kSticky, wanted.sticky_errors);
  // If a later step fails, the reserved address space stays reserved: it costs nothing, and the failure is final.
  if (!space.create(wanted.device_count, memory)) {
    return failSetUp();
  }
  for (int index = 0; index < wanted.device_count; ++index) {
    const platform::Backing backing = platform::createBacking(memory);
    const std::uintptr_t base = space.deviceBase(index);
    if (backing == platform::kNoBacking ||
        !platform::mapBacking(backing, base + static_cast<std::uintptr_t>(space.kernelOffset()), memory)) {
      return failSetUp();
    }
    devices_.push_back(
        std::make_unique<Device>(index, base, memory, space.kernelOffset(), backing, space.importBase(index), space.importSize()));
  }
  platform::onFork([] {
    if (g_set_up.load(std::memory_order_relaxed)) {
      g_forked.store(true, std::memory_order_relaxed);
      instance_.store(nullptr, std::memory_order_relaxed);
    }
  });
  std::atexit([] {
    if (Runtime* const runtime = get()) {
      WorkerPool::beginExit();
      // A kernel that never ends must not block the end of the process.
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
      for (const auto& device : runtime->devices_) {
        device->workers.awaitExit(deadline);
      }
    }
  });
  installFaultReport(*this);
  return Status::Success;
}

Device* Runtime::deviceAt(std::uintptr_t address) {
  return space.contains(address) ? &device(space.deviceOf(address)) : nullptr;
}

void Runtime::failHandle(const char* what) {
  fail(Status::InvalidHandle, "this is no live %s; it was destroyed before, or is no handle of this library", what);
}

Status Runtime::drain(ThreadState& thread) {
  for (const auto& device : devices_) {
    if (const Status status = device->drain(thread); status != Status::Success) {
      return status;
    }
  }
  return Status::Success;
}

}  // namespace emulator
