#include "fallback/Fallback.h"

#include "fallback/Boxed.h"
#include "fallback/CaptureHook.h"
#include "fallback/OperatorInfo.h"

namespace openreg {

void runByPolicy(const c10::OperatorHandle& op, OperatorInfo& info, torch::jit::Stack* stack, fallback::KernelSelection selection) {
  const auto policy = info.counter.applyPolicy();
  const CallTimer timer(info.counter);
  if (policy == FallbackPolicy::Cpu) {
    fallback::runBoxed(op, info, stack, selection, fallback::Call::Memory::Copies);
  } else if (!captureInstead(op, info, stack)) {
    fallback::runBoxed(op, info, stack, selection);
  }
}

void runCountedFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto& info = operatorInfo(op);
  info.counter.describe(op, *stack);
  TORCH_CHECK_NOT_IMPLEMENTED(
      op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), info.counter.name(), " has no kernel on device ", c10::get_privateuse1_backend(),
      ", and PyTorch has no CPU kernel to take its place. Write one in csrc/aten/native");
  runByPolicy(op, info, stack, fallback::KernelSelection::Dense);
}

void runFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto& info = operatorInfo(op);
  if (info.counter.countAndCheckFast() && info.has_cpu_kernel) [[likely]] {
    fallback::runBoxed(op, info, stack);
  } else {
    runCountedFallback(op, stack);
  }
}

}  // namespace openreg
