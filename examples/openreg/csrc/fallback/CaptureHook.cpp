#include "fallback/CaptureHook.h"

#include <atomic>

#include "fallback/FallbackState.h"

namespace openreg::fallback {
namespace {

std::atomic<CaptureHook> capture_hook{nullptr};
std::atomic<int> captures{0};

}  // namespace

void addCaptureHook(CaptureHook function) {
  capture_hook = function;
  if (++captures == 1) {
    FallbackState::instance().setCapturing(true);
  }
}

void removeCaptureHook() {
  if (--captures == 0) {
    FallbackState::instance().setCapturing(false);
  }
}

bool hasCaptureHook() {
  return captures.load(std::memory_order_relaxed) > 0;
}

bool captureInstead(const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack) {
  return hasCaptureHook() && capture_hook.load()(op, info, stack);
}

}  // namespace openreg::fallback
