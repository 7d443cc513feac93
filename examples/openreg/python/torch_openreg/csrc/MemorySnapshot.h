#pragma once

#include <pybind11/pybind11.h>

namespace openreg {

// The functions of `_C` that record what the allocator does, and show it as torch.cuda.memory._snapshot() does.
void bindMemorySnapshot(pybind11::module_& m);

}  // namespace openreg
