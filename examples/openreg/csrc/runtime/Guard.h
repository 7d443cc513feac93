#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/InlineDeviceGuard.h>

#include "runtime/Functions.h"

namespace openreg {

// The functions that c10::DeviceGuard, c10::StreamGuard, c10::Event and torch.accelerator call for this device. An event is
// the SDK's event handle. It is created at its first record, on the device of that stream.
struct BACKEND_API GuardImpl final : public c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = kDeviceType;

  GuardImpl() = default;
  // InlineDeviceGuard passes its device type.
  explicit GuardImpl(c10::DeviceType type);

  c10::DeviceType type() const override;

  c10::Device exchangeDevice(c10::Device device) const override;
  c10::Device getDevice() const override;
  void setDevice(c10::Device device) const override;
  void uncheckedSetDevice(c10::Device device) const noexcept override;
  c10::DeviceIndex deviceCount() const noexcept override;
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override;
  void synchronizeDevice(c10::DeviceIndex index) const override;

  c10::Stream getStream(c10::Device device) const override;
  c10::Stream getDefaultStream(c10::Device device) const override;
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool is_high_priority) const override;
  c10::Stream getNewStream(c10::Device device, int priority) const override;
  c10::Stream exchangeStream(c10::Stream stream) const override;
  void* getStreamNativeHandle(c10::Stream stream) const override;
  bool queryStream(const c10::Stream& stream) const override;
  void synchronizeStream(const c10::Stream& stream) const override;
  bool isStreamCapturing(const c10::Stream& stream) const override;

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex index, c10::EventFlag flag) const override;
  void block(void* event, const c10::Stream& stream) const override;
  bool queryEvent(void* event) const override;
  void synchronizeEvent(void* event) const override;
  double elapsedTime(void* start, void* end, c10::DeviceIndex index) const override;
  void destroyEvent(void* event, c10::DeviceIndex index) const noexcept override;

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override;
};

// Selects a device for a scope, without virtual calls.
using DeviceGuard = c10::impl::InlineDeviceGuard<GuardImpl>;

}  // namespace openreg
