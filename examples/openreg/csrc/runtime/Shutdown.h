#pragma once

#include "device/Export.h"

namespace openreg {

// Waits until PyTorch's autograd threads, of which each device has one, have let go of the backward passes that they ran.
// They hold Python objects for a moment after such a pass has returned, and one that drops them while the interpreter
// shuts down aborts the process. To be called at exit, without the GIL. Does nothing if no device was used.
BACKEND_API void settleAutogradThreads();

}  // namespace openreg
