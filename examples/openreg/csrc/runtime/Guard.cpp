#include "runtime/Guard.h"

#include "device/Device.h"
#include "device/Error.h"
#include "device/Event.h"
#include "runtime/Event.h"
#include "runtime/Stream.h"
#include "runtime/memory/CachingAllocator.h"

namespace openreg {

GuardImpl::GuardImpl(c10::DeviceType type) {
  TORCH_INTERNAL_ASSERT(type == kDeviceType);
}

c10::DeviceType GuardImpl::type() const {
  return kDeviceType;
}

c10::Device GuardImpl::exchangeDevice(c10::Device device) const {
  TORCH_INTERNAL_ASSERT(device.type() == kDeviceType);
  return {kDeviceType, maybeExchangeDevice(device.index())};
}

c10::Device GuardImpl::getDevice() const {
  return {kDeviceType, currentDevice()};
}

void GuardImpl::setDevice(c10::Device device) const {
  TORCH_INTERNAL_ASSERT(device.type() == kDeviceType);
  maybeExchangeDevice(device.index());
}

void GuardImpl::uncheckedSetDevice(c10::Device device) const noexcept {
  if (device.index() >= 0) {  // -1 means the current device
    device::uncheckedSetCurrent(device.index());
  }
}

c10::DeviceIndex GuardImpl::deviceCount() const noexcept {
  return ::openreg::deviceCount();
}

c10::DeviceCapability GuardImpl::getDeviceCapability(c10::Device device) const {
  const int index = resolveDevice(device.index());
  c10::DeviceCapability capability;
#define CHECK_DTYPE(_, name) \
  capability.capability_data.supported_scalar_types.has_##name = device::supportsDtype(index, c10::ScalarType::name);
  AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(CHECK_DTYPE)
#undef CHECK_DTYPE
  return capability;
}

void GuardImpl::synchronizeDevice(c10::DeviceIndex index) const {
  ::openreg::synchronizeDevice(resolveDevice(index));
}

c10::Stream GuardImpl::getStream(c10::Device device) const {
  return currentStream(device.index());
}

c10::Stream GuardImpl::getDefaultStream(c10::Device device) const {
  return defaultStream(device.index());
}

c10::Stream GuardImpl::getStreamFromGlobalPool(c10::Device device, bool is_high_priority) const {
  return streamFromPool(is_high_priority ? -1 : 0, device.index());
}

c10::Stream GuardImpl::getNewStream(c10::Device device, int priority) const {
  return streamFromPool(priority, device.index());
}

c10::Stream GuardImpl::exchangeStream(c10::Stream stream) const {
  const auto previous = currentStream(stream.device_index());
  setCurrentStream(Stream(stream));
  return previous;
}

void* GuardImpl::getStreamNativeHandle(c10::Stream stream) const {
  return Stream(stream).handle();
}

bool GuardImpl::queryStream(const c10::Stream& stream) const {
  return Stream(stream).query();
}

void GuardImpl::synchronizeStream(const c10::Stream& stream) const {
  Stream(stream).synchronize();
}

bool GuardImpl::isStreamCapturing(const c10::Stream& stream) const {
  return Stream(stream).isCapturing();
}

void GuardImpl::record(void** event, const c10::Stream& stream, c10::DeviceIndex index, c10::EventFlag flag) const {
  TORCH_CHECK(
      index == -1 || index == stream.device_index(), "an event of device ", static_cast<int>(index),
      " cannot be recorded on a stream of device ", static_cast<int>(stream.device_index()));
  if (*event == nullptr) {
    if (auto* offered = takeOfferedEvent()) {
      *event = offered;
      return;
    }
    *event = createEventOn(stream.device_index(), /*timing=*/flag == c10::EventFlag::BACKEND_DEFAULT);
  }
  device::recordEvent(*event, Stream(stream).handle());
}

void GuardImpl::block(void* event, const c10::Stream& stream) const {
  if (event != nullptr) {
    device::waitEvent(Stream(stream).handle(), event);
  }
}

bool GuardImpl::queryEvent(void* event) const {
  return event == nullptr || device::queryEvent(event);
}

void GuardImpl::synchronizeEvent(void* event) const {
  if (event != nullptr) {
    device::synchronizeEvent(event);
  }
}

double GuardImpl::elapsedTime(void* start, void* end, c10::DeviceIndex /*index*/) const {
  TORCH_CHECK(start != nullptr && end != nullptr, "record both events before you call elapsed_time");
  return device::elapsedTime(start, end);
}

void GuardImpl::destroyEvent(void* event, c10::DeviceIndex /*index*/) const noexcept {
  if (event != nullptr) {
    ::openreg::destroyEvent(event);
  }
}

void GuardImpl::recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const {
  cachingAllocator().recordStream(data, stream);
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl);

}  // namespace openreg
