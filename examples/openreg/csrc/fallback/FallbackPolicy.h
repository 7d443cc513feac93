#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/Export.h"

// The policy for operators without a native kernel, and the counts of their calls.
namespace openreg::fallback {

enum class FallbackPolicy : uint8_t {
  Emulate,  // PyTorch's CPU kernel runs in place on device memory; the default where that can be (device/Address.h)
  Cpu,  // operands are copied to the host, the CPU kernel runs there, results are copied back; the default elsewhere
  Error,  // NotImplementedError; for a device with kernels for all that runs, so that nothing runs on the host unnoticed
};

// The name of a policy.
constexpr const char* nameOf(FallbackPolicy policy) {
  switch (policy) {
    case FallbackPolicy::Emulate:
      return "emulate";
    case FallbackPolicy::Cpu:
      return "cpu";
    case FallbackPolicy::Error:
      break;
  }
  return "error";
}

// The policy of that name; none if there is no such policy.
constexpr std::optional<FallbackPolicy> policyNamed(std::string_view name) {
  for (const auto policy : {FallbackPolicy::Emulate, FallbackPolicy::Cpu, FallbackPolicy::Error}) {
    if (name == nameOf(policy)) {
      return policy;
    }
  }
  return std::nullopt;
}

// Set from the environment variable TORCH_OPENREG_FALLBACK (`emulate`, `cpu` or `error`, and `warn` after a comma) by
// readFallbackEnvironment, which raises ValueError for other values. These functions change it later, from any thread at any
// time. Emulate raises ValueError if the host cannot access device memory.
void readFallbackEnvironment();

// Raises ValueError for Emulate if the host cannot access device memory.
void checkFallbackPolicy(FallbackPolicy policy);

BACKEND_API FallbackPolicy fallbackPolicy();
BACKEND_API void setFallbackPolicy(FallbackPolicy policy);

// Whether the first fallback of each operator raises a warning.
BACKEND_API bool fallbackWarn();
BACKEND_API void setFallbackWarn(bool warn);

// The policy of one operator ("aten::add.Tensor"), which takes precedence over the general policy; std::nullopt removes it.
BACKEND_API void setOperatorPolicy(const std::string& name, std::optional<FallbackPolicy> policy);
BACKEND_API std::vector<std::pair<std::string, FallbackPolicy>> operatorPolicies();

// The number of calls of each operator that ran without a native kernel, most frequent first.
BACKEND_API std::vector<std::pair<std::string, int64_t>> fallbackCounts();
BACKEND_API void resetFallbackCounts();

// A tensor argument of an operator's first call.
struct SeenTensor {
  std::string argument;  // its name in the schema
  c10::ScalarType dtype;
  std::optional<std::vector<int64_t>> sizes;  // none for nested tensors
};

// Statistics of the calls of one operator. Not every call is timed: see OperatorCounter.
struct FallbackUsage {
  std::string name;
  int64_t calls = 0;
  int64_t timed_calls = 0;
  int64_t widened_calls = 0;  // computed in a wider dtype, because the CPU kernel lacks the dtype of the arguments
  double seconds = 0;  // of all calls, as estimated from the timed ones
  std::vector<c10::ScalarType> dtypes;  // of tensor arguments in timed calls
  std::vector<SeenTensor> first_call;
  int64_t omitted = 0;  // tensors of the first call beyond those in first_call
};

// The same operators as in fallbackCounts(), in the same order.
BACKEND_API std::vector<FallbackUsage> fallbackUsage();

}  // namespace openreg::fallback
