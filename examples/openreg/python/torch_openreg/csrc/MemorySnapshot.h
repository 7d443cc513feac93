#pragma once

#include <pybind11/pybind11.h>

namespace openreg {

// The functions of `_C` that record the history of the allocator and return it like torch.cuda.memory._snapshot().
void bindMemorySnapshot(pybind11::module_& m);

}  // namespace openreg
