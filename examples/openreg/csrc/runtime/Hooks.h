#pragma once

#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "runtime/Functions.h"

namespace openreg {

// The functions that ATen calls outside of dispatch and guards: availability, generators, pinned memory, storage.
struct BACKEND_API Hooks final : public at::PrivateUse1HooksInterface {
  void init() const override;
  bool isBuilt() const override;
  bool isAvailable() const override;
  bool hasPrimaryContext(c10::DeviceIndex index) const override;

  c10::DeviceIndex deviceCount() const override;
  void setCurrentDevice(c10::DeviceIndex index) const override;
  c10::DeviceIndex getCurrentDevice() const override;
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override;
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override;

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override;
  at::Generator getNewGenerator(c10::DeviceIndex index) const override;

  at::Device getDeviceFromPtr(void* data) const override;
  bool isPinnedPtr(const void* data) const override;
  at::Allocator* getPinnedMemoryAllocator() const override;
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override;
};

}  // namespace openreg
