#include "runtime/Generator.h"

#include <mutex>
#include <vector>

namespace openreg {

GeneratorImpl::GeneratorImpl(c10::DeviceIndex index, uint64_t seed)
    : c10::GeneratorImpl(c10::Device(kDeviceType, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      engine_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

void GeneratorImpl::set_current_seed(uint64_t seed) {
  const std::lock_guard<std::mutex> guard(engine_.mutex());
  engine_.set_current_seed(seed);
}

uint64_t GeneratorImpl::current_seed() const {
  return engine_.current_seed();
}

uint64_t GeneratorImpl::seed() {
  const std::lock_guard<std::mutex> guard(engine_.mutex());
  return engine_.seed();
}

void GeneratorImpl::set_offset(uint64_t /*offset*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "the generator of this device has no offset; save and restore its whole state with get_state and set_state");
}

uint64_t GeneratorImpl::get_offset() const {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "the generator of this device has no offset; save and restore its whole state with get_state and set_state");
}

void GeneratorImpl::set_state(const c10::TensorImpl& state) {
  const std::lock_guard<std::mutex> guard(engine_.mutex());
  engine_.unsafeGetGeneratorImpl()->set_state(state);
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  auto* engine = engine_.unsafeGetGeneratorImpl();
  const std::lock_guard<std::mutex> guard(engine->mutex_);
  return engine->get_state();
}

GeneratorImpl* GeneratorImpl::clone_impl() const {
  auto* copy = new GeneratorImpl(device().index(), current_seed());
  copy->engine_ = engine_.clone();
  return copy;
}

at::Generator createGenerator(c10::DeviceIndex index) {
  return at::make_generator<GeneratorImpl>(resolveDevice(index), c10::detail::getNonDeterministicRandom());
}

const at::Generator& defaultGenerator(c10::DeviceIndex index) {
  index = resolveDevice(index);
  static const auto& generators = *new std::vector<at::Generator>([] {
    std::vector<at::Generator> all;
    for (c10::DeviceIndex i = 0; i < deviceCount(); ++i) {
      all.push_back(at::make_generator<GeneratorImpl>(i, c10::detail::getNonDeterministicRandom()));
    }
    return all;
  }());
  return generators[index];
}

}  // namespace openreg
