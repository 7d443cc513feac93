#include "aten/Fallback.h"

#include <c10/util/env.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "aten/OperatorInfo.h"
#include "aten/Recorder.h"
#include "aten/emulation/Boxed.h"
#include "device/Address.h"

namespace openreg {
namespace {

constexpr const char* kVariable = "TORCH_OPENREG_FALLBACK";

void checkPolicy(FallbackPolicy policy) {
  TORCH_CHECK_VALUE(
      policy != FallbackPolicy::Emulate || device::hasKernelAddresses(), "the fallback policy `emulate` runs PyTorch's CPU kernels in place on device memory, which the host cannot reach on device ",
      c10::get_privateuse1_backend(), "; choose `cpu`, which copies operands to the host and results back, or `error`");
}

std::string joinName(const std::string& name, const std::string& overload) {
  return overload.empty() ? name : name + "." + overload;
}

}  // namespace

// What all operators share. One mutex guards everything that is not read in the hot path.
class FallbackState {
 public:
  static FallbackState& instance() {
    static auto& state = *new FallbackState;
    return state;
  }

  void add(OperatorCounter* counter) {
    const std::lock_guard<std::mutex> guard(mutex_);
    counters_.emplace(counter->name(), counter);
    refresh(*counter);
  }

  OperatorCounter& find(const std::string& name) {
    const std::lock_guard<std::mutex> guard(mutex_);
    auto& counter = counters_[name];
    if (counter == nullptr) {
      counter = new OperatorCounter(name);
      refresh(*counter);
    }
    return *counter;
  }

  // Not in the constructor, which runs while the library loads and must not throw.
  void readEnvironment() {
    std::string setting;
    if (auto value = c10::utils::get_env(kVariable)) {
      setting = *std::move(value);
    }
    if (const auto comma = setting.find(','); comma != std::string::npos) {
      TORCH_CHECK_VALUE(setting.substr(comma + 1) == "warn", kVariable, "=", setting, ": only `warn` may follow the comma");
      warn_ = true;
      setting.resize(comma);
    }
    if (setting == "cpu") {
      policy_ = FallbackPolicy::Cpu;
    } else if (setting == "error") {
      policy_ = FallbackPolicy::Error;
    } else if (setting == "warn") {
      warn_ = true;
    } else if (!setting.empty()) {
      TORCH_CHECK_VALUE(setting == "emulate", kVariable, "=", setting, " is not one of emulate, cpu, error (optionally followed by ,warn)");
      checkPolicy(FallbackPolicy::Emulate);
      policy_ = FallbackPolicy::Emulate;
    }
    setPolicy(policy_);  // counters exist already
  }

  FallbackPolicy policy() const {
    return policy_.load(std::memory_order_relaxed);
  }
  void setPolicy(FallbackPolicy policy) {
    const std::lock_guard<std::mutex> guard(mutex_);
    policy_ = policy;
    refreshAll();
  }

  bool warn() const {
    return warn_.load(std::memory_order_relaxed);
  }
  void setWarn(bool warn) {
    const std::lock_guard<std::mutex> guard(mutex_);
    warn_ = warn;
    refreshAll();
  }

  void setOperatorPolicy(const std::string& name, std::optional<FallbackPolicy> policy) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (policy.has_value()) {
      own_policies_[name] = *policy;
    } else {
      own_policies_.erase(name);
    }
    refreshAll();
  }

  std::vector<std::pair<std::string, FallbackPolicy>> operatorPolicies() {
    const std::lock_guard<std::mutex> guard(mutex_);
    return {own_policies_.begin(), own_policies_.end()};
  }

  FallbackPolicy policyOf(const OperatorCounter& counter) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return lookup(counter);
  }

  // A recorder sees every call, so none is quiet.
  void setRecording(bool recording) {
    const std::lock_guard<std::mutex> guard(mutex_);
    recording_ = recording;
    refreshAll();
  }

  // True for the first caller only.
  bool claimWarning(OperatorCounter& counter) {
    if (!warn() || counter.warned_.exchange(true)) {
      return false;
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    refresh(counter);
    return true;
  }

  std::vector<FallbackUsage> usage() {
    const std::lock_guard<std::mutex> guard(mutex_);
    std::vector<FallbackUsage> result;
    for (const auto& [name, counter] : counters_) {
      if (counter->calls() > 0) {
        result.push_back(counter->usage());
      }
    }
    std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.calls != b.calls ? a.calls > b.calls : a.name < b.name; });
    return result;
  }

  std::vector<std::string> emulated() {
    const std::lock_guard<std::mutex> guard(mutex_);
    std::vector<std::string> result;
    for (const auto& [name, counter] : counters_) {
      if (counter->direct_) {
        result.push_back(name);
      }
    }
    return result;
  }

  void reset() {
    const std::lock_guard<std::mutex> guard(mutex_);
    for (const auto& [name, counter] : counters_) {
      counter->reset();
      refresh(*counter);
    }
  }

 private:
  FallbackPolicy lookup(const OperatorCounter& counter) const {
    const auto own = own_policies_.find(counter.name());
    return own == own_policies_.end() ? policy() : own->second;
  }

  void refresh(OperatorCounter& counter) const {
    counter.setQuiet(!recording_ && lookup(counter) == FallbackPolicy::Emulate && (!warn() || counter.warned_));
  }
  void refreshAll() {
    for (const auto& [name, counter] : counters_) {
      refresh(*counter);
    }
  }

  std::mutex mutex_;
  // PORTING: Error, once the device has kernels for all that you run, so that nothing goes over the host unseen.
  std::atomic<FallbackPolicy> policy_{device::hasKernelAddresses() ? FallbackPolicy::Emulate : FallbackPolicy::Cpu};
  std::atomic<bool> warn_{false};
  bool recording_ = false;
  std::unordered_map<std::string, OperatorCounter*> counters_;
  std::unordered_map<std::string, FallbackPolicy> own_policies_;
};

