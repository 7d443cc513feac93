// What several tests need.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>

#include <openreg/openreg.h>

#define EXPECT_OK(call) EXPECT_EQ(orSuccess, (call)) << orGetLastErrorMessage()
#define ASSERT_OK(call) ASSERT_EQ(orSuccess, (call)) << orGetLastErrorMessage()

inline std::string launchMode() {
  const char* mode = std::getenv("OPENREG_LAUNCH");
  return mode != nullptr ? mode : "inline";
}

// Where every submission has completed at once, nothing can be observed while it is pending.
#define SKIP_IF_BLOCKING() \
  if (launchMode() == "blocking") { \
    GTEST_SKIP() << "no work is ever pending in this launch mode"; \
  }

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Holds up a stream until it is opened.
class Gate {
 public:
  ~Gate() {
    open();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return pending_ == 0; });
  }

  void block(orStream_t stream) {
    {
      const std::lock_guard lock(mutex_);
      ++pending_;
    }
    ASSERT_OK(orLaunchHostFunc(&Gate::wait, this, stream));
  }

  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

  void awaitArrival() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return arrived_; });
  }

 private:
  static void wait(void* self) {
    auto& gate = *static_cast<Gate*>(self);
    std::unique_lock lock(gate.mutex_);
    gate.arrived_ = true;
    gate.changed_.notify_all();
    gate.changed_.wait(lock, [&gate] { return gate.open_; });
    --gate.pending_;
    gate.changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  bool arrived_ = false;
  int pending_ = 0;
};

// Handles that end with the scope.
struct StreamGuard {
  orStream_t handle = nullptr;
  explicit StreamGuard(int priority = 0) { EXPECT_OK(orStreamCreateWithPriority(&handle, 0, priority)); }
  ~StreamGuard() { EXPECT_OK(orStreamDestroy(handle)); }
  StreamGuard(const StreamGuard&) = delete;
  operator orStream_t() const { return handle; }
};

struct EventGuard {
  orEvent_t handle = nullptr;
  explicit EventGuard(unsigned flags = orEventDefault) { EXPECT_OK(orEventCreateWithFlags(&handle, flags)); }
  ~EventGuard() { EXPECT_OK(orEventDestroy(handle)); }
  EventGuard(const EventGuard&) = delete;
  operator orEvent_t() const { return handle; }
};

struct DeviceMemory {
  void* pointer = nullptr;
  explicit DeviceMemory(std::size_t size) { EXPECT_OK(orMalloc(&pointer, size)); }
  ~DeviceMemory() { EXPECT_OK(orFree(pointer)); }
  DeviceMemory(const DeviceMemory&) = delete;
};

struct DeviceGuard {
  int previous = 0;
  explicit DeviceGuard(int device) {
    EXPECT_OK(orGetDevice(&previous));
    EXPECT_OK(orSetDevice(device));
  }
  ~DeviceGuard() { EXPECT_OK(orSetDevice(previous)); }
  DeviceGuard(const DeviceGuard&) = delete;
};

template <class T>
T* kernelAddress(T* device_address) {
  std::ptrdiff_t offset = 0;
  EXPECT_OK(orGetKernelAddressOffset(&offset));
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(device_address) + static_cast<std::uintptr_t>(offset));
}
