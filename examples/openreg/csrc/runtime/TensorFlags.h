#pragma once

#include <ATen/core/TensorBase.h>

#include <string>
#include <unordered_map>

#include "device/Export.h"

namespace openreg {

// Named yes-or-no facts about a tensor that shape, dtype and strides do not tell. torch.save and pickle keep them, and
// detach() copies them; views, operators and copy.deepcopy give tensors without. In Python they are
// torch._utils.get_tensor_metadata and set_tensor_metadata. The emulated device needs none itself.
//
// PORTING: note here that a tensor is in a layout of the chip's own, so that a file of it is not read as an ordinary one.
using TensorFlags = std::unordered_map<std::string, bool>;

// Empty if the tensor has none.
BACKEND_API TensorFlags tensorFlags(const at::TensorBase& tensor);

// Replaces all flags of the tensor.
BACKEND_API void setTensorFlags(const at::TensorBase& tensor, TensorFlags flags);

}  // namespace openreg
