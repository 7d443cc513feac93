#pragma once

#include <pybind11/pybind11.h>

namespace openreg {

// The functions of `_C` for operators without a native kernel: their policies and their statistics.
void bindFallback(pybind11::module_& m);

}  // namespace openreg
