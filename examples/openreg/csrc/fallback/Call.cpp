#include "fallback/Call.h"

#include <c10/core/TensorImpl.h>

#include <utility>

#include "fallback/Alias.h"
#include "fallback/MultiPartTensor.h"
#include "runtime/Generator.h"
#include "runtime/memory/CachingAllocator.h"
#include "runtime/memory/Storage.h"

namespace openreg::fallback {
namespace {

constexpr c10::DispatchKeySet kDeviceKey(c10::DispatchKey::PrivateUse1);

// Makes a tensor of the device over `storage`, with the shape and the other properties of a CPU tensor.
at::Tensor deviceTensor(c10::Storage storage, const at::Tensor& like) {
  auto* impl = like.unsafeGetTensorImpl();
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), kDeviceKey, impl->dtype());
  auto* made = tensor.unsafeGetTensorImpl();
  made->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
  made->_set_conj(like.is_conj());
  made->_set_neg(like.is_neg());
  return tensor;
}

}  // namespace

c10::DeviceIndex deviceNamed(c10::Device device) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      device.type() == kDeviceType, "a kernel of device ", c10::DeviceTypeName(kDeviceType, /*lower_case=*/true),
      " cannot make a tensor on device ", device, ". Leave this operator to PyTorch's own code: remove the kernel");
  return resolveDevice(device.index());
}

Call::~Call() {
  for (auto& operand : operands_) {
    releaseAlias(std::move(operand.alias), *operand.original);
  }
}

void Call::setDevice(const at::Tensor& operand) {
  const auto index = operand.device().index();
  if (device_ == kUnknown) {
    device_ = index;
  }
  TORCH_CHECK(
      device_ == index, "Expected all tensors to be on the same device, but found at least two devices, ",
      c10::Device(kDeviceType, device_), " and ", operand.device(), "!");
}

const at::Tensor& Call::bind(const at::Tensor& operand, Keep keep, Use use) {
  if (!operand.defined()) {
    return operand;
  }
  if (operand.device().type() != kDeviceType) [[unlikely]] {
    TORCH_CHECK(
        operand.is_cpu() && ((operand.dim() == 0 && use == Use::Read) || use == Use::ReadAnywhere),
        "Expected all tensors to be on the same device, but found at least two devices, ", device(), " and ", operand.device(), "!");
    return operand;
  }
  setDevice(operand);
  if (isMultiPart(operand)) [[unlikely]] {
    return bindMultiPart(operand, keep, use);
  }
  const bool written = use == Use::Write;
  auto* relative = findOriginal(operand);
  if (relative != nullptr && relative->original->is_same(operand)) {
    relative->written |= written;
    return relative->alias;
  }
  auto alias = relative != nullptr ? makeAlias(operand, relative->alias.storage())
                                   : std::visit([&](const auto& strategy) { return strategy.makeAlias(operand); }, strategy_);
  operands_.push_back({hold(operand, keep), std::move(alias), written});
  return operands_.back().alias;
}

const at::Tensor& Call::bindMultiPart(const at::Tensor& operand, Keep keep, Use use) {
  for (auto& multi_part : multi_parts_) {
    if (multi_part.original->is_same(operand)) {
      multi_part.written |= use == Use::Write;
      return multi_part.alias;
    }
  }
  auto result = rebuild(operand, c10::kCPU, [&](const at::Tensor& part, bool parameter) {
    return alias(at::Tensor(part), parameter ? Use::ReadAnywhere : use);
  });
  multi_parts_.push_back({hold(operand, keep), std::move(result), use == Use::Write});
  return multi_parts_.back().alias;
}

