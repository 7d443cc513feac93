#include "graph/Recorder.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/function_schema.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "device/Graph.h"
#include "fallback/Alias.h"
#include "fallback/Boxed.h"
#include "fallback/Call.h"
#include "fallback/MultiPartTensor.h"
#include "fallback/TensorsInIValue.h"
#include "graph/Graph.h"
#include "graph/RecordedCall.h"

namespace openreg::graph {
namespace {

using torch::jit::Stack;

c10::DeviceIndex deviceIndexOf(const fallback::OperatorInfo& info, const Stack& stack) {
  auto index = fallback::deviceOf(info, stack);
  for (const auto& value : torch::jit::last(stack, info.written.size())) {
    fallback::forEachTensor(value, [&](const at::Tensor& tensor) {
      if (!index.has_value() && tensor.defined() && tensor.device().type() == kDeviceType) {
        index = tensor.device().index();
      }
    });
  }
  return index.value_or(currentDevice());
}

at::Tensor metaOf(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device().type() != kDeviceType) {
    return tensor;
  }
  auto meta = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kMeta));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  meta._set_conj(tensor.is_conj());
  meta._set_neg(tensor.is_neg());
  return meta;
}

// Whether nothing can be recorded without knowing what the operator would give: a shape.
bool needsShapes(const c10::OperatorHandle& op, const fallback::OperatorInfo& info) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (info.written[i] && arguments[i].kwarg_only()) {
      return true;  // an out argument may have to be resized
    }
  }
  return std::find(info.source.begin(), info.source.end(), fallback::OperatorInfo::kFresh) != info.source.end();
}

// Many Meta kernels are written in Python. This library knows the type of their exceptions only by name.
bool saysNotImplemented(const std::exception& error) {
  return dynamic_cast<const c10::NotImplementedError*>(&error) != nullptr ||
         std::string_view(error.what()).starts_with("NotImplementedError");
}

[[noreturn]] void refuse(const fallback::OperatorInfo& info, const std::exception& reason) {
  const auto* error = dynamic_cast<const c10::Error*>(&reason);
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, info.counter.name(), " cannot be captured into a graph, since nobody knows the shape of its results before it has run: ",
      error != nullptr ? error->what_without_backtrace() : reason.what());
}

void resizeLike(const c10::IValue& argument, const c10::IValue& meta) {
  std::vector<at::Tensor> sized;
  fallback::forEachTensor(meta, [&](const at::Tensor& tensor) { sized.push_back(tensor); });
  size_t next = 0;
  fallback::forEachTensor(argument, [&](const at::Tensor& tensor) {
    if (const auto& like = sized.at(next++); like.defined() && like.sizes() != tensor.sizes()) {
      tensor.resize_(like.sizes());
    }
  });
}

// What the operator would give, as Meta tensors. Gives out arguments their size. Raises for shapes and dtypes that do not fit,
// since a replay is too late for that. Without a Meta kernel an operator that only writes its arguments is recorded unchecked.
Stack inferResults(const c10::OperatorHandle& op, const fallback::OperatorInfo& info, const Stack& stack) {
  const bool needed = needsShapes(op, info);
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        !needed, info.counter.name(),
        " cannot be captured into a graph: PyTorch has no Meta kernel that computes the shapes of its results");
    return Stack(info.source.size());
  }
  const auto arguments = torch::jit::last(stack, info.written.size());
  Stack meta;
  for (const auto& argument : arguments) {
    meta.push_back(fallback::mapTensors(argument, metaOf));
  }
  if (info.device_argument >= 0) {
    meta[info.device_argument] = c10::Device(c10::kMeta);
  }
  if (info.generator_argument >= 0) {
    meta[info.generator_argument] = c10::IValue();  // the device's
  }
  const Stack given = meta;
  try {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &meta);
  } catch (const std::exception& error) {
    if (!saysNotImplemented(error)) {
      throw;  // wrong arguments
    }
    if (needed) {
      refuse(info, error);
    }
    return Stack(info.source.size());
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (info.written[i]) {
      resizeLike(arguments[i], given[i]);
    }
  }
  return meta;
}

at::Tensor allocateLike(const at::Tensor& meta, c10::Device device) {
  return meta.defined() ? at::empty_strided(meta.sizes(), meta.strides(), meta.options().device(device)) : at::Tensor();
}

