#pragma once

#include "device/Export.h"

namespace openreg {

// Registers runFallback for every operator that PyTorch would otherwise take apart although it has a CPU kernel for the
// whole, and reads the environment. To be called once, after all static registrations of this library; the Python package does it on import.
BACKEND_API void registerFallbacks();

}  // namespace openreg
