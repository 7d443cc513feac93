#pragma once

#include "device/Export.h"

namespace openreg::fallback {

// Registers runFallback for every operator that has a CPU kernel but that PyTorch would otherwise decompose, and reads the
// environment. Must be called once, after all static registrations of this library; the Python package calls it on import.
BACKEND_API void registerFallbacks();

}  // namespace openreg::fallback
