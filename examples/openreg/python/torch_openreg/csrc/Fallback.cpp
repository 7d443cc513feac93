#include "Fallback.h"

#include <pybind11/stl.h>

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <map>

#include "Call.h"
#include "fallback/CaptureHook.h"
#include "fallback/FallbackPolicy.h"
#include "fallback/OperatorCoverage.h"
#include "fallback/RegisterFallbacks.h"

namespace py = pybind11;

namespace openreg {
namespace {

fallback::FallbackPolicy policyFromName(const std::string& name) {
  const auto policy = fallback::policyNamed(name);
  TORCH_CHECK_VALUE(policy, "unknown fallback policy '", name, "': choose 'emulate', 'cpu' or 'error'");
  return *policy;
}

// The names in _states.py.
const char* nameOf(fallback::OperatorState state) {
  switch (state) {
    case fallback::OperatorState::Native:
      return "native";
    case fallback::OperatorState::HostBody:
      return "host body";
    case fallback::OperatorState::Emulated:
      return "emulated";
    case fallback::OperatorState::Cpu:
      return "cpu";
    case fallback::OperatorState::Composite:
      return "composite";
    case fallback::OperatorState::None:
      break;
  }
  return "none";
}

std::map<std::string, std::pair<std::string, std::string>> coverageByName() {
  std::map<std::string, std::pair<std::string, std::string>> result;
  for (auto& [name, coverage] : fallback::operatorCoverage()) {
    result.emplace_hint(result.end(), name, std::pair(nameOf(coverage.state), std::move(coverage.reason)));
  }
  return result;
}

// By the names of the keys of the typed dictionary that Python gives to its users.
py::dict usageDict(const fallback::FallbackUsage& usage) {
  py::list dtypes;
  for (const auto dtype : usage.dtypes) {
    dtypes.append(dtype);
  }
  py::list tensors;
  for (const auto& tensor : usage.first_call) {
    py::dict entry;
    entry["argument"] = tensor.argument;
    entry["dtype"] = tensor.dtype;
    entry["shape"] = tensor.sizes ? py::object(py::tuple(py::cast(*tensor.sizes))) : py::none();
    tensors.append(std::move(entry));
  }
  py::dict result;
  result["calls"] = usage.calls;
  result["timed_calls"] = usage.timed_calls;
  result["widened_calls"] = usage.widened_calls;
  result["seconds"] = usage.seconds;
  result["dtypes"] = std::move(dtypes);
  result["first_call"] = std::move(tensors);
  result["omitted"] = usage.omitted;
  return result;
}

py::dict usageDicts() {
  std::vector<fallback::FallbackUsage> usages;
  {
    const py::gil_scoped_release no_gil;
    usages = fallback::fallbackUsage();
  }
  py::dict result;
  for (const auto& usage : usages) {
    result[py::str(usage.name)] = usageDict(usage);
  }
  return result;
}

std::map<std::string, std::string> operatorPolicyNames() {
  std::map<std::string, std::string> names;
  for (const auto& [op, policy] : fallback::operatorPolicies()) {
    names.emplace(op, fallback::nameOf(policy));
  }
  return names;
}

}  // namespace

void bindFallback(py::module_& m) {
  m.def("_set_fallback_policy", call([](const std::string& name, bool warn) {
          fallback::setFallbackPolicy(policyFromName(name));
          fallback::setFallbackWarn(warn);
        }),
        py::arg("policy"), py::arg("warn"));
  m.def("_get_fallback_policy", call([] {
          return std::pair(std::string(fallback::nameOf(fallback::fallbackPolicy())), fallback::fallbackWarn());
        }));
  m.def("_set_operator_policy", call([](const std::string& op, const std::optional<std::string>& name) {
          fallback::setOperatorPolicy(op, name ? std::optional(policyFromName(*name)) : std::nullopt);
        }),
        py::arg("op"), py::arg("policy"));
  m.def("_get_operator_policies", call(operatorPolicyNames));
  m.def("_fallback_counts", call(fallback::fallbackCounts));
  m.def("_fallback_usage", torch::wrap_pybind_function(usageDicts));
  m.def("_reset_fallback_counts", call(fallback::resetFallbackCounts));
  m.def("_operator_coverage", call(coverageByName));
  // Keeps the GIL: it is asked at each step of an optimizer, and letting the GIL go takes longer than the answer.
  m.def("_has_capture", &fallback::hasCaptureHook);
  m.def("_register_fallbacks", call(fallback::registerFallbacks));
}

}  // namespace openreg
