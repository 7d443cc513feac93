#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>

#include "aten/FallbackPolicy.h"

// Counting and running operators that have no kernel of the device's own.
namespace openreg {

struct OperatorInfo;

// The number of calls and the policy of one operator. Lives for ever; known to fallbackCounts() from the start.
class BACKEND_API OperatorCounter {
 public:
  OperatorCounter(const char* name, const char* overload);
  explicit OperatorCounter(const c10::OperatorName& name);
  OperatorCounter(const OperatorCounter&) = delete;
  OperatorCounter& operator=(const OperatorCounter&) = delete;

  // Counts a call; true if the operator is to be emulated and nobody wants to hear of it: the one case that is fast.
  bool countAndCheckEmulated() {
    calls_.fetch_add(1, std::memory_order_relaxed);
    return quietly_emulated_.load(std::memory_order_relaxed);
  }

  // Applies the policy to a call that was counted already: warns and raises as it says. Returns Emulate or Cpu.
  FallbackPolicy applyPolicy();

  const std::string& name() const {
    return name_;
  }
  int64_t calls() const {
    return calls_.load(std::memory_order_relaxed);
  }

 private:
  friend class FallbackState;

  std::string name_;
  std::atomic<int64_t> calls_{0};
  std::atomic<bool> quietly_emulated_{false};
  std::atomic<bool> warned_{false};
};

// The boxed fallback of the whole backend, and the same for a call that its caller has counted.
void runFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void runCountedFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Runs an operator on the host, with copies, whatever the policy is.
void runOnHost(const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack);

}  // namespace openreg
