#include "fallback/WiderDtype.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fallback/MultiPartTensor.h"
#include "fallback/TensorsInIValue.h"

namespace openreg::fallback {
namespace {

using c10::ScalarType;
using torch::jit::Stack;

constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);

// Integer dtypes are widened only for these operators, because accelerators accept them and each result is a whole number.
// Other operators refuse integers for a reason, such as softmax.
struct OfIntegers {
  std::string_view op;
  bool (*takes)(ScalarType dtype);
  ScalarType wider;
};
constexpr std::array kOfIntegers{
    OfIntegers{"aten::histc", [](ScalarType dtype) { return c10::isIntegralType(dtype, /*includeBool=*/false); }, ScalarType::Double},
    OfIntegers{"aten::trace", [](ScalarType dtype) { return dtype == ScalarType::Bool; }, ScalarType::Byte},
};

// The gradient uses logarithms from the forward. If they were rounded, the gradient would be wrong; CUDA refuses these dtypes too.
bool needsPrecision(std::string_view op) {
  return op == "aten::_ctc_loss" || op == "aten::_ctc_loss_backward";
}

std::optional<ScalarType> widerType(const c10::OperatorHandle& op, ScalarType dtype) {
  const auto& name = op.operator_name().name;
  if (const auto wider = widerFloat(dtype); wider.has_value() && !needsPrecision(name)) {
    return wider;
  }
  for (const auto& entry : kOfIntegers) {
    if (name == entry.op && entry.takes(dtype)) {
      return entry.wider;
    }
  }
  return std::nullopt;
}

void run(const c10::OperatorHandle& op, Stack* stack, KernelSelection selection) {
  if (selection == KernelSelection::Dense) {
    op.redispatchBoxed(kCpu, stack);
  } else {
    op.callBoxed(stack);  // the keys above the backend are already excluded
  }
}

// Returns the elements in memory from `offset` on, independent of the view.
at::Tensor elementsOf(const at::Tensor& tensor, int64_t offset, int64_t count) {
  auto elements = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(tensor.storage()), kCpu, tensor.dtype());
  elements.unsafeGetTensorImpl()->set_sizes_and_strides(c10::IntArrayRef{count}, c10::IntArrayRef{1}, offset);
  return elements;
}

// One call in a wider dtype: chooses the dtypes to replace, converts the arguments, and converts results back.
class WiderCall {
 public:
  WiderCall(const c10::OperatorHandle& op, const OperatorInfo& info, Stack* stack, KernelSelection selection)
      : op_(op), info_(info), stack_(stack), selection_(selection), first_(stack->size() - info.written.size()) {
    for (size_t i = 0; i < info_.written.size(); ++i) {
      const auto& value = (*stack_)[first_ + i];
      const bool promotes = !op.schema().arguments()[i].is_out();
      forEachTensor(value, [&](const at::Tensor& tensor) { see(tensor, promotes); });
      if (info_.dtype_arguments[i] && value.isInt()) {
        named_ = value.toScalarType();
        add(*named_);
      }
    }
  }

  // The dtypes that have a wider dtype. More kernels lack complex numbers than their real parts, so complex dtypes are stored.
  DtypeSet narrow() const {
    return (narrow_ & dtypeBit(ScalarType::ComplexHalf)) != 0 ? dtypeBit(ScalarType::ComplexHalf) : narrow_;
  }

  // Whether the kernel would refuse this combination of dtypes, but would accept it after some are widened.
  bool mixes() const {
    constexpr auto kHalf = dtypeBit(ScalarType::Half) | dtypeBit(ScalarType::ComplexHalf);
    return others_ || ((narrow_ & kHalf) != 0 && (narrow_ & ~kHalf) != 0);
  }

  // Restores the stack if the kernel refuses the wider dtype too.
  bool run() {
    makeOperands();
    Stack wide;
    for (size_t i = 0; i < info_.written.size(); ++i) {
      const auto& value = (*stack_)[first_ + i];
      if (info_.dtype_arguments[i] && value.isInt()) {
        wide.emplace_back(widerType(op_, value.toScalarType()).value_or(value.toScalarType()));
      } else {
        wide.push_back(mapTensors(value, [&](const at::Tensor& tensor) { return wideOf(tensor); }));
      }
    }
    try {
      fallback::run(op_, &wide, selection_);
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error&) {
      return false;
    }
    writeBack();
    for (size_t i = 0; i < info_.source.size(); ++i) {
      wide[i] = info_.source[i] == OperatorInfo::kFresh ? mapTensors(wide[i], [&](const at::Tensor& result) { return rounded(result); })
                                                        : (*stack_)[first_ + info_.source[i]];
    }
    torch::jit::drop(*stack_, info_.written.size());
    stack_->insert(stack_->end(), std::make_move_iterator(wide.begin()), std::make_move_iterator(wide.end()));
    return true;
  }

