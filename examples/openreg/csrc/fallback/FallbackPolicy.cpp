#include "fallback/FallbackPolicy.h"

#include <c10/core/DeviceType.h>
#include <c10/util/Exception.h>

#include "device/Address.h"
#include "fallback/FallbackState.h"

namespace openreg::fallback {

void checkFallbackPolicy(FallbackPolicy policy) {
  TORCH_CHECK_VALUE(
      policy != FallbackPolicy::Emulate || device::hasKernelAddresses(),
      "the fallback policy `emulate` runs PyTorch's CPU kernels in place on device memory, which the host cannot reach on device ",
      c10::get_privateuse1_backend(), "; choose `cpu`, which copies operands to the host and results back, or `error`");
}

void readFallbackEnvironment() {
  FallbackState::instance().readEnvironment();
}

FallbackPolicy fallbackPolicy() {
  return FallbackState::instance().policy();
}

void setFallbackPolicy(FallbackPolicy policy) {
  checkFallbackPolicy(policy);
  FallbackState::instance().setPolicy(policy);
}

bool fallbackWarn() {
  return FallbackState::instance().warn();
}

void setFallbackWarn(bool warn) {
  FallbackState::instance().setWarn(warn);
}

void setOperatorPolicy(const std::string& name, std::optional<FallbackPolicy> policy) {
  checkFallbackPolicy(policy.value_or(FallbackPolicy::Cpu));
  FallbackState::instance().setOperatorPolicy(name, policy);
}

std::vector<std::pair<std::string, FallbackPolicy>> operatorPolicies() {
  return FallbackState::instance().operatorPolicies();
}

std::vector<std::pair<std::string, int64_t>> fallbackCounts() {
  std::vector<std::pair<std::string, int64_t>> counts;
  for (auto& usage : fallbackUsage()) {
    counts.emplace_back(std::move(usage.name), usage.calls);
  }
  return counts;
}

std::vector<FallbackUsage> fallbackUsage() {
  return FallbackState::instance().usage();
}

void resetFallbackCounts() {
  FallbackState::instance().reset();
}

}  // namespace openreg::fallback
