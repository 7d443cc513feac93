#pragma once

#include "device/Export.h"

namespace openreg {

// Waits until PyTorch's autograd threads (one for each device) have released the backward passes that they ran. Such a thread
// keeps Python objects briefly after a pass has returned. If it releases them while the interpreter shuts down, the process
// aborts. Must be called at exit, without the GIL. Does nothing if no device was used.
BACKEND_API void settleAutogradThreads();

}  // namespace openreg
