#pragma once

#include <pybind11/pybind11.h>

namespace openreg {

// The functions of `_C` for operators without a kernel of the device's own: their policies, and which of them ran.
void bindFallback(pybind11::module_& m);

}  // namespace openreg
