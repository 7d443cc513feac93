#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/CPUFallback.h>

#include <optional>
#include <type_traits>

#include "aten/support/FactoryOptions.h"
#include "fallback/Boxed.h"
#include "fallback/CaptureHook.h"
#include "fallback/Fallback.h"
#include "fallback/OperatorInfo.h"
#include "fallback/Unboxed.h"

// Bodies for kernels without the device's own code yet. They run PyTorch's CPU kernel in the order of the stream, on aliases
// of device memory. Register such a kernel with fallback::hostBody (fallback/HostBody.h), which counts its calls.
namespace openreg::native {

// Converts an argument of a kernel to the type in the operator's schema.
template <class T, class Given>
decltype(auto) adapt(const Given& argument) {
  using Wanted = std::remove_cvref_t<T>;
  if constexpr (std::is_same_v<T, at::Tensor&>) {
    return const_cast<at::Tensor&>(argument);  // NOLINT: structured kernels get their output as a const reference
  } else if constexpr (std::is_same_v<Wanted, Given>) {
    return (argument);
  } else if constexpr (std::is_same_v<Wanted, c10::SymIntArrayRef>) {
    return c10::fromIntArrayRefSlow(argument);
  } else if constexpr (std::is_same_v<Wanted, at::OptionalSymIntArrayRef>) {
    return argument.has_value() ? Wanted(c10::fromIntArrayRefSlow(*argument)) : Wanted();
  } else if constexpr (std::is_same_v<Given, at::OptionalTensorRef>) {
    return argument.has_value() ? Wanted(*argument) : Wanted();
  } else if constexpr (std::is_same_v<Given, at::OptionalScalarRef>) {
    return argument.has_value() ? Wanted(argument.get()) : Wanted();
  } else {
    return Wanted(argument);
  }
}

// Records the call into a graph if the stream is being captured.
inline void runReferenceBoxed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& info = fallback::operatorInfo(op);
  if (!fallback::captureInstead(op, info, stack)) {
    fallback::runBoxed(op, info, stack);
  }
}

template <class Op, class Schema = typename Op::schema>
struct Reference;

template <class Op, class R, class... Args>
struct Reference<Op, R(Args...)> {
  template <class... Given>
  static R call(const Given&... given) {
    if (fallback::hasCaptureHook()) [[unlikely]] {
      return at::native::call_fallback_fn_symint<&runReferenceBoxed, Op>::call(adapt<Args>(given)...);
    }
    static const typename fallback::OnDevice<R(Args...)>::Operator op{
        fallback::OperatorCounter::of({Op::name, Op::overload_name}), Op::name, Op::overload_name, &Op::redispatch,
        fallback::writtenLists(Op::schema_str)};
    return fallback::OnDevice<R(Args...)>::call(op, adapt<Args>(given)...);
  }
};

// Runs PyTorch's CPU kernel for `Op` (one of at::_ops) with the arguments of a kernel.
template <class Op, class... Given>
decltype(auto) runReference(const Given&... given) {
  return Reference<Op>::call(given...);
}

// Whether all operands of an element-wise kernel are on the device and have one real floating-point dtype. Numbers may be on
// the host, and PyTorch converts between dtypes only for the CPU.
inline bool hasPlainOperands(const at::TensorIteratorBase& iterator) {
  const auto dtype = iterator.dtype(0);
  for (int i = 0; i < iterator.ntensors(); ++i) {
    if (iterator.device(i).type() != kDeviceType || iterator.dtype(i) != dtype) {
      return false;
    }
  }
  return dtype == at::kDouble || dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16;
}

// Tells autograd about a write to each tensor of a list. PyTorch does this for single tensors, but not for lists.
inline void noteWrites(at::TensorList tensors) {
  for (const auto& tensor : tensors) {
    if (!tensor.is_inference()) {
      tensor.unsafeGetTensorImpl()->bump_version();
    }
  }
}

}  // namespace openreg::native
