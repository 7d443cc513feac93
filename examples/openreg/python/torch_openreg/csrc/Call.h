#pragma once

#include <torch/csrc/Exceptions.h>

#include <utility>

namespace openreg {

// Wraps a function for Python: it runs without the GIL, and its C++ exceptions and warnings become PyTorch's.
template <typename Function>
auto call(Function&& function) {
  return torch::wrap_pybind_function_no_gil(std::forward<Function>(function));
}

}  // namespace openreg
