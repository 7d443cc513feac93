#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include "runtime/Functions.h"

namespace openreg {

// The random generator of one device. The emulated device uses PyTorch's Mersenne Twister, so with the same seed it produces
// the CPU's numbers. It never changes the CPU's generator.
//
// A counter-based generator (Philox) would have a seed and an offset in place of `engine`, and implement set_offset/get_offset.
struct BACKEND_API GeneratorImpl final : public c10::GeneratorImpl {
  explicit GeneratorImpl(c10::DeviceIndex index, uint64_t seed = c10::detail::getNonDeterministicRandom());

  static c10::DeviceType device_type() {
    return kDeviceType;
  }

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // The engine for a CPU kernel that runs on this device. It has its own mutex, which the kernel locks.
  const at::Generator& engine() const {
    return engine_;
  }

 private:
  GeneratorImpl* clone_impl() const override;

  at::Generator engine_;
};

// The default generator of a device (-1: the current device). Its first seed is random.
BACKEND_API const at::Generator& defaultGenerator(c10::DeviceIndex index = -1);

BACKEND_API at::Generator createGenerator(c10::DeviceIndex index = -1);

}  // namespace openreg
