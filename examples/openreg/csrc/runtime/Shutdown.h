#pragma once

#include "device/Export.h"

namespace openreg {

// Ends PyTorch's autograd threads, of which each device has one. They hold Python objects for a moment after a backward
// pass has returned; a thread that lets go of one while the interpreter shuts down aborts the process. To be called once,
// at exit, without the GIL. No backward pass is possible on a device afterwards.
BACKEND_API void stopAutogradThreads();

}  // namespace openreg
