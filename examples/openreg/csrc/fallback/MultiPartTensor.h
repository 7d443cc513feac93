#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

// Tensors with several dense component tensors on the same device: sparse, quantized and nested tensors. An operation on a
// multi-part tensor is applied to each component.
namespace openreg::fallback {

inline bool isMultiPart(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kKinds{
      c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr, c10::DispatchKey::Quantized, c10::DispatchKey::NestedTensor};
  return tensor.key_set().has_any(kKinds);
}

// Returns the replacement for one component tensor. `parameter` marks scales and zero points, which may be on the host.
using PartFunction = c10::function_ref<at::Tensor(const at::Tensor& part, bool parameter)>;

// Returns the same tensor on `device`, with other components.
at::Tensor rebuild(const at::Tensor& tensor, c10::Device device, PartFunction part);

// Sets the components and the shape of `target` to those of `source`, which has the same layout.
void assign(const at::Tensor& target, const at::Tensor& source, PartFunction part);

}  // namespace openreg::fallback
