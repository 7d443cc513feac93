#pragma once

#include <pybind11/pybind11.h>

namespace openreg {

// Storages on their way between processes: what `openreg/multiprocessing.py` is made of.
void bindIpc(pybind11::module_& m);

}  // namespace openreg
