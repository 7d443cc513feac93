#pragma once

#include <pybind11/pybind11.h>

namespace openreg {

using BindFeature = void (*)(pybind11::module_& m);

// For a file with the bindings of a feature, while the library loads: `bind` gets a submodule of `_C` of this name. The name is
// kept, not copied.
bool addFeatureBindings(const char* name, BindFeature bind);

// Makes the submodules.
void bindFeatures(pybind11::module_& m);

}  // namespace openreg
