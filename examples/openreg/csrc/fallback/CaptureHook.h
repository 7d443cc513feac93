#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "device/Export.h"

// Where graph capture takes the place of emulated operators. Native kernels need nothing of this: the SDK records them.
namespace openreg::fallback {

struct OperatorInfo;

// If the stream is being captured, records the call instead of running it: replaces the arguments on the stack by the
// results. Returns false, with an unchanged stack, if the call must run now.
using CaptureHook = bool (*)(const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack);

// While a hook is set, every emulated operator calls it first. Calls nest, because several captures may be active.
void addCaptureHook(CaptureHook hook);
void removeCaptureHook();

// Returns the result of the hook, or false if there is none.
bool captureInstead(const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack);
BACKEND_API bool hasCaptureHook();

}  // namespace openreg::fallback
