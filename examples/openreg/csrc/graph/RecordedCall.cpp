#include "graph/RecordedCall.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <utility>

#include "fallback/OperatorInfo.h"
#include "fallback/TensorsInIValue.h"
#include "fallback/WiderDtype.h"

namespace openreg::graph {
namespace {

// Autograd does not record a replay, so a write by a replay must not change version counters.
void separate(const at::Tensor& alias) {
  if (alias.defined() && !alias.is_inference()) {
    alias.unsafeGetTensorImpl()->set_version_counter(c10::VariableVersion(/*version=*/0));
  }
}

}  // namespace

RecordedCall::RecordedCall(c10::OperatorHandle op, torch::jit::Stack arguments, std::vector<at::Tensor> results)
    : op_(std::move(op)), arguments_(std::move(arguments)), results_(std::move(results)) {
  for (const auto& argument : arguments_) {
    fallback::forEachTensor(argument, separate);
  }
  for (const auto& result : results_) {
    separate(result);
  }
}

void RecordedCall::run() const {
  // The stream may run this on any thread, so the modes of that thread must not apply.
  const c10::impl::ForceDispatchKeyGuard plain(
      c10::DispatchKeySet(c10::DispatchKey::BackendSelect),
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset | c10::python_ks);
  torch::jit::Stack stack = arguments_;
  fallback::runCpuKernel(op_, fallback::operatorInfo(op_), &stack, fallback::KernelSelection::Dense, [&] { stack = arguments_; });

  size_t next = 0;
  for (const auto& value : stack) {
    if (value.isTensorList()) {
      for (const at::Tensor& fresh : value.toTensorList()) {
        results_.at(next++).copy_(fresh);
      }
      continue;
    }
    if (const auto& result = results_.at(next++); result.defined()) {
      result.copy_(value.toTensor());
    }
  }
}

}  // namespace openreg::graph
