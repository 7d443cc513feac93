#include <ATen/Context.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>

#include "fallback/MultiPartTensor.h"
#include "runtime/Stream.h"
#include "runtime/memory/CachingAllocator.h"
#include "runtime/memory/Storage.h"

// Operators that change the memory of a tensor or its size.
namespace openreg {
namespace {

// Makes the tensor's storage large enough for a new shape, and keeps its content. Raises an error for negative strides, which
// a tensor would silently replace. Without strides the new shape is contiguous.
void growStorage(const c10::TensorImpl* impl, c10::IntArrayRef size, c10::IntArrayRef stride, int64_t storage_offset) {
  if (std::find(size.begin(), size.end(), 0) != size.end()) {
    return;
  }
  const size_t itemsize = impl->dtype().itemsize();
  const size_t needed = stride.data() != nullptr ? at::detail::computeStorageNbytes(size, stride, itemsize, storage_offset)
                                                 : at::detail::computeStorageNbytesContiguous(size, itemsize, storage_offset);
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (storage->nbytes() < needed) {
    resizeStorage(storage, needed);
  }
}

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef size, std::optional<c10::MemoryFormat> memory_format) {
  auto* impl = self.unsafeGetTensorImpl();
  const auto nbytes_before = static_cast<int64_t>(impl->unsafe_storage().nbytes());
  if (impl->sizes() != size) {
    growStorage(impl, size, {}, impl->storage_offset());
    impl->set_sizes_contiguous(size);
  }
  if (memory_format.has_value()) {
    TORCH_CHECK(*memory_format != c10::MemoryFormat::Preserve, "Unsupported memory format ", *memory_format);
    impl->empty_tensor_restride(*memory_format);
  }
  if (at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicFillUninitializedMemory()) [[unlikely]] {
    at::native::fill_resize_deterministic_(self, nbytes_before);
  }
  return self;
}

at::Tensor& setStorageOffset(at::Tensor& self, at::Storage source, int64_t storage_offset, c10::IntArrayRef size, c10::IntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  const c10::Storage before = impl->storage();
  at::native::checkSetStorage(self, std::move(source), storage_offset, size, stride);
  try {
    growStorage(impl, size, stride, storage_offset);
  } catch (...) {
    impl->set_storage_keep_dtype(before);  // the new storage may be too small for the tensor's present shape
    throw;
  }
  impl->set_storage_offset(storage_offset);
  if (stride.data() != nullptr) {
    impl->set_sizes_and_strides(size, stride);
  } else {
    impl->set_sizes_contiguous(size);
  }
  return self;
}

at::Tensor& setStorage(at::Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return setStorageOffset(self, std::move(source), 0, elements, {});
}

at::Tensor& setTensor(at::Tensor& self, const at::Tensor& source) {
  return self.is_same(source) ? self : setStorageOffset(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& setEmpty(at::Tensor& self) {
  const auto fresh = at::empty({0}, self.options());
  return setStorageOffset(self, fresh.storage(), 0, {0}, {});
}

bool isPlainTensor(const at::Tensor& tensor) {
  return (tensor.is_cpu() || tensor.device().type() == kDeviceType) && tensor.layout() == c10::kStrided && !fallback::isMultiPart(tensor);
}

// Whether `self` can get the shape and the storage of `from` and stay the same object. Module.to and assignments to
// `tensor.data` call this. PyTorch's own function returns false for out-of-tree devices. Module.to would then replace each
// Parameter by a new one: tied weights would separate, and an existing optimizer would train unused parameters.
bool hasCompatibleShallowCopyType(const at::Tensor& self, const at::Tensor& from) {
  return isPlainTensor(self) && isPlainTensor(from);
}

// Prevents the memory from being reused before the stream has reached this point.
void recordStream(at::Tensor& self, c10::Stream stream) {
  cachingAllocator().recordStream(self.storage().data_ptr(), Stream(stream));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(hasCompatibleShallowCopyType));
  m.impl("record_stream", TORCH_FN(recordStream));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_", TORCH_FN(setEmpty));
  m.impl("set_.source_Storage", TORCH_FN(setStorage));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(setStorageOffset));
  m.impl("set_.source_Tensor", TORCH_FN(setTensor));
}

}  // namespace openreg
