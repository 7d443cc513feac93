#include "runtime/Hooks.h"

#include "device/Memory.h"
#include "runtime/Generator.h"
#include "runtime/memory/HostAllocator.h"
#include "runtime/memory/Storage.h"

namespace openreg {

void Hooks::init() const {
  ensureInitialized();
}

bool Hooks::isBuilt() const {
  return true;
}

bool Hooks::isAvailable() const {
  return ::openreg::deviceCount() > 0;
}

bool Hooks::hasPrimaryContext(c10::DeviceIndex index) const {
  checkDeviceIndex(index);
  return isInitialized();  // all devices share one context, which the first use creates
}

c10::DeviceIndex Hooks::deviceCount() const {
  return ::openreg::deviceCount();
}

void Hooks::setCurrentDevice(c10::DeviceIndex index) const {
  setDevice(index);
}

c10::DeviceIndex Hooks::getCurrentDevice() const {
  return currentDevice();
}

c10::DeviceIndex Hooks::exchangeDevice(c10::DeviceIndex index) const {
  return ::openreg::exchangeDevice(index);
}

c10::DeviceIndex Hooks::maybeExchangeDevice(c10::DeviceIndex index) const {
  return ::openreg::maybeExchangeDevice(index);
}

const at::Generator& Hooks::getDefaultGenerator(c10::DeviceIndex index) const {
  return defaultGenerator(index);
}

at::Generator Hooks::getNewGenerator(c10::DeviceIndex index) const {
  return createGenerator(index);
}

at::Device Hooks::getDeviceFromPtr(void* data) const {
  const auto info = device::pointerInfo(data);
  TORCH_CHECK(
      info.type == device::MemoryType::Device, "the pointer ", data, " is not memory of a ", c10::get_privateuse1_backend(), " device");
  return {kDeviceType, static_cast<c10::DeviceIndex>(info.device)};
}

bool Hooks::isPinnedPtr(const void* data) const {
  return isPinned(data);
}

at::Allocator* Hooks::getPinnedMemoryAllocator() const {
  return &hostAllocator();
}

void Hooks::resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const {
  resizeStorage(storage.unsafeGetStorageImpl(), nbytes);
}

namespace {

const bool hooks_registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace

}  // namespace openreg
