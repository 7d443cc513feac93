#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string_view>

#include "fallback/FallbackPolicy.h"

namespace openreg::fallback {

// A set of dtypes, one bit for each.
using DtypeSet = uint64_t;
static_assert(static_cast<int>(c10::ScalarType::NumOptions) <= 64);

constexpr DtypeSet dtypeBit(c10::ScalarType dtype) {
  return DtypeSet{1} << static_cast<int>(dtype);
}

// Statistics of the calls of one operator without a native kernel. Each name has one counter, which is never destroyed.
//
// Each call is counted. Reading the clock twice takes a twentieth of a small operator's time, so only some calls are timed: the first
// calls, then one in kTimedGap on average. The time of a timed call counts for all calls since the previous timed call. The gaps
// vary, because with a fixed gap a program that repeats itself would always time the same call. One comparison decides whether a call
// is timed, refused or reported, so other calls cost nothing extra.
class BACKEND_API OperatorCounter {
 public:
  static constexpr int64_t kTimedFirst = 16;
  static constexpr int64_t kTimedGap = 64;

  OperatorCounter(const char* name, const char* overload);  // for an emulated operator, while the library loads
  static OperatorCounter& of(const c10::OperatorName& name);
  OperatorCounter(const OperatorCounter&) = delete;
  OperatorCounter& operator=(const OperatorCounter&) = delete;

  // Counts a call. Returns true if the call takes the fast path: it is emulated, and neither timed nor reported.
  bool countAndCheckFast() {
    return calls_.fetch_add(1, std::memory_order_relaxed) < fast_before_.load(std::memory_order_relaxed);
  }

  // Whether a call that is not fast is emulated and only needs to be timed.
  bool isOnlyTimed() const {
    return fast_.load(std::memory_order_relaxed) && described_.load(std::memory_order_relaxed);
  }

  // Applies the policy to a counted call: warns or raises an error. Returns Emulate or Cpu. If the operator has a kernel whose body
  // computes on the host, `host_body` is its place in the sources.
  FallbackPolicy applyPolicy(std::string_view host_body = {});

  // Stores the tensor arguments of the first call, and the dtypes of later calls.
  void describe(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  void addDtypes(DtypeSet dtypes) {
    if ((dtypes_.load(std::memory_order_relaxed) & dtypes) != dtypes) {
      dtypes_.fetch_or(dtypes, std::memory_order_relaxed);
    }
  }

  // The dtypes that the CPU kernel has refused, and that are computed in a wider dtype since then (WiderDtype.h).
  DtypeSet lacking() const {
    return lacking_.load(std::memory_order_relaxed);
  }
  void addLacking(DtypeSet dtypes) {
    lacking_.fetch_or(dtypes, std::memory_order_relaxed);
  }

  // Counts a call that was computed in a wider dtype.
  void countWidened() {
    widened_.fetch_add(1, std::memory_order_relaxed);
  }

  // Excludes the calls since the last timed call from the estimated time, because they did not run.
  void skipTime();

  const std::string& name() const {
    return name_;
  }
  int64_t calls() const {
    return calls_.load(std::memory_order_relaxed);
  }
  FallbackUsage usage() const;

 private:
  friend class CallTimer;
  friend class FallbackState;

  explicit OperatorCounter(std::string name) : name_(std::move(name)) {}

  int64_t beginTimed();
  void endTimed(int64_t stands_for, std::chrono::nanoseconds time);
  void setFast(bool fast);
  void reset();
  void updateFastBefore();

  std::atomic<int64_t> calls_{0};
  std::atomic<int64_t> fast_before_{0};  // calls before this one are fast
  std::atomic<bool> fast_{false};
  std::atomic<bool> described_{false};
  std::atomic<bool> warned_{false};
  std::atomic<DtypeSet> dtypes_{0};
  std::atomic<DtypeSet> lacking_{0};
  std::atomic<int64_t> widened_{0};
  std::string name_;

  mutable std::mutex mutex_;  // guards what follows
  int64_t next_timed_ = 0;
  int64_t timed_ = 0;
  int64_t represented_ = 0;  // calls that the timed calls count for
  std::chrono::nanoseconds time_{0};  // of the represented calls
  std::vector<SeenTensor> first_call_;
  int64_t omitted_ = 0;
};

// Times a call that was counted, from here to the end of the block.
class BACKEND_API CallTimer {
 public:
  explicit CallTimer(OperatorCounter& counter) : counter_(counter), stands_for_(counter.beginTimed()), start_(Clock::now()) {}
  ~CallTimer() {
    counter_.endTimed(stands_for_, Clock::now() - start_);
  }
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  OperatorCounter& counter_;
  int64_t stands_for_;
  Clock::time_point start_;
};

}  // namespace openreg::fallback
