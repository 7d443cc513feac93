#include "fallback/OperatorInfo.h"

#include <ATen/core/function_schema.h>

#include <array>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>

namespace openreg::fallback {
namespace {

// Operators that accept host tensors on every device, because the host reads them: lengths, batch sizes and nested shapes.
// Lists of indices may be on the host too, but are recognized by their type.
constexpr std::array<std::string_view, 6> kHostOperands = {
    "aten::_pack_padded_sequence",
    "aten::_pack_padded_sequence_backward",
    "aten::_ctc_loss",
    "aten::_ctc_loss_backward",
    "aten::_nested_from_padded",
    "aten::_nested_view_from_buffer",
};

bool isWritten(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Batch normalization writes these in training, but its schema does not say so.
bool isRunningStatistic(const c10::Argument& argument) {
  return argument.name() == "running_mean" || argument.name() == "running_var";
}

bool isOfKind(const c10::Argument& argument, c10::TypeKind kind) {
  const auto& type = argument.real_type();
  if (type->kind() == c10::TypeKind::OptionalType) {
    return type->castRaw<c10::OptionalType>()->getElementType()->kind() == kind;
  }
  return type->kind() == kind;
}

// On the CPU these refuse half precision with a RuntimeError, like a wrong argument.
bool isTransform(std::string_view name) {
  return name == "aten::_fft_c2c" || name == "aten::_fft_c2r" || name == "aten::_fft_r2c";
}

}  // namespace

OperatorInfo::OperatorInfo(const c10::OperatorHandle& op)
    : counter(OperatorCounter::of(op.operator_name())),
      has_cpu_kernel(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)),
      of_pytorch(op.operator_name().getNamespace() == "aten"),
      host_operands(std::find(kHostOperands.begin(), kHostOperands.end(), op.operator_name().name) != kHostOperands.end()) {
  if (isTransform(op.operator_name().name)) {
    counter.addLacking(dtypeBit(c10::ScalarType::Half) | dtypeBit(c10::ScalarType::ComplexHalf));
  }
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    written.push_back(isWritten(arguments[i]) || isRunningStatistic(arguments[i]));
    in_place |= written.back() && !arguments[i].kwarg_only();
    dtype_arguments.push_back(isOfKind(arguments[i], c10::TypeKind::ScalarTypeType));
    if (isOfKind(arguments[i], c10::TypeKind::DeviceObjType)) {
      device_argument = static_cast<int>(i);
    }
    if (isOfKind(arguments[i], c10::TypeKind::GeneratorType)) {
      generator_argument = static_cast<int>(i);
    }
  }
  for (const auto& result : op.schema().returns()) {
    source.push_back(kFresh);
    for (size_t i = 0; isWritten(result) && i < arguments.size(); ++i) {
      if (isWritten(arguments[i]) && arguments[i].alias_info()->beforeSets() == result.alias_info()->beforeSets()) {
        source.back() = static_cast<int>(i);
      }
    }
  }
}

namespace {

// The operators seen so far. A handle is the address of the operator's definition. If an operator is deregistered (tests with
// torch.library do this), a later operator may get its address, so its entry is removed with it.
class Cache final : public c10::OpRegistrationListener {
 public:
  static Cache& instance() {
    static auto& cache = *[] {
      auto listener = std::make_unique<Cache>();
      auto* cache = listener.get();
      // Registered permanently: the handle that could remove the listener is dropped.
      static auto& registration =
          *new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().addRegistrationListener(std::move(listener)));
      static_cast<void>(registration);
      return cache;
    }();
    return cache;
  }

  OperatorInfo& get(const c10::OperatorHandle& op) {
    {
      const std::shared_lock<std::shared_mutex> guard(mutex_);
      if (const auto found = infos_.find(op); found != infos_.end()) [[likely]] {
        return *found->second;
      }
    }
    auto info = std::make_unique<OperatorInfo>(op);
    const std::unique_lock<std::shared_mutex> guard(mutex_);
    return *infos_.try_emplace(op, std::move(info)).first->second;
  }

  void onOperatorRegistered(const c10::OperatorHandle& /*op*/) override {}

  void onOperatorDeregistered(const c10::OperatorHandle& op) override {
    const std::unique_lock<std::shared_mutex> guard(mutex_);
    if (auto node = infos_.extract(op)) {
      retired_.push_back(std::move(node.mapped()));  // a running call may use it
    }
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<c10::OperatorHandle, std::unique_ptr<OperatorInfo>> infos_;
  std::vector<std::unique_ptr<OperatorInfo>> retired_;
};

}  // namespace

OperatorInfo& operatorInfo(const c10::OperatorHandle& op) {
  return Cache::instance().get(op);
}

}  // namespace openreg::fallback
