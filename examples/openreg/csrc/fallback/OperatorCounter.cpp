#include "fallback/OperatorCounter.h"

#include <ATen/core/Tensor.h>

#include "fallback/FallbackState.h"
#include "fallback/TensorsInIValue.h"

namespace openreg::fallback {
namespace {

// Lists of parameters hold hundreds of tensors; the first ones are enough for the report.
constexpr size_t kMostTensors = 16;

// Returns a number between 1 and twice the mean gap. It varies with `call` and is the same in each run.
int64_t gapAfter(int64_t call) {
  auto bits = static_cast<uint64_t>(call) * 0x9E3779B97F4A7C15;
  bits ^= bits >> 32;
  return 1 + static_cast<int64_t>(bits % (2 * OperatorCounter::kTimedGap - 1));
}

SeenTensor seen(const c10::Argument& argument, const at::Tensor& tensor) {
  return {argument.name(), tensor.scalar_type(), tensor.is_nested() ? std::nullopt : std::optional(tensor.sizes().vec())};
}

}  // namespace

OperatorCounter::OperatorCounter(const char* name, const char* overload) : name_(c10::toString(c10::OperatorName(name, overload))) {
  FallbackState::instance().add(this);
}

OperatorCounter& OperatorCounter::of(const c10::OperatorName& name) {
  return FallbackState::instance().find(c10::toString(name));
}

FallbackPolicy OperatorCounter::applyPolicy(std::string_view host_body) {
  auto& state = FallbackState::instance();
  const auto policy = state.policyOf(*this);
  if (policy == FallbackPolicy::Error) {
    skipTime();
  }
  const auto device = c10::get_privateuse1_backend();
  if (!host_body.empty()) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        policy != FallbackPolicy::Error, name_, " still runs on the host, because its kernel in ", host_body,
        " launches nothing on device ", device, ", and the fallback policy is `error`. Write the launch there, or choose another policy");
    if (state.claimWarning(*this)) {
      TORCH_WARN(name_, " still runs on the host, because its kernel in ", host_body, " launches nothing on device ", device);
    }
    return policy;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      policy != FallbackPolicy::Error, name_, " has no kernel of its own on device ", device,
      ", and the fallback policy is `error`. Write one in csrc/aten/native, or choose another policy");
  if (state.claimWarning(*this)) {
    TORCH_WARN(
        name_, " has no kernel of its own on device ", device,
        policy == FallbackPolicy::Emulate ? ": PyTorch's CPU kernel runs on device memory" : ": it runs on the host, with copies");
  }
  return policy;
}

void OperatorCounter::describe(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  DtypeSet dtypes = 0;
  std::vector<SeenTensor> tensors;
  int64_t omitted = 0;
  const bool first = !described_.load(std::memory_order_relaxed);
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    forEachTensor(stack[stack.size() - arguments.size() + i], [&](const at::Tensor& tensor) {
      if (!tensor.defined()) {
        return;
      }
      dtypes |= dtypeBit(tensor.scalar_type());
      if (first && tensors.size() < kMostTensors) {
        tensors.push_back(seen(arguments[i], tensor));
      } else if (first) {
        ++omitted;
      }
    });
  }
  addDtypes(dtypes);
  if (first) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!described_.exchange(true)) {
      first_call_ = std::move(tensors);
      omitted_ = omitted;
      updateFastBefore();
    }
  }
}

// Returns how many calls this timed call counts for. Chooses the next timed call first, so that other threads do not time
// their calls meanwhile.
int64_t OperatorCounter::beginTimed() {
  const std::lock_guard<std::mutex> guard(mutex_);
  const auto calls = this->calls();
  const auto stands_for = calls - represented_;
  represented_ = calls;
  ++timed_;
  next_timed_ = calls < kTimedFirst ? calls : calls + gapAfter(calls);
  updateFastBefore();
  return stands_for;
}

void OperatorCounter::endTimed(int64_t stands_for, std::chrono::nanoseconds time) {
  const std::lock_guard<std::mutex> guard(mutex_);
  time_ += time * stands_for;
}

void OperatorCounter::skipTime() {
  const std::lock_guard<std::mutex> guard(mutex_);
  represented_ = calls();
}

void OperatorCounter::setFast(bool fast) {
  const std::lock_guard<std::mutex> guard(mutex_);
  fast_ = fast;
  updateFastBefore();
}

void OperatorCounter::updateFastBefore() {
  fast_before_ = isOnlyTimed() ? next_timed_ : 0;
}

void OperatorCounter::reset() {
  const std::lock_guard<std::mutex> guard(mutex_);
  calls_ = 0;
  widened_ = 0;
  described_ = false;
  warned_ = false;
  dtypes_ = 0;
  next_timed_ = timed_ = represented_ = omitted_ = 0;
  time_ = {};
  first_call_.clear();
  updateFastBefore();
}

FallbackUsage OperatorCounter::usage() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  FallbackUsage usage;
  usage.name = name_;
  usage.calls = calls();
  usage.timed_calls = timed_;
  usage.widened_calls = widened_;
  if (represented_ > 0) {
    usage.seconds = std::chrono::duration<double>(time_).count() * static_cast<double>(usage.calls) / static_cast<double>(represented_);
  }
  for (int i = 0; i < static_cast<int>(c10::ScalarType::NumOptions); ++i) {
    if ((dtypes_ & dtypeBit(static_cast<c10::ScalarType>(i))) != 0) {
      usage.dtypes.push_back(static_cast<c10::ScalarType>(i));
    }
  }
  usage.first_call = first_call_;
  usage.omitted = omitted_;
  return usage;
}

}  // namespace openreg::fallback
