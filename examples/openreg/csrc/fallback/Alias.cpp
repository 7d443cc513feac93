#include "fallback/Alias.h"

#include <c10/core/TensorImpl.h>

#include <vector>

#include "device/Address.h"
#include "fallback/MemoryScope.h"
#include "runtime/memory/CachingAllocator.h"

namespace openreg::fallback {
namespace {

// The dispatch keys of a CPU tensor. An inference tensor has no autograd keys; PyTorch recognizes it by this.
constexpr c10::DispatchKeySet kInferenceKeys{c10::DispatchKey::CPU, c10::DispatchKey::AutocastCPU};
constexpr c10::DispatchKeySet kCpuKeys =
    kInferenceKeys | c10::DispatchKeySet{c10::DispatchKey::AutogradCPU, c10::DispatchKey::ADInplaceOrView};

// Creating a tensor and its storage takes as long as adding two small tensors, and every operator needs some, so aliases are reused.
constexpr size_t kKept = 8;
thread_local std::vector<at::Tensor> kept_aliases;

c10::DataPtr kernelData(c10::StorageImpl* storage) {
  return {device::toKernelAddress(storage->mutable_data()), c10::Device(c10::kCPU)};
}

// Copies the attributes of the operand to its alias.
void describe(c10::TensorImpl* alias, c10::TensorImpl* operand) {
  if (!operand->is_inference()) {
    // Both share one version counter, so that a write of the kernel counts as a write to the operand.
    alias->set_version_counter(operand->version_counter());
  }
  alias->set_sizes_and_strides(operand->sizes(), operand->strides(), operand->storage_offset());
  if (operand->is_wrapped_number()) [[unlikely]] {
    alias->set_wrapped_number(true);
  }
  if (operand->is_conj()) [[unlikely]] {
    alias->_set_conj(true);
  }
  if (operand->is_neg()) [[unlikely]] {
    alias->_set_neg(true);
  }
}

// Reuses an alias of an earlier operand for the new operand's memory; undefined if there is none.
at::Tensor reuse(c10::TensorImpl* operand, c10::StorageImpl* storage) {
  auto& kept = kept_aliases;
  if (kept.empty() || operand->is_inference()) {
    return {};
  }
  auto alias = std::move(kept.back());
  kept.pop_back();
  auto* impl = alias.unsafeGetTensorImpl();
  auto* own = impl->unsafe_storage().unsafeGetStorageImpl();
  own->set_data_ptr_noswap(kernelData(storage));
  own->set_nbytes(storage->nbytes());
  own->set_resizable(storage->resizable());
  if (impl->dtype() != operand->dtype()) {
    impl->set_storage_and_dtype(impl->storage(), operand->dtype());
  }
  return alias;
}

// Makes the storage of an alias an additional owner of the operand's memory. Owning the operand's storage would not suffice,
// because a storage releases its memory when it is resized.
void shareMemory(c10::StorageImpl* alias, const c10::Storage& operand) {
  auto* address = device::toKernelAddress(operand.unsafeGetStorageImpl()->mutable_data());
  if (address == nullptr) {
    return;
  }
  const auto& data = operand.data_ptr();
  if (CachingAllocator::addOwner(data)) {
    alias->set_data_ptr_noswap({address, data.get_context(), &CachingAllocator::deleteBlock, c10::Device(c10::kCPU)});
  } else {  // memory of another library or process
    alias->set_data_ptr_noswap(
        {address, new c10::Storage(operand), [](void* owner) { delete static_cast<c10::Storage*>(owner); }, c10::Device(c10::kCPU)});
  }
  alias->set_nbytes(operand.nbytes());
}

}  // namespace

at::Tensor makeAlias(const at::Tensor& operand, c10::Storage storage) {
  auto* impl = operand.unsafeGetTensorImpl();
  // VIEW: the alias gets no version counter of its own.
  auto alias = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, std::move(storage), impl->is_inference() ? kInferenceKeys : kCpuKeys, impl->dtype());
  describe(alias.unsafeGetTensorImpl(), impl);
  return alias;
}

at::Tensor makeAlias(const at::Tensor& operand) {
  auto* impl = operand.unsafeGetTensorImpl();
  TORCH_CHECK_NOT_IMPLEMENTED(impl->has_storage(), "this operator cannot take a tensor of layout ", impl->layout(), " on this device");
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (auto alias = reuse(impl, storage); alias.defined()) {
    describe(alias.unsafeGetTensorImpl(), impl);
    return alias;
  }
  return makeAlias(
      operand,
      c10::Storage(
          c10::make_intrusive<c10::StorageImpl>(
              c10::StorageImpl::use_byte_size_t(), storage->nbytes(), kernelData(storage), &cpuAllocator(), storage->resizable())));
}

void releaseAlias(at::Tensor alias, const at::Tensor& operand) noexcept {
  auto* impl = alias.unsafeGetTensorImpl();
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  const bool unshared = alias.use_count() == 1 && impl->unsafe_storage().use_count() == 1 && impl->pyobj_slot()->load_pyobj() == nullptr &&
                        storage->pyobj_slot()->load_pyobj() == nullptr;
  if (!unshared && storage->allocator() == &cpuAllocator() && storage->data_ptr().get_context() == nullptr) [[unlikely]] {
    shareMemory(storage, operand.storage());
    return;
  }
  const bool unmarked = impl->key_set() == kCpuKeys && impl->autograd_meta() == nullptr && impl->get_backend_meta() == nullptr &&
                        !impl->is_wrapped_number() && storage->allocator() == &cpuAllocator() &&
                        storage->data_ptr().get_context() == nullptr;
  if (unshared && unmarked) {
    if (auto& kept = kept_aliases; kept.size() < kKept) {
      kept.push_back(std::move(alias));
    }
  }
}

}  // namespace openreg::fallback
