#include <torch/library.h>

#include "fallback/Fallback.h"
#include "fallback/OperatorInfo.h"
#include "fallback/Boxed.h"

// Style: fallback of a single operator. These run on the host whatever the general policy is, with copies: matrix
// decompositions are what a chip leaves to the host for longest.
namespace openreg::native {
namespace {

void runAlwaysOnHost(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto& info = operatorInfo(op);
  info.counter.countAndCheckFast();
  info.counter.describe(op, *stack);
  const CallTimer timer(info.counter);
  fallback::runBoxed(op, info, stack, fallback::Kernel::Dense, fallback::Call::Memory::Copies);
}

}  // namespace

// PORTING: add what your chip leaves to the host; take an operator off the list once the device has a kernel for it.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("linalg_eig", torch::CppFunction::makeFromBoxedFunction<&runAlwaysOnHost>());
  m.impl("linalg_lstsq", torch::CppFunction::makeFromBoxedFunction<&runAlwaysOnHost>());
}

}  // namespace openreg::native
