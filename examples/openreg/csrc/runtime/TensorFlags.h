#pragma once

#include <ATen/core/TensorBase.h>

#include <string>
#include <unordered_map>

#include "device/Export.h"

namespace openreg {

// Named boolean properties of a tensor beyond shape, dtype and strides. torch.save and pickle save them, and detach() copies
// them; views, operators and copy.deepcopy return tensors without flags. In Python they are torch._utils.get_tensor_metadata
// and set_tensor_metadata. The emulated device uses none.
//
// A device with memory layouts of its own sets a flag on a tensor in such a layout, so that nobody reads a file of the tensor as an
// ordinary one.
using TensorFlags = std::unordered_map<std::string, bool>;

// Empty if the tensor has none.
BACKEND_API TensorFlags tensorFlags(const at::TensorBase& tensor);

// Replaces all flags of the tensor.
BACKEND_API void setTensorFlags(const at::TensorBase& tensor, TensorFlags flags);

}  // namespace openreg
