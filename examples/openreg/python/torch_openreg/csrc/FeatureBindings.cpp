#include "FeatureBindings.h"

#include <utility>
#include <vector>

namespace openreg {
namespace {

// A function's static: other files add to it before the statics of this file are made.
std::vector<std::pair<const char*, BindFeature>>& features() {
  static std::vector<std::pair<const char*, BindFeature>> list;
  return list;
}

}  // namespace

bool addFeatureBindings(const char* name, BindFeature bind) {
  features().emplace_back(name, bind);
  return true;
}

void bindFeatures(pybind11::module_& m) {
  for (const auto& [name, bind] : features()) {
    auto submodule = m.def_submodule(name);
    bind(submodule);
  }
}

}  // namespace openreg
