#include "aten/emulation/Call.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/TensorImpl.h>

#include <array>
#include <mutex>

#include "aten/emulation/Alias.h"
#include "aten/emulation/Compound.h"
#include "device/Launch.h"
#include "device/Memory.h"
#include "runtime/CachingAllocator.h"
#include "runtime/Generator.h"
#include "runtime/HostKernel.h"

namespace openreg::emulation {
namespace {

constexpr c10::DispatchKeySet kDeviceKey(c10::DispatchKey::PrivateUse1);

// Host memory for a copy of the operand's, without content.
c10::Storage hostStorageFor(const at::Tensor& operand) {
  TORCH_CHECK_NOT_IMPLEMENTED(operand.has_storage(), "this operator cannot take a tensor of layout ", operand.layout(), " on this device");
  const auto& storage = operand.storage();
  return c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), &cpuAllocator(), storage.resizable());
}

// The bytes from the first element of a tensor to its last.
size_t spannedBytes(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.dtype().itemsize());
}

// In place, the SDK gives each kernel its turn on the stream. On copies, a kernel has it from the first copy to the last:
// otherwise two threads could both read what a third one had written, and one result would be lost. Streams that share a
// lock only wait for each other a little. Recursive, since a kernel may call operators.
std::recursive_mutex& turnOn(c10::Stream stream) {
  constexpr size_t kLocks = 64;
  static auto& locks = *new std::array<std::recursive_mutex, kLocks>;
  return locks[(static_cast<size_t>(stream.id()) + static_cast<size_t>(stream.device_index()) * 17) % kLocks];
}

// Memory of the device with the content of a CPU storage.
c10::DataPtr deviceCopy(const c10::StorageImpl& storage, c10::DeviceIndex device) {
  auto copy = cachingAllocator().allocateOn(device, storage.nbytes());
  if (storage.nbytes() > 0) {
    device::copyAsync(copy.get(), storage.data(), storage.nbytes(), currentStreamHandle(device));
  }
  return copy;
}

}  // namespace

Call::~Call() {
  for (auto& operand : operands_) {
    recycleAlias(std::move(operand.alias));
  }
}

void Call::setDevice(const at::Tensor& operand) {
  const auto index = operand.device().index();
  if (device_ == kUnknown) {
    device_ = index;
  }
  TORCH_CHECK(
      device_ == index, "Expected all tensors to be on the same device, but found at least two devices, ", c10::Device(kDeviceType, device_), " and ", operand.device(), "!");
}

const at::Tensor& Call::bind(const at::Tensor& operand, Keep keep, Use use) {
  if (!operand.defined()) {
    return operand;
  }
  if (operand.device().type() != kDeviceType) [[unlikely]] {
    TORCH_CHECK(
        operand.is_cpu() && ((operand.dim() == 0 && use == Use::Read) || use == Use::ReadAnywhere), "Expected all tensors to be on the same device, but found at least two devices, ",
        device(), " and ", operand.device(), "!");
    return operand;
  }
  setDevice(operand);
  if (isCompound(operand)) [[unlikely]] {
    return bindCompound(operand, keep, use);
  }
  const bool written = use == Use::Write;
  auto* relative = findOriginal(operand);
  if (relative != nullptr && relative->original->is_same(operand)) {
    relative->written |= written;
    return relative->alias;
  }
  const bool in_place = memory_ == Memory::InPlace && relative == nullptr;
  auto alias = in_place ? makeAlias(operand) : makeAlias(operand, relative != nullptr ? relative->alias.storage() : hostStorageFor(operand));
  operands_.push_back({hold(operand, keep), std::move(alias), written});
  return operands_.back().alias;
}

const at::Tensor& Call::bindCompound(const at::Tensor& operand, Keep keep, Use use) {
  for (auto& compound : compounds_) {
    if (compound.original->is_same(operand)) {
      compound.written |= use == Use::Write;
      return compound.alias;
    }
  }
  auto result = rebuild(operand, c10::kCPU, [&](const at::Tensor& part, bool parameter) { return alias(at::Tensor(part), parameter ? Use::ReadAnywhere : use); });
  compounds_.push_back({hold(operand, keep), std::move(result), use == Use::Write});
  return compounds_.back().alias;
}

// The operand that is this tensor, else one that shares its memory.
Call::Operand* Call::findOriginal(const at::Tensor& tensor) {
  constexpr size_t kShort = 16;
  const auto* storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (operands_.size() > kShort) {
    // Lists of parameters: hundreds of tensors, each with memory of its own.
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
      generator->device().type() == kDeviceType, "Expected a '", c10::DeviceTypeName(kDeviceType, true), "' device type for generator but found '", generator->device(), "'");
  return static_cast<GeneratorImpl*>(generator->unsafeGetGeneratorImpl())->engine();
}

// A kernel may have given a written operand other memory (resize, set_) or another shape.
void Call::writeBack(const Operand& operand) const {
  memory_ == Memory::InPlace ? moveBack(operand) : copyBack(operand);
  auto* impl = operand.original->unsafeGetTensorImpl();
  const auto* alias = operand.alias.unsafeGetTensorImpl();
  if (impl->sizes() != alias->sizes() || impl->strides() != alias->strides() || impl->storage_offset() != alias->storage_offset()) {
    impl->set_sizes_and_strides(alias->sizes(), alias->strides(), alias->storage_offset());
  }
}

