#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

// Tensors that are more than one strided block of memory: sparse, quantized and nested ones. They are put together from parts,
// dense tensors on the same device; what is done with a multi-part tensor is done with each part.
namespace openreg::fallback {

inline bool isMultiPart(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kKinds{c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr, c10::DispatchKey::Quantized, c10::DispatchKey::NestedTensor};
  return tensor.key_set().has_any(kKinds);
}

// Returns the replacement for one component tensor. `parameter` marks scales and zero points, which may be on the host.
using PartFunction = c10::function_ref<at::Tensor(const at::Tensor& part, bool parameter)>;

// The same tensor on `device`, with other parts.
at::Tensor rebuild(const at::Tensor& tensor, c10::Device device, PartFunction part);

// Gives `target` the parts and the shape of `source`, which is of the same kind.
void assign(const at::Tensor& target, const at::Tensor& source, PartFunction part);

}  // namespace openreg::fallback
