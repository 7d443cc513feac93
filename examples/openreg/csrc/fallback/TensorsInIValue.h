#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>

// Visits the tensors in an argument or a result of a boxed call: a tensor, a list of tensors, or a list of optional tensors.
namespace openreg::fallback {

// Returns the value with each tensor replaced by function(tensor). A value without tensors is returned unchanged.
template <class Function>
c10::IValue mapTensors(const c10::IValue& value, const Function& function) {
  if (value.isTensor()) {
    return function(value.toTensor());
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> mapped;
    for (const at::Tensor& tensor : value.toTensorList()) {
      mapped.push_back(function(tensor));
    }
    return mapped;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> mapped;
    for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
      mapped.push_back(tensor.has_value() ? std::optional<at::Tensor>(function(*tensor)) : std::nullopt);
    }
    return mapped;
  }
  return value;
}

template <class Function>
void forEachTensor(const c10::IValue& value, const Function& function) {
  if (value.isTensor()) {
    function(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) {
      function(tensor);
    }
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
      if (tensor.has_value()) {
        function(*tensor);
      }
    }
  }
}

}  // namespace openreg::fallback
