#include "fallback/FallbackState.h"

#include <c10/util/Exception.h>
#include <c10/util/env.h>

#include <algorithm>

#include "device/Address.h"

namespace openreg::fallback {
namespace {

constexpr const char* kVariable = "TORCH_OPENREG_FALLBACK";

}  // namespace

FallbackState::FallbackState() : policy_(device::hasKernelAddresses() ? FallbackPolicy::Emulate : FallbackPolicy::Cpu) {}

FallbackState& FallbackState::instance() {
  static auto& state = *new FallbackState;
  return state;
}

void FallbackState::add(OperatorCounter* counter) {
  const std::lock_guard<std::mutex> guard(mutex_);
  counters_.emplace(counter->name(), counter);
  refresh(*counter);
}

OperatorCounter& FallbackState::find(const std::string& name) {
  const std::lock_guard<std::mutex> guard(mutex_);
  auto& counter = counters_[name];
  if (counter == nullptr) {
    counter = new OperatorCounter(name);
    refresh(*counter);
  }
  return *counter;
}

void FallbackState::readEnvironment() {
  std::string setting;
  if (auto value = c10::utils::get_env(kVariable)) {
    setting = *std::move(value);
  }
  if (const auto comma = setting.find(','); comma != std::string::npos) {
    TORCH_CHECK_VALUE(setting.substr(comma + 1) == "warn", kVariable, "=", setting, ": only `warn` may follow the comma");
    warn_ = true;
    setting.resize(comma);
  }
  if (setting == "warn") {
    warn_ = true;
  } else if (!setting.empty()) {
    const auto policy = policyNamed(setting);
    TORCH_CHECK_VALUE(policy, kVariable, "=", setting, " is not one of emulate, cpu, error (optionally followed by ,warn)");
    checkFallbackPolicy(*policy);
    policy_ = *policy;
  }
  setPolicy(policy_);  // counters exist already
}

void FallbackState::setPolicy(FallbackPolicy policy) {
  const std::lock_guard<std::mutex> guard(mutex_);
  policy_ = policy;
  refreshAll();
}

void FallbackState::setWarn(bool warn) {
  const std::lock_guard<std::mutex> guard(mutex_);
  warn_ = warn;
  refreshAll();
}

void FallbackState::setOperatorPolicy(const std::string& name, std::optional<FallbackPolicy> policy) {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (policy.has_value()) {
    own_policies_[name] = *policy;
  } else {
    own_policies_.erase(name);
  }
  refreshAll();
}

std::vector<std::pair<std::string, FallbackPolicy>> FallbackState::operatorPolicies() {
  const std::lock_guard<std::mutex> guard(mutex_);
  return {own_policies_.begin(), own_policies_.end()};
}

FallbackPolicy FallbackState::policyOf(const OperatorCounter& counter) {
  const std::lock_guard<std::mutex> guard(mutex_);
  return lookup(counter);
}

void FallbackState::setCapturing(bool capturing) {
  const std::lock_guard<std::mutex> guard(mutex_);
  capturing_ = capturing;
  refreshAll();
}

bool FallbackState::claimWarning(OperatorCounter& counter) {
  if (!warn() || counter.warned_.exchange(true)) {
    return false;
  }
  const std::lock_guard<std::mutex> guard(mutex_);
  refresh(counter);
  return true;
}

std::vector<FallbackUsage> FallbackState::usage() {
  const std::lock_guard<std::mutex> guard(mutex_);
  std::vector<FallbackUsage> result;
  for (const auto& [name, counter] : counters_) {
    if (counter->calls() > 0) {
      result.push_back(counter->usage());
    }
  }
  std::sort(
      result.begin(), result.end(), [](const auto& a, const auto& b) { return a.calls != b.calls ? a.calls > b.calls : a.name < b.name; });
  return result;
}

void FallbackState::reset() {
  const std::lock_guard<std::mutex> guard(mutex_);
  for (const auto& [name, counter] : counters_) {
    counter->reset();
    refresh(*counter);
  }
}

FallbackPolicy FallbackState::lookup(const OperatorCounter& counter) const {
  const auto own = own_policies_.find(counter.name());
  return own == own_policies_.end() ? policy() : own->second;
}

void FallbackState::refresh(OperatorCounter& counter) const {
  counter.setFast(!capturing_ && lookup(counter) == FallbackPolicy::Emulate && (!warn() || counter.warned_));
}

void FallbackState::refreshAll() {
  for (const auto& [name, counter] : counters_) {
    refresh(*counter);
  }
}

}  // namespace openreg::fallback
