#pragma once

#include <pybind11/pybind11.h>

namespace openreg {

// The functions of `_C` on device memory that PyTorch has no generic ones for.
void bindDeviceMemory(pybind11::module_& m);

}  // namespace openreg