 private:
  // The part of a storage that the operands of one dtype use.
  struct Extent {
    int64_t begin;
    int64_t end;
    at::Tensor elements;  // in the wider dtype
  };
  struct Operand {
    at::Tensor narrow;
    at::Tensor wide;
  };

  void add(ScalarType dtype) {
    if (widerType(op_, dtype).has_value()) {
      narrow_ |= dtypeBit(dtype);
    } else {
      others_ |= c10::isFloatingType(dtype) || c10::isComplexType(dtype);
    }
  }

  // Out arguments take no part in type promotion.
  void see(const at::Tensor& tensor, bool promotes) {
    if (!tensor.defined()) {
      return;
    }
    if (promotes) {
      promotion_ = at::native::update_result_type_state(tensor, promotion_);
    }
    if (!tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      add(tensor.scalar_type());
    }
    if (!widerType(op_, tensor.scalar_type()).has_value() ||
        !operands_.try_emplace(tensor.unsafeGetTensorImpl(), Operand{tensor, {}}).second) {
      return;
    }
    if (isMultiPart(tensor)) {
      return;
    }
    const auto begin = tensor.storage_offset();
    const auto end = begin + static_cast<int64_t>(at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), /*itemsize_bytes=*/1));
    auto& extent = extents_.try_emplace(extentKey(tensor), Extent{begin, end, {}}).first->second;
    extent.begin = std::min(extent.begin, begin);
    extent.end = std::max(extent.end, end);
  }

  // Wide operands have the strides and the overlap of the narrow operands, because strides of results and checks depend on them.
  void makeOperands() {
    for (auto& [_, operand] : operands_) {
      if (isMultiPart(operand.narrow)) {
        operand.wide = operand.narrow.to(*widerType(op_, operand.narrow.scalar_type()));
        operand.wide.set_requires_grad(operand.narrow.requires_grad());  // some kernels check it
        continue;
      }
      auto& extent = extents_.at(extentKey(operand.narrow));
      if (!extent.elements.defined()) {
        extent.elements =
            elementsOf(operand.narrow, extent.begin, extent.end - extent.begin).to(*widerType(op_, operand.narrow.scalar_type()));
      }
      operand.wide =
          extent.elements.as_strided(operand.narrow.sizes(), operand.narrow.strides(), operand.narrow.storage_offset() - extent.begin);
      operand.wide._set_conj(operand.narrow.is_conj());
      operand.wide._set_neg(operand.narrow.is_neg());
    }
  }

  void writeBack() {
    for (size_t i = 0; i < info_.written.size(); ++i) {
      if (info_.written[i]) {
        forEachTensor((*stack_)[first_ + i], [&](const at::Tensor& tensor) {
          if (const auto* operand = find(tensor)) {
            writeBack(operand->narrow, operand->wide);
          }
        });
      }
    }
  }

  void writeBack(const at::Tensor& narrow, const at::Tensor& wide) {
    if (!isMultiPart(narrow) && narrow.sizes() != wide.sizes()) {
      narrow.resize_(wide.sizes());
      if (narrow.strides() != wide.strides() && wide.is_non_overlapping_and_dense()) {
        narrow.as_strided_(wide.sizes(), wide.strides());
      }
    }
    narrow.copy_(toType(wide, narrow.scalar_type()));
  }

  // Converts a result to the dtype that a kernel for the narrow dtype would return.
  at::Tensor rounded(const at::Tensor& result) {
    if (!result.defined()) {
      return result;
    }
    for (const auto& [_, operand] : operands_) {
      if (operand.wide.is_same(result)) {
        return operand.narrow;
      }
    }
    return toType(result, narrowType(result.scalar_type()));
  }

  ScalarType narrowType(ScalarType dtype) const {
    const auto expected = named_.value_or(at::native::result_type(promotion_));
    if (widerType(op_, expected) == dtype) {
      return expected;
    }
    // The magnitudes of complex numbers, the spectrum of real ones.
    if (expected == ScalarType::ComplexHalf && dtype == ScalarType::Float) {
      return ScalarType::Half;
    }
    return expected == ScalarType::Half && dtype == ScalarType::ComplexFloat ? ScalarType::ComplexHalf : dtype;
  }

  // Counts that do not fit wrap around, like counts in the integer dtype.
  static at::Tensor toType(const at::Tensor& tensor, ScalarType dtype) {
    if (tensor.scalar_type() == dtype) {
      return tensor;
    }
    const bool whole = tensor.is_floating_point() && c10::isIntegralType(dtype, /*includeBool=*/false);
    return whole ? tensor.to(ScalarType::Long).to(dtype) : tensor.to(dtype);
  }

  at::Tensor wideOf(const at::Tensor& tensor) {
    const auto* operand = find(tensor);
    return operand != nullptr ? operand->wide : tensor;
  }

  const Operand* find(const at::Tensor& tensor) const {
    const auto found = operands_.find(tensor.unsafeGetTensorImpl());
    return found == operands_.end() ? nullptr : &found->second;
  }

  using ExtentKey = std::pair<const c10::StorageImpl*, ScalarType>;
  static ExtentKey extentKey(const at::Tensor& tensor) {
    return {tensor.storage().unsafeGetStorageImpl(), tensor.scalar_type()};
  }

  const c10::OperatorHandle& op_;
  const OperatorInfo& info_;
  Stack* stack_;
  KernelSelection selection_;
  size_t first_;
  DtypeSet narrow_ = 0;
  bool others_ = false;  // some arguments have a real or complex dtype without a wider dtype
  std::optional<ScalarType> named_;  // by a dtype argument
  at::native::ResultTypeState promotion_;
  std::unordered_map<const c10::TensorImpl*, Operand> operands_;
  std::map<ExtentKey, Extent> extents_;
};

