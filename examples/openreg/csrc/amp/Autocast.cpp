#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <initializer_list>
#include <span>
#include <string>

#include "runtime/Functions.h"

// torch.autocast for this device. It uses PyTorch's own casts and the operator lists of CUDA's autocast. The kernels are
// boxed, one for each list, because PyTorch's templates, with one kernel for each operator, would take a tenth of this
// library's compile time.
namespace openreg {
namespace {

using at::autocast::cached_cast;
using torch::jit::Stack;

// PyTorch's lists spell their signatures with these names.
using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

at::ScalarType lowerPrecisionType() {
  return at::autocast::get_lower_precision_fp_from_device_type(kDeviceType);
}

std::span<c10::IValue> argumentsOf(const c10::OperatorHandle& op, Stack& stack) {
  const auto count = op.schema().arguments().size();
  return {stack.data() + stack.size() - count, count};
}

void castTensors(std::span<c10::IValue> arguments, at::ScalarType type) {
  for (auto& argument : arguments) {
    if (argument.isTensor()) {
      argument = cached_cast(type, argument.toTensor(), kDeviceType);
    } else if (argument.isTensorList()) {
      argument = cached_cast(type, at::TensorList(argument.toTensorVector()), kDeviceType);
    }
  }
}

void callBelowAutocast(const c10::OperatorHandle& op, Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::AutocastPrivateUse1);
  op.callBoxed(stack);
}

void runInLowerPrecision(const c10::OperatorHandle& op, Stack* stack) {
  castTensors(argumentsOf(op, *stack), lowerPrecisionType());
  callBelowAutocast(op, stack);
}

void runInFloat(const c10::OperatorHandle& op, Stack* stack) {
  castTensors(argumentsOf(op, *stack), at::kFloat);
  callBelowAutocast(op, stack);
}

// Operators with a dtype argument. Autocast sets it to float unless the caller has set it.
void runIntoFloat(const c10::OperatorHandle& op, Stack* stack) {
  const auto arguments = argumentsOf(op, *stack);
  const auto dtype = op.schema().argumentIndexWithName("dtype");
  TORCH_INTERNAL_ASSERT(dtype.has_value());
  if (arguments[*dtype].isNone() && at::autocast::is_eligible(arguments[0].toTensor(), kDeviceType)) {
    arguments[*dtype] = at::kFloat;
  }
  callBelowAutocast(op, stack);
}

void runInWidestType(const c10::OperatorHandle& op, Stack* stack) {
  const auto arguments = argumentsOf(op, *stack);
  auto widest = lowerPrecisionType();
  for (const auto i : c10::irange(arguments.size())) {
    // Not optional tensors, which follow the dtype of the others. None of these operators takes a list of tensors of values.
    if (op.schema().arguments()[i].type()->kind() == c10::TypeKind::TensorType) {
      widest = at::autocast::prioritize(widest, arguments[i].toTensor(), kDeviceType);
    }
  }
  castTensors(arguments, widest);
  callBelowAutocast(op, stack);
}

void refuseBinaryCrossEntropy(const c10::OperatorHandle& /*op*/, Stack* /*stack*/) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their input comes out of a sigmoid, whose "
      "gradient "
      "is not representable in a lower precision. Use torch.nn.functional.binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, "
      "which take the value before the sigmoid and are safe to autocast.");
}

template <c10::BoxedKernel::BoxedKernelFunction* kernel>
void registerAll(torch::Library& library, std::initializer_list<const char*> operators) {
  for (std::string name : operators) {
    if (const auto comma = name.find(", "); comma != std::string::npos) {
      name.erase(comma, 1);
      name[comma] = '.';  // an overload
    }
    library.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<kernel>());
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define NAME(...) #__VA_ARGS__,
  registerAll<&runInLowerPrecision>(m, {AT_FORALL_LOWER_PRECISION_FP(NAME)});
  registerAll<&runInFloat>(m, {AT_FORALL_FP32(NAME)});
  registerAll<&runIntoFloat>(m, {AT_FORALL_FP32_SET_OPT_DTYPE(NAME)});
  registerAll<&runInWidestType>(m, {AT_FORALL_PROMOTE(NAME)});
  registerAll<&refuseBinaryCrossEntropy>(m, {"binary_cross_entropy"});
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
}

}  // namespace openreg
