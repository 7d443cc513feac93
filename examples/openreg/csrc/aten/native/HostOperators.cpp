#include <torch/library.h>

#include "fallback/Fallback.h"

// Style: fallback of a single operator. These operators run on copies in host memory under every policy. They are matrix
// decompositions, because most chips get kernels for these last.
namespace openreg::native {

// PORTING: add the operators that your chip always leaves to the host. Remove an operator when the device has a kernel for it.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("linalg_eig", fallback::onHost());
  m.impl("linalg_lstsq", fallback::onHost());
}

}  // namespace openreg::native