bool runKnown(const c10::OperatorHandle& op, const OperatorInfo& info, Stack* stack, KernelSelection selection) {
  WiderCall call(op, info, stack, selection);
  return (call.narrow() & info.counter.lacking()) != 0 && !call.mixes() && call.run();
}

bool runNew(const c10::OperatorHandle& op, const OperatorInfo& info, Stack* stack, KernelSelection selection) {
  WiderCall call(op, info, stack, selection);
  if (call.narrow() == 0 || !call.run()) {
    return false;
  }
  info.counter.addLacking(call.narrow());
  return true;
}

// Saves the operands of an in-place operator whose kernel may write a part of them and then raise an error: a kernel of
// several steps that lacks some of them for complex halves, or a kernel on a list of tensors with different dtypes.
class Contents {
 public:
  Contents(const OperatorInfo& info, const Stack& stack) {
    const auto first = stack.size() - info.written.size();
    for (size_t i = 0; i < info.written.size(); ++i) {
      if (info.written[i] && mayStopHalfway(stack[first + i])) {
        forEachTensor(stack[first + i], [&](const at::Tensor& tensor) {
          if (tensor.defined()) {
            kept_.emplace_back(tensor, tensor.clone());
          }
        });
      }
    }
  }

  void restore() const {
    for (const auto& [tensor, content] : kept_) {
      tensor.copy_(content);
    }
  }

 private:
  static bool mayStopHalfway(const c10::IValue& value) {
    DtypeSet dtypes = 0;
    forEachTensor(value, [&](const at::Tensor& tensor) { dtypes |= tensor.defined() ? dtypeBit(tensor.scalar_type()) : 0; });
    constexpr auto kNarrow = dtypeBit(ScalarType::Half) | dtypeBit(ScalarType::BFloat16);
    const bool several = (dtypes & (dtypes - 1)) != 0;
    return (dtypes & dtypeBit(ScalarType::ComplexHalf)) != 0 || (several && (dtypes & kNarrow) != 0);
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;
};

}  // namespace

std::optional<ScalarType> widerFloat(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Half:
    case ScalarType::BFloat16:
      return ScalarType::Float;
    case ScalarType::ComplexHalf:
      return ScalarType::ComplexFloat;
    default:
      return std::nullopt;
  }
}

void takeWiderType(const c10::OperatorHandle& op, const OperatorInfo& info, Stack* stack, KernelSelection selection) {
  if (!runNew(op, info, stack, selection)) {
    throw;
  }
}

bool runCpuKernelWithCare(
    const c10::OperatorHandle& op, const OperatorInfo& info, Stack* stack, KernelSelection selection, c10::function_ref<void()> rebind) {
  if (info.counter.lacking() != 0 && runKnown(op, info, stack, selection)) [[unlikely]] {
    return true;
  }
  std::optional<Contents> before;
  if (info.in_place) {
    before.emplace(info, *stack);
  }
  try {
    run(op, stack, selection);
    return false;
  } catch (const c10::NotImplementedError&) {
    rebind();
    if (before.has_value()) {
      before->restore();
    }
    takeWiderType(op, info, stack, selection);
    return true;
  }
}

void runCpuKernelBoxed(const c10::OperatorHandle& op, Stack* stack) {
  auto& info = operatorInfo(op);
  const auto first = stack->size() - info.written.size();
  const Stack arguments = torch::jit::last(*stack, info.written.size()).vec();
  const auto rebind = [&] {
    stack->resize(first);
    stack->insert(stack->end(), arguments.begin(), arguments.end());
  };
  if (runCpuKernel(op, info, stack, KernelSelection::Dense, rebind)) {
    info.counter.countWidened();
  }
}

}  // namespace openreg::fallback
