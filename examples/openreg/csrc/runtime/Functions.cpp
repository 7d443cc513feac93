#include "runtime/Functions.h"

#include <c10/util/Exception.h>

#if !defined(_WIN32)
#include <pthread.h>
#endif

#include <atomic>

#include "device/Capabilities.h"
#include "device/Device.h"
#include "device/Error.h"

namespace openreg {
namespace {

std::atomic<bool> initialized{false};
std::atomic<bool> bad_fork{false};

// A forked child cannot use the device, because queues and worker threads exist only in the parent.
void markBadFork() {
  initialized = false;
  bad_fork = true;
}

}  // namespace

c10::DeviceIndex deviceCount() noexcept {
  static const auto count = static_cast<c10::DeviceIndex>(device::count());
  return count;
}

void checkDeviceIndex(int64_t index) {
  if (index < 0 || index >= deviceCount()) [[unlikely]] {
    throwNoSuchDevice(std::to_string(index));
  }
}

void throwNoSuchDevice(const std::string& index) {
  const auto name = c10::get_privateuse1_backend();
  const int last = deviceCount() - 1;
  auto available = c10::str("the ", name, " devices have the indices 0 to ", last);
  if (last <= 0) {
    available = last < 0 ? c10::str("there is no ", name, " device") : c10::str("the only ", name, " device has the index 0");
  }
  throw c10::AcceleratorError(
      {__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, device::noSuchDeviceCode(),
      c10::str("device index ", index, " is out of range: ", available));
}

c10::DeviceIndex currentDevice() {
  return static_cast<c10::DeviceIndex>(device::current());
}

void setDevice(c10::DeviceIndex index) {
  checkDeviceIndex(index);
  ensureInitialized();
  device::setCurrent(index);
}

c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) {
  const auto previous = currentDevice();
  if (index != previous) {
    setDevice(index);
  }
  return previous;
}

c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) {
  return index < 0 ? currentDevice() : exchangeDevice(index);
}

c10::DeviceIndex resolveDevice(c10::DeviceIndex index) {
  if (index == -1) {
    return currentDevice();
  }
  checkDeviceIndex(index);
  return index;
}

void synchronizeDevice(c10::DeviceIndex index) {
  checkDeviceIndex(index);
  ensureInitialized();
  device::synchronize(index);
}

bool canAccessPeer(c10::DeviceIndex index, c10::DeviceIndex peer) {
  checkDeviceIndex(index);
  checkDeviceIndex(peer);
  return index != peer && device::hasCapability("peer_access") && device::canAccessPeer(index, peer);
}

bool isInitialized() noexcept {
  return initialized.load(std::memory_order_relaxed);
}

void ensureInitialized() {
  if (isInitialized()) [[likely]] {
    return;
  }
  TORCH_CHECK(
      !inBadFork(), "Cannot re-initialize ", c10::get_privateuse1_backend(), " in a forked subprocess. To use ",
      c10::get_privateuse1_backend(), " with multiprocessing, you must use the 'spawn' start method");
  device::initialize();
  TORCH_CHECK(deviceCount() > 0, "No ", c10::get_privateuse1_backend(), " device is available on this machine");
#if !defined(_WIN32)
  static const int registered = pthread_atfork(nullptr, nullptr, &markBadFork);
  TORCH_INTERNAL_ASSERT(registered == 0);
#endif
  initialized = true;
}

bool inBadFork() {
  return bad_fork.load(std::memory_order_relaxed);
}

}  // namespace openreg
