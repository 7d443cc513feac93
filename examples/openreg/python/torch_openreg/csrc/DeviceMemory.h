#pragma once

#include <pybind11/pybind11.h>

namespace openreg {

// The functions of `_C` on device memory for which PyTorch has no generic functions.
void bindDeviceMemory(pybind11::module_& m);

}  // namespace openreg
