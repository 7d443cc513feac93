#pragma once

namespace openreg::fallback {

// Registers a fallback for every operator that has a CPU kernel for sparse, quantized or nested tensors.
void registerMultiPartFallbacks();

}  // namespace openreg::fallback