// Finds the operand that is this tensor, else an operand that shares its memory.
Operand* Call::findOriginal(const at::Tensor& tensor) {
  constexpr size_t kShort = 16;
  const auto* storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (operands_.size() > kShort) {
    // Lists of parameters have hundreds of tensors with separate memory.
    for (; indexed_ < operands_.size(); ++indexed_) {
      storages_.insert(operands_[indexed_].original->unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
    }
    if (!storages_.contains(storage)) {
      return nullptr;
    }
  }
  Operand* relative = nullptr;
  for (auto& operand : operands_) {
    if (operand.original->is_same(tensor)) {
      return &operand;
    }
    if (operand.original->unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() == storage) {
      relative = &operand;
    }
  }
  return relative;
}

at::Generator Call::engine(const std::optional<at::Generator>& generator) {
  if (device_ == kUnknown) {
    device_ = currentDevice();
  }
  if (!generator.has_value() || !generator->defined()) {
    return static_cast<GeneratorImpl*>(defaultGenerator(device_).unsafeGetGeneratorImpl())->engine();
  }
  TORCH_CHECK(
      generator->device().type() == kDeviceType, "Expected a '", c10::DeviceTypeName(kDeviceType, true),
      "' device type for generator but found '", generator->device(), "'");
  return static_cast<GeneratorImpl*>(generator->unsafeGetGeneratorImpl())->engine();
}

void Call::run(c10::function_ref<void()> kernel) {
  if (device_ == kUnknown) [[unlikely]] {
    device_ = currentDevice();
  }
  std::visit(
      [&](auto& strategy) {
        strategy.run(device_, author_, operands_, [&] {
          kernel();
          writeBack(strategy);
        });
      },
      strategy_);
}

// Applies a change of memory (resize, set_) or of shape by the kernel to the written operands.
template <class Strategy>
void Call::writeBack(const Strategy& strategy) {
  for (const auto& operand : operands_) {
    if (!operand.written) {
      continue;
    }
    strategy.writeBack(operand);
    auto* impl = operand.original->unsafeGetTensorImpl();
    const auto* alias = operand.alias.unsafeGetTensorImpl();
    if (impl->sizes() != alias->sizes() || impl->strides() != alias->strides() || impl->storage_offset() != alias->storage_offset()) {
      impl->set_sizes_and_strides(alias->sizes(), alias->strides(), alias->storage_offset());
    }
    if (impl->is_conj() != alias->is_conj()) [[unlikely]] {
      impl->_set_conj(alias->is_conj());
    }
  }
  for (const auto& multi_part : multi_parts_) {
    if (multi_part.written) {
      assign(*multi_part.original, multi_part.alias, [&](const at::Tensor& part, bool) { return adopt(part); });
    }
  }
}

// Finds the operand whose alias this result is, else an operand whose memory it shares.
const Operand* Call::findAlias(const at::Tensor& result) const {
  const auto* storage = result.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  const Operand* relative = nullptr;
  for (const auto& operand : operands_) {
    if (operand.alias.is_same(result)) {
      return &operand;
    }
    if (operand.alias.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() == storage) {
      relative = &operand;
    }
  }
  return relative;
}

at::Tensor Call::adoptMultiPart(const at::Tensor& result) {
  for (const auto& multi_part : multi_parts_) {
    if (multi_part.alias.is_same(result)) {
      return *multi_part.original;
    }
  }
  return rebuild(result, c10::Device(kDeviceType, device_), [&](const at::Tensor& part, bool) { return adopt(part); });
}

at::Tensor Call::adopt(at::Tensor result) {
  if (!result.defined()) {
    return result;
  }
  if (isMultiPart(result)) [[unlikely]] {
    return adoptMultiPart(result);
  }
  auto* impl = result.unsafeGetTensorImpl();
  TORCH_CHECK_NOT_IMPLEMENTED(
      impl->has_storage(), "this operator returned a tensor of layout ", impl->layout(), ", which this device does not support");
  const c10::Device device(kDeviceType, device_);
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();

  if (storage->device_type() == c10::kCPU) {
    auto& memory = storage->_mutable_data_ptr_no_checks();
    if (std::visit([&](const auto& strategy) { return strategy.mayBelongToAlias(memory); }, strategy_)) {
      if (const auto* operand = findAlias(result)) {
        return operand->alias.is_same(result) ? *operand->original : deviceTensor(operand->original->storage(), result);
      }
    }
    if (!retag(memory, device_)) {
      // The memory does not come from the CPU allocator: it is host memory, a constant, or null.
      auto own = c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), storage->nbytes(), copyToDevice(*storage, device_), &cachingAllocator(), /*resizable=*/true);
      return deviceTensor(c10::Storage(std::move(own)), result);
    }
    storage->set_allocator(&cachingAllocator());
  }
  // The tensor updates its device only when its storage is set.
  impl->set_storage_keep_dtype(impl->unsafe_storage());
  impl->_change_backend_component_keys(device);
  return result;
}

std::vector<at::Tensor> Call::adopt(std::vector<at::Tensor> results) {
  for (auto& result : results) {
    result = adopt(std::move(result));
  }
  return results;
}

}  // namespace openreg::fallback
