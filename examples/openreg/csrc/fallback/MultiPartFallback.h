#pragma once

#include <c10/core/DispatchKey.h>

#include <array>

namespace openreg::fallback {

struct MultiPartKind {
  const char* name;
  c10::DispatchKey cpu;
  c10::DispatchKey device;
};

// The kinds of tensors that consist of several dense ones.
inline constexpr std::array kMultiPartKinds = {
    MultiPartKind{"sparse", c10::DispatchKey::SparseCPU, c10::DispatchKey::SparsePrivateUse1},
    MultiPartKind{"sparse compressed", c10::DispatchKey::SparseCsrCPU, c10::DispatchKey::SparseCsrPrivateUse1},
    MultiPartKind{"quantized", c10::DispatchKey::QuantizedCPU, c10::DispatchKey::QuantizedPrivateUse1},
    MultiPartKind{"nested", c10::DispatchKey::NestedTensorCPU, c10::DispatchKey::NestedTensorPrivateUse1},
};

// Registers a fallback for every operator that has a CPU kernel for tensors of such a kind.
void registerMultiPartFallbacks();

}  // namespace openreg::fallback