void readFallbackEnvironment() {
  FallbackState::instance().readEnvironment();
}

FallbackPolicy fallbackPolicy() {
  return FallbackState::instance().policy();
}

void setFallbackPolicy(FallbackPolicy policy) {
  checkPolicy(policy);
  FallbackState::instance().setPolicy(policy);
}

bool fallbackWarn() {
  return FallbackState::instance().warn();
}

void setFallbackWarn(bool warn) {
  FallbackState::instance().setWarn(warn);
}

void setOperatorPolicy(const std::string& name, std::optional<FallbackPolicy> policy) {
  checkPolicy(policy.value_or(FallbackPolicy::Cpu));
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

std::vector<std::string> emulatedOperators() {
  return FallbackState::instance().emulated();
}

void resetFallbackCounts() {
  FallbackState::instance().reset();
}

namespace {

std::atomic<Recorder> recorder{nullptr};
std::atomic<int> recordings{0};

}  // namespace

void pushRecorder(Recorder function) {
  recorder = function;
  if (++recordings == 1) {
    FallbackState::instance().setRecording(true);
  }
}

void popRecorder() {
  if (--recordings == 0) {
    FallbackState::instance().setRecording(false);
  }
}

bool hasRecorder() {
  return recordings.load(std::memory_order_relaxed) > 0;
}

bool recordInstead(const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack) {
  return hasRecorder() && recorder.load()(op, info, stack);
}

OperatorCounter::OperatorCounter(const char* name, const char* overload) : name_(joinName(name, overload)) {
  FallbackState::instance().add(this);
}

OperatorCounter& OperatorCounter::of(const c10::OperatorName& name) {
  return FallbackState::instance().find(joinName(name.name, name.overload_name));
}

FallbackPolicy OperatorCounter::applyPolicy() {
  auto& state = FallbackState::instance();
  const auto policy = state.policyOf(*this);
  if (policy == FallbackPolicy::Error) {
    skipTime();
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      policy != FallbackPolicy::Error, name_, " has no kernel of its own on device ", c10::get_privateuse1_backend(),
      ", and the fallback policy is `error`. Write one in csrc/aten/native, or choose another policy");
  if (state.claimWarning(*this)) {
    TORCH_WARN(
        name_, " has no kernel of its own on device ", c10::get_privateuse1_backend(), policy == FallbackPolicy::Emulate ? ": PyTorch's CPU kernel runs on device memory" : ": it runs on the host, with copies");
  }
  return policy;
}

void runByPolicy(const c10::OperatorHandle& op, OperatorInfo& info, torch::jit::Stack* stack, emulation::Kernel kernel) {
  const auto policy = info.counter.applyPolicy();
  const CallTimer timer(info.counter);
  if (policy == FallbackPolicy::Cpu) {
    emulation::runBoxed(op, info, stack, kernel, emulation::Call::Memory::Copies);
  } else if (!recordInstead(op, info, stack)) {
    emulation::runBoxed(op, info, stack, kernel);
  }
}

void runCountedFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto& info = operatorInfo(op);
  info.counter.describe(op, *stack);
  TORCH_CHECK_NOT_IMPLEMENTED(
      op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), info.counter.name(), " has no kernel on device ", c10::get_privateuse1_backend(),
      ", and PyTorch has no CPU kernel to take its place. Write one in csrc/aten/native");
  runByPolicy(op, info, stack, emulation::Kernel::Dense);
}

void runFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto& info = operatorInfo(op);
  if (info.counter.countAndCheckQuiet() && info.has_cpu_kernel) [[likely]] {
    emulation::runBoxed(op, info, stack);
  } else {
    runCountedFallback(op, stack);
  }
}

}  // namespace openreg
