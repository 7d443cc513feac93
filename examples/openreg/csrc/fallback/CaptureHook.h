#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "device/Export.h"

// Where graph capture takes the place of emulated operators. Native kernels need nothing of this: the SDK records them.
namespace openreg {

struct OperatorInfo;

// Records a call instead of running it, if its stream is being captured: takes the arguments off the stack and leaves the
// results there. False, with the stack as it was, if the call has to run now.
using CaptureHook = bool (*)(const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack);

// While there is a hook, every emulated operator asks it first. Calls nest: several captures may be active.
void addCaptureHook(CaptureHook hook);
void removeCaptureHook();

// What the hook returned, or false if there is none.
bool captureInstead(const c10::OperatorHandle& op, const OperatorInfo& info, torch::jit::Stack* stack);
bool hasCaptureHook();

}  // namespace openreg
