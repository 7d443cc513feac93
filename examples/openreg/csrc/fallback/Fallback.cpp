#include "fallback/Fallback.h"

#include "fallback/Boxed.h"
#include "fallback/CaptureHook.h"
#include "fallback/OperatorInfo.h"
#include "fallback/OperatorOrigin.h"

namespace openreg::fallback {

void runByPolicy(const c10::OperatorHandle& op, OperatorInfo& info, torch::jit::Stack* stack, KernelSelection selection) {
  const auto policy = info.counter.applyPolicy();
  const CallTimer timer(info.counter);
  if (policy == FallbackPolicy::Cpu) {
    runBoxed(op, info, stack, selection, Call::Memory::Copies);
  } else if (!captureInstead(op, info, stack)) {
    runBoxed(op, info, stack, selection);
  }
}

void runCountedFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto& info = operatorInfo(op);
  info.counter.describe(op, *stack);
  TORCH_CHECK_NOT_IMPLEMENTED(
      op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), info.counter.name(), " has no kernel on device ",
      c10::get_privateuse1_backend(), ", and PyTorch has no CPU kernel to take its place. Write one in csrc/aten/native");
  runByPolicy(op, info, stack, KernelSelection::Dense);
}

namespace {

void runOnHost(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto& info = operatorInfo(op);
  info.counter.countAndCheckFast();
  info.counter.describe(op, *stack);
  const CallTimer timer(info.counter);
  runBoxed(op, info, stack, KernelSelection::Dense, Call::Memory::Copies);
}

}  // namespace

torch::CppFunction onHost() {
  return withOrigin({Origin::Host, "always on the host"}, torch::CppFunction::makeFromBoxedFunction<&runOnHost>());
}

void runFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto& info = operatorInfo(op);
  if (info.counter.countAndCheckFast() && info.has_cpu_kernel) [[likely]] {
    runBoxed(op, info, stack);
  } else {
    runCountedFallback(op, stack);
  }
}

}  // namespace openreg::fallback
