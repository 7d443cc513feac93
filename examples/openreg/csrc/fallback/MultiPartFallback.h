#pragma once

namespace openreg {

// Lets sparse, quantized and nested tensors of the device take every operator that has a CPU kernel for such tensors.
void registerMultiPartFallbacks();

}  // namespace openreg
