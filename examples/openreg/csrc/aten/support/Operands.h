#pragma once

#include <ATen/core/TensorBase.h>

#include "device/Launch.h"

namespace openreg::native {

// The memory that the elements of a tensor lie in, for device::launch. The tensor has elements.
inline device::Operand operandOf(const at::TensorBase& tensor, bool written) {
  int64_t last = 0;  // the distance of the last element from the first
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    last += (tensor.size(i) - 1) * tensor.stride(i);
  }
  return {tensor.const_data_ptr(), static_cast<size_t>(last + 1) * tensor.itemsize(), written};
}

inline device::Operand reads(const at::TensorBase& tensor) {
  return operandOf(tensor, /*written=*/false);
}

inline device::Operand writes(const at::TensorBase& tensor) {
  return operandOf(tensor, /*written=*/true);
}

}  // namespace openreg::native