// The results on the device; `aliases` gets those that a replay has to fill, in the order of RecordedCall.
Stack makeResults(
    const fallback::OperatorInfo& info, const Stack& meta, const Stack& arguments, c10::Device device, std::vector<at::Tensor>& aliases) {
  Stack results;
  const auto add = [&](const at::Tensor& like) {
    auto result = allocateLike(like, device);
    aliases.push_back(result.defined() ? fallback::makeAlias(result) : result);
    return result;
  };
  for (size_t i = 0; i < info.source.size(); ++i) {
    if (info.source[i] != fallback::OperatorInfo::kFresh) {
      results.push_back(arguments[info.source[i]]);
      aliases.emplace_back();
    } else if (meta[i].isTensor()) {
      results.emplace_back(add(meta[i].toTensor()));
    } else if (meta[i].isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& like : meta[i].toTensorList()) {
        list.push_back(add(like));
      }
      results.emplace_back(std::move(list));
    } else {
      TORCH_CHECK_NOT_IMPLEMENTED(
          false, info.counter.name(), " cannot be captured into a graph: it returns a number, and the host would have to wait for it");
    }
  }
  return results;
}

// Meta tensors have no addresses, so Meta kernels do not see which tensors overlap.
void checkOverlaps(const c10::OperatorHandle& op, const fallback::OperatorInfo& info, const Stack& stack) {
  if (op.schema().getNamespace() != std::optional<std::string_view>("aten")) {
    return;  // a custom operator may support overlapping tensors
  }
  const auto arguments = torch::jit::last(stack, info.written.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!info.written[i]) {
      continue;
    }
    fallback::forEachTensor(arguments[i], [](const at::Tensor& written) {
      if (written.defined()) {
        at::assert_no_internal_overlap(written);
      }
    });
    for (const auto& other : arguments) {
      if (arguments[i].isTensor() && other.isTensor() && arguments[i].toTensor().defined() && other.toTensor().defined()) {
        at::assert_no_partial_overlap(arguments[i].toTensor(), other.toTensor());
      }
    }
  }
}

// Copies a host operand, so that replays use its value at the capture, like a number in a kernel's argument block.
c10::IValue keepHostOperands(const c10::IValue& value) {
  return fallback::mapTensors(value, [](const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cpu()) {
      return tensor;
    }
    const at::NoGradGuard no_grad;
    auto copy = tensor.resolve_conj().resolve_neg().detach().clone();
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      copy.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    return copy;
  });
}

void refuseViews(const c10::OperatorHandle& op, const fallback::OperatorInfo& info) {
  for (const auto& result : op.schema().returns()) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        result.alias_info() == nullptr || result.alias_info()->isWrite(), info.counter.name(),
        " cannot be captured into a graph: its result may share memory with an argument");
  }
}

void refuseMultiPartTensors(const fallback::OperatorInfo& info, const Stack& stack) {
  for (const auto& value : torch::jit::last(stack, info.written.size())) {
    fallback::forEachTensor(value, [&](const at::Tensor& tensor) {
      TORCH_CHECK_NOT_IMPLEMENTED(
          !tensor.defined() || !fallback::isMultiPart(tensor), info.counter.name(),
          " takes a sparse, quantized or nested tensor, which a graph cannot record; do that outside of the capture");
    });
  }
}

}  // namespace

bool record(const c10::OperatorHandle& op, const fallback::OperatorInfo& info, Stack* stack) {
  const auto index = deviceIndexOf(info, *stack);
  const auto stream = currentStreamHandle(index);
  auto* graph = Graph::capturing(index);
  if (graph == nullptr || !device::isCapturing(stream)) {
    return false;
  }
  refuseViews(op, info);
  refuseMultiPartTensors(info, *stack);
  const auto meta = inferResults(op, info, *stack);
  checkOverlaps(op, info, *stack);

  Stack arguments;
  for (const auto& value : torch::jit::last(*stack, info.written.size())) {
    arguments.push_back(keepHostOperands(value));
  }
  std::vector<at::Tensor> aliases;
  auto results = makeResults(info, meta, arguments, c10::Device(kDeviceType, index), aliases);
  fallback::Call call(index);
  fallback::bindOperands(call, info, &arguments);
  call.releaseAliases();

  graph->add(std::make_unique<RecordedCall>(op, std::move(arguments), std::move(aliases)), stream);
  torch::jit::drop(*stack, info.written.size());
  stack->insert(stack->end(), std::make_move_iterator(results.begin()), std::make_move_iterator(results.end()));
  return true;
}

}  // namespace openreg::graph
