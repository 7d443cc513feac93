#pragma once

#include <pybind11/pybind11.h>

namespace openreg {

// The functions of `_C` that share storages between processes, for `openreg/multiprocessing.py`.
void bindIpc(pybind11::module_& m);

}  // namespace openreg
