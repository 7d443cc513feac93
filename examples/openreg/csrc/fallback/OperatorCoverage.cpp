#include "fallback/OperatorCoverage.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <unordered_map>
#include <unordered_set>

#include "fallback/FallbackPolicy.h"
#include "fallback/MultiPartFallback.h"
#include "fallback/OperatorOrigin.h"

namespace openreg::fallback {
namespace {

using c10::DispatchKey;

// In the order in which the dispatcher looks for them, all before the fallback of the backend.
constexpr std::array kComposite = {
    DispatchKey::CompositeExplicitAutogradNonFunctional,
    DispatchKey::CompositeExplicitAutograd,
    DispatchKey::CompositeImplicitAutograd,
};

// What the dispatcher and the policies say at one moment.
class Snapshot {
 public:
  Snapshot() : policy_(fallbackPolicy()) {
    for (const auto& [name, policy] : operatorPolicies()) {
      own_policies_.emplace(name, policy);
    }
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const auto& name : dispatcher.getAllOpNames()) {
      if (const auto op = dispatcher.findSchema(name)) {
        operators_.emplace_back(c10::toString(name), *op);
      }
    }
    for (const auto& [name, op] : operators_) {
      if (op.hasKernelForDispatchKey(DispatchKey::PrivateUse1)) {
        auto origin = originOf(op, DispatchKey::PrivateUse1);
        if (!origin.runs.empty()) {
          run_by_others_.insert(origin.runs);
        }
        origins_.emplace(name, std::move(origin));
      }
    }
  }

  std::map<std::string, OperatorCoverage> describe() const {
    std::map<std::string, OperatorCoverage> result;
    for (const auto& [name, op] : operators_) {
      result.emplace(name, describe(name, op));
    }
    return result;
  }

 private:
  OperatorCoverage describe(const std::string& name, const c10::OperatorHandle& op) const {
    if (const auto found = origins_.find(name); found != origins_.end()) {
      return describe(name, found->second);
    }
    if (run_by_others_.contains(name)) {
      return byPolicy(name, "called by a kernel of the device");
    }
    for (const auto key : kComposite) {
      if (op.hasKernelForDispatchKey(key)) {
        return {OperatorState::Composite, c10::toString(key)};
      }
    }
    if (op.hasKernelForDispatchKey(DispatchKey::CPU)) {
      return byPolicy(name, "the fallback of the backend");
    }
    for (const auto& kind : kMultiPartKinds) {
      if (op.hasKernelForDispatchKey(kind.device)) {
        return describe(name, originOf(op, kind.device));
      }
    }
    return {OperatorState::None, "neither the device nor the CPU has a kernel"};
  }

  OperatorCoverage describe(const std::string& name, const OperatorOrigin& origin) const {
    switch (origin.origin) {
      case Origin::Fallback:
        return byPolicy(origin.runs.empty() ? name : origin.runs, origin.reason);
      case Origin::HostBody:
        return byPolicy(name, origin.reason, OperatorState::HostBody, OperatorState::HostBody);
      case Origin::Host:
        return {OperatorState::Cpu, origin.reason};
      case Origin::Composite:
        return {OperatorState::Composite, origin.reason};
      case Origin::Native:
        break;
    }
    return {OperatorState::Native, origin.reason};
  }

  // By the policy of an operator whose kernel runs on the host: what it is under `emulate`, and under `cpu`.
  OperatorCoverage byPolicy(
      const std::string& name, std::string reason, OperatorState emulated = OperatorState::Emulated,
      OperatorState on_cpu = OperatorState::Cpu) const {
    const auto found = own_policies_.find(name);
    const bool own = found != own_policies_.end();
    const auto policy = own ? found->second : policy_;
    if (own || policy == FallbackPolicy::Error) {
      reason += c10::str("; ", own ? "its own" : "the", " policy is '", nameOf(policy), "'");
    }
    switch (policy) {
      case FallbackPolicy::Emulate:
        return {emulated, std::move(reason)};
      case FallbackPolicy::Cpu:
        return {on_cpu, std::move(reason)};
      case FallbackPolicy::Error:
        break;
    }
    return {OperatorState::None, std::move(reason)};
  }

  FallbackPolicy policy_;
  std::unordered_map<std::string, FallbackPolicy> own_policies_;
  std::vector<std::pair<std::string, c10::OperatorHandle>> operators_;
  std::unordered_map<std::string, OperatorOrigin> origins_;  // of kernels for the device
  std::unordered_set<std::string> run_by_others_;  // operators whose CPU kernel a kernel of another operator runs
};

}  // namespace

std::map<std::string, OperatorCoverage> operatorCoverage() {
  return Snapshot().describe();
}

}  // namespace openreg::fallback
