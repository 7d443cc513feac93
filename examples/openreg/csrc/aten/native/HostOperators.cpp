#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include "aten/Fallback.h"
#include "aten/OperatorInfo.h"
#include "aten/emulation/Boxed.h"

// Style: fallback of a single operator. These run on the host whatever the general policy is, with copies: matrix
// decompositions are what a chip leaves to the host for longest.
namespace openreg::native {
namespace {

void runOnHost(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto& info = operatorInfo(op);
  info.counter.countAndCheckEmulated();
  emulation::prepareForHost(info, stack);
  at::native::cpu_fallback(op, stack);
}

}  // namespace

// PORTING: add what your chip leaves to the host; take an operator off the list once the device has a kernel for it.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("linalg_eig", torch::CppFunction::makeFromBoxedFunction<&runOnHost>());
  m.impl("linalg_lstsq", torch::CppFunction::makeFromBoxedFunction<&runOnHost>());
}

}  // namespace openreg::native
