#include "fallback/Boxed.h"

#include <iterator>

#include "fallback/TensorsInIValue.h"
#include "fallback/WiderDtype.h"

namespace openreg::fallback {
namespace {

using torch::jit::Stack;

c10::IValue aliasOf(Call& call, const c10::IValue& value, Call::Use use) {
  if (value.isOptionalTensorList()) {
    use = Call::Use::ReadAnywhere;  // indices
  }
  return mapTensors(value, [&](const at::Tensor& tensor) { return at::Tensor(call.alias(tensor, use)); });
}

std::optional<at::Generator> generatorOf(const c10::IValue& value) {
  return value.isNone() ? std::nullopt : std::optional<at::Generator>(value.toGenerator());
}

Call::Use useOf(const OperatorInfo& info, size_t argument) {
  if (info.written[argument]) {
    return Call::Use::Write;
  }
  return info.host_operands ? Call::Use::ReadAnywhere : Call::Use::Read;
}

// Some sparse kernels check whether a gradient will be computed, and save its inputs only then.
void tellOfGradients(const Arguments& originals, const Stack& stack) {
  for (size_t i = 0; i < originals.size(); ++i) {
    const auto& alias = stack[stack.size() - originals.size() + i];
    if (originals[i].isTensor() && originals[i].toTensor().requires_grad() && alias.toTensor().is_cpu()) {
      alias.toTensor().set_requires_grad(true);
    }
  }
}

}  // namespace

std::optional<c10::DeviceIndex> deviceOf(const OperatorInfo& info, const Stack& stack) {
  if (info.device_argument < 0) {
    return std::nullopt;
  }
  const auto& value = stack[stack.size() - info.written.size() + info.device_argument];
  return value.isDevice() ? std::optional(deviceNamed(value.toDevice())) : std::nullopt;
}

namespace {

// Replaces the arguments on the stack, from `first` on, by those of the CPU kernel.
void pushOperands(Call& call, const OperatorInfo& info, const Arguments& originals, Stack* stack, size_t first) {
  stack->resize(first + originals.size());
  for (size_t i = 0; i < originals.size(); ++i) {
    (*stack)[first + i] = aliasOf(call, originals[i], useOf(info, i));
  }
  if (info.device_argument >= 0 && originals[info.device_argument].isDevice()) {
    (*stack)[first + info.device_argument] = c10::Device(c10::kCPU);
  }
  if (info.generator_argument >= 0) {
    (*stack)[first + info.generator_argument] = call.engine(generatorOf(originals[info.generator_argument]));
  }
}

}  // namespace

Arguments bindOperands(Call& call, const OperatorInfo& info, Stack* stack) {
  const auto first = stack->size() - info.written.size();
  Arguments originals(std::make_move_iterator(stack->begin() + static_cast<ptrdiff_t>(first)), std::make_move_iterator(stack->end()));
  pushOperands(call, info, originals, stack, first);
  return originals;
}

void runBoxed(const c10::OperatorHandle& op, const OperatorInfo& info, Stack* stack, KernelSelection selection, Call::Memory memory) {
  Call call(deviceOf(info, *stack), memory, info.of_pytorch ? KernelAuthor::PyTorch : KernelAuthor::Program);
  const auto originals = bindOperands(call, info, stack);
  if (selection == KernelSelection::ByOperands) {
    tellOfGradients(originals, *stack);
  }

  const auto first = stack->size() - originals.size();
  call.run([&] {
    if (runCpuKernel(op, info, stack, selection, [&] { pushOperands(call, info, originals, stack, first); })) [[unlikely]] {
      info.counter.countWidened();
    }
  });

  const size_t results = info.source.size();
  for (size_t i = 0; i < results; ++i) {
    auto& value = (*stack)[stack->size() - results + i];
    value = info.source[i] == OperatorInfo::kFresh ? mapTensors(value, [&](const at::Tensor& result) { return call.adopt(result); })
                                                   : originals[info.source[i]];
  }
}

}  // namespace openreg::fallback