void Call::moveBack(const Operand& operand) const {
  auto* storage = operand.original->storage().unsafeGetStorageImpl();
  auto* alias_storage = operand.alias.storage().unsafeGetStorageImpl();
  if (auto& data = alias_storage->_mutable_data_ptr_no_checks(); data.get_context() != nullptr) {
    const auto nbytes = alias_storage->nbytes();
    const bool retagged = retag(data, operand.original->device().index());
    TORCH_INTERNAL_ASSERT(retagged, "a kernel gave its output memory that is not the device's");
    storage->set_data_ptr_noswap(std::move(data));
    storage->set_nbytes(nbytes);
  }
}

void Call::copyBack(const Operand& operand) const {
  auto* storage = operand.original->storage().unsafeGetStorageImpl();
  const auto& alias = operand.alias;
  const auto& copied = *alias.storage().unsafeGetStorageImpl();
  if (copied.nbytes() != storage->nbytes()) {
    storage->set_data_ptr_noswap(deviceCopy(copied, device_));
    storage->set_nbytes(copied.nbytes());
  } else if (const size_t nbytes = spannedBytes(alias); nbytes > 0) {
    char* start = static_cast<char*>(storage->mutable_data()) + alias.storage_offset() * static_cast<int64_t>(alias.dtype().itemsize());
    device::copyAsync(start, alias.const_data_ptr(), nbytes, currentStreamHandle(device_));
  }
}

void Call::run(c10::function_ref<void()> kernel) {
  if (device_ == kUnknown) [[unlikely]] {
    device_ = currentDevice();
  }
  if (memory_ == Memory::Copies) {
    runOnCopies(kernel);
    return;
  }
  const HostKernel submitted(device_, currentStreamId(device_));
  device::runOnStream(currentStreamHandle(device_), [&] {
    scope_.emplace(device_);
    kernel();
    finish();
  });
}

void Call::runOnCopies(c10::function_ref<void()> kernel) {
  const auto stream = currentStream(device_);
  const std::lock_guard<std::recursive_mutex> turn(turnOn(stream.unwrap()));
  for (const auto& operand : operands_) {
    if (const size_t nbytes = spannedBytes(*operand.original); nbytes > 0 && operand.original->storage().data() != nullptr) {
      device::copyAsync(operand.alias.mutable_data_ptr(), operand.original->const_data_ptr(), nbytes, stream.handle());
    }
  }
  stream.synchronize();
  below_autograd_.emplace(kAboveKernels);
  kernel();
  finish();
  stream.synchronize();  // the copies may go at once
}

void Call::finish() {
  for (const auto& operand : operands_) {
    if (operand.written) {
      writeBack(operand);
    }
  }
  for (const auto& compound : compounds_) {
    if (compound.written) {
      assign(*compound.original, compound.alias, [&](const at::Tensor& part, bool) { return adopt(part); });
    }
  }
}

// The operand whose alias this result is, else one whose memory it shares.
const Call::Operand* Call::findAlias(const at::Tensor& result) const {
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

at::Tensor Call::adoptCompound(const at::Tensor& result) {
  for (const auto& compound : compounds_) {
    if (compound.alias.is_same(result)) {
      return *compound.original;
    }
  }
  return rebuild(result, c10::Device(kDeviceType, device_), [&](const at::Tensor& part, bool) { return adopt(part); });
}

at::Tensor Call::adopt(at::Tensor result) {
  if (!result.defined()) {
    return result;
  }
  if (isCompound(result)) [[unlikely]] {
    return adoptCompound(result);
  }
  auto* impl = result.unsafeGetTensorImpl();
  TORCH_CHECK_NOT_IMPLEMENTED(impl->has_storage(), "this operator gave a tensor of layout ", impl->layout(), ", which this device has not");
  const c10::Device device(kDeviceType, device_);
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();

  if (storage->device_type() == c10::kCPU) {
    auto& data = storage->_mutable_data_ptr_no_checks();
    if (memory_ == Memory::Copies || (data.get_context() == nullptr && data.get() != nullptr)) {
      if (const auto* operand = findAlias(result)) {
        if (operand->alias.is_same(result)) {
          return *operand->original;
        }
        auto view = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(operand->original->storage()), kDeviceKey, impl->dtype());
        view.unsafeGetTensorImpl()->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
        view.unsafeGetTensorImpl()->_set_conj(result.is_conj());
        view.unsafeGetTensorImpl()->_set_neg(result.is_neg());
        return view;
      }
    }
    if (!retag(data, device_)) {
      // Memory that did not come through the CPU allocator: the host's, a constant, or nothing at all.
      auto own = c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), storage->nbytes(), deviceCopy(*storage, device_), &cachingAllocator(), /*resizable=*/true);
      auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(own)), kDeviceKey, impl->dtype());
      tensor.unsafeGetTensorImpl()->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
      tensor.unsafeGetTensorImpl()->_set_conj(result.is_conj());
      tensor.unsafeGetTensorImpl()->_set_neg(result.is_neg());
      return tensor;
    }
    storage->set_allocator(&cachingAllocator());
  }
  // Setting the storage again is what makes the tensor read its device from it.
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

}  // namespace openreg::emulation
