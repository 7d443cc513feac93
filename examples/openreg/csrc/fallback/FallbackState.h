#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fallback/FallbackPolicy.h"
#include "fallback/OperatorCounter.h"

namespace openreg::fallback {

// The present policies and the counters of all operators. One mutex guards everything that the fast path does not read.
class FallbackState {
 public:
  static FallbackState& instance();

  // Separate from the constructor, which runs while the library loads and must not throw.
  void readEnvironment();

  FallbackPolicy policy() const {
    return policy_.load(std::memory_order_relaxed);
  }
  void setPolicy(FallbackPolicy policy);

  bool warn() const {
    return warn_.load(std::memory_order_relaxed);
  }
  void setWarn(bool warn);

  void setOperatorPolicy(const std::string& name, std::optional<FallbackPolicy> policy);
  std::vector<std::pair<std::string, FallbackPolicy>> operatorPolicies();

  // Returns the operator's own policy, else the general policy.
  FallbackPolicy policyOf(const OperatorCounter& counter);

  // While a capture hook is set, every call must reach it, so no call is fast.
  void setCapturing(bool capturing);

  // Returns true for the first caller only, if warnings are enabled.
  bool claimWarning(OperatorCounter& counter);

  void add(OperatorCounter* counter);
  OperatorCounter& find(const std::string& name);
  std::vector<FallbackUsage> usage();
  void reset();

 private:
  FallbackState();
  FallbackPolicy lookup(const OperatorCounter& counter) const;
  void refresh(OperatorCounter& counter) const;
  void refreshAll();

  std::mutex mutex_;
  std::atomic<FallbackPolicy> policy_;
  std::atomic<bool> warn_{false};
  bool capturing_ = false;
  std::unordered_map<std::string, OperatorCounter*> counters_;  // never deleted: calls may be using them
  std::unordered_map<std::string, FallbackPolicy> own_policies_;
};

}  // namespace openreg::fallback
