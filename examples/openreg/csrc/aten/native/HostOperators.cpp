#include <torch/library.h>

#include "fallback/Fallback.h"
#include "fallback/OperatorInfo.h"
#include "fallback/Boxed.h"

// Style: fallback of a single operator. These operators run on copies in host memory under every policy. They are matrix
// decompositions, because most chips get kernels for these last.
namespace openreg::native {
namespace {

void runAlwaysOnHost(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto& info = operatorInfo(op);
  info.counter.countAndCheckFast();
  info.counter.describe(op, *stack);
  const CallTimer timer(info.counter);
  fallback::runBoxed(op, info, stack, fallback::KernelSelection::Dense, fallback::Call::Memory::Copies);
}

}  // namespace

// PORTING: add the operators that your chip always leaves to the host. Remove an operator when the device has a kernel for it.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("linalg_eig", torch::CppFunction::makeFromBoxedFunction<&runAlwaysOnHost>());
  m.impl("linalg_lstsq", torch::CppFunction::makeFromBoxedFunction<&runAlwaysOnHost>());
}

}  // namespace openreg::native
