#include "fallback/MultiPartTensor.h"

#include <ATen/EmptyTensor.h>
#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

namespace openreg::fallback {
namespace {

template <class Impl>
Impl& implOf(const at::Tensor& tensor) {
  return *static_cast<Impl*>(tensor.unsafeGetTensorImpl());
}

c10::DispatchKeySet keyOf(c10::DispatchKey functionality, c10::Device device) {
  return c10::DispatchKeySet(
      c10::toRuntimePerBackendFunctionalityKey(
          functionality, device.is_cpu() ? c10::BackendComponent::CPUBit : c10::BackendComponent::PrivateUse1Bit));
}

void assignSparse(at::SparseTensorImpl& target, const at::SparseTensorImpl& source, PartFunction part) {
  target.raw_resize_(source.sparse_dim(), source.dense_dim(), source.sizes());
  target.set_indices_and_values_unsafe(part(source.indices(), false), part(source.values(), false));
  target.set_coalesced(source.coalesced());
}

void assignCompressed(at::SparseCsrTensorImpl& target, const at::SparseCsrTensorImpl& source, PartFunction part) {
  target.set_member_tensors(
      part(source.compressed_indices(), false), part(source.plain_indices(), false), part(source.values(), false), source.sizes());
}

at::QuantizerPtr rebuildQuantizer(at::QTensorImpl& source, PartFunction part) {
  const auto quantizer = source.quantizer();
  if (quantizer->qscheme() != at::kPerChannelAffine && quantizer->qscheme() != at::kPerChannelAffineFloatQParams) {
    return quantizer;  // plain numbers
  }
  const auto& per_channel = static_cast<const at::PerChannelAffineQuantizer&>(*quantizer);
  auto scales = part(per_channel.scales(), true);
  auto zero_points = part(per_channel.zero_points(), true);
  if (quantizer->qscheme() == at::kPerChannelAffine) {
    return c10::make_intrusive<at::PerChannelAffineQuantizer>(
        quantizer->scalar_type(), std::move(scales), std::move(zero_points), per_channel.axis());
  }
  return c10::make_intrusive<at::PerChannelAffineFloatQParamsQuantizer>(
      quantizer->scalar_type(), std::move(scales), std::move(zero_points), per_channel.axis());
}

// Returns the quantized values as a dense tensor.
at::Tensor denseOf(const at::QTensorImpl& source) {
  auto dense = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(source.storage()), keyOf(c10::DispatchKey::Dense, source.device()), source.dtype());
  dense.unsafeGetTensorImpl()->set_sizes_and_strides(source.sizes(), source.strides(), source.storage_offset());
  return dense;
}

void assignQuantized(at::QTensorImpl& target, at::QTensorImpl& source, PartFunction part) {
  target.set_quantizer_(rebuildQuantizer(source, part));
  target.set_sizes_and_strides(source.sizes(), source.strides(), source.storage_offset());
}

// The shapes in a nested tensor must be on the host for every device, but a kernel has allocated them on the device.
at::Tensor onHost(const at::Tensor& shapes) {
  auto copy = at::detail::empty_generic(
      shapes.sizes(), c10::GetDefaultCPUAllocator(), c10::DispatchKeySet(c10::DispatchKey::CPU), shapes.scalar_type(), std::nullopt);
  std::memcpy(copy.mutable_data_ptr(), shapes.contiguous().const_data_ptr(), shapes.nbytes());
  return copy;
}

}  // namespace

at::Tensor rebuild(const at::Tensor& tensor, c10::Device device, PartFunction part) {
  if (tensor.is_sparse()) {
    auto rebuilt = at::detail::make_tensor<at::SparseTensorImpl>(keyOf(c10::DispatchKey::Sparse, device), tensor.dtype());
    assignSparse(implOf<at::SparseTensorImpl>(rebuilt), implOf<at::SparseTensorImpl>(tensor), part);
    return rebuilt;
  }
  if (at::sparse_csr::is_sparse_compressed(tensor)) {
    auto rebuilt = at::detail::make_tensor<at::SparseCsrTensorImpl>(
        keyOf(c10::DispatchKey::SparseCsr, device), device, tensor.layout(), tensor.dtype());
    assignCompressed(implOf<at::SparseCsrTensorImpl>(rebuilt), implOf<at::SparseCsrTensorImpl>(tensor), part);
    return rebuilt;
  }
  if (tensor.is_nested()) {
    auto& source = implOf<at::native::NestedTensorImpl>(tensor);
    return at::detail::make_tensor<at::native::NestedTensorImpl>(
        part(source.get_unsafe_storage_as_tensor(), false), onHost(source.get_nested_sizes()), onHost(source.get_nested_strides()),
        onHost(source.get_storage_offsets()));
  }
  auto& source = implOf<at::QTensorImpl>(tensor);
  const auto dense = part(denseOf(source), false);
  auto rebuilt = at::detail::make_tensor<at::QTensorImpl>(
      c10::Storage(dense.storage()), keyOf(c10::DispatchKey::Quantized, device), tensor.dtype(), nullptr);
  assignQuantized(implOf<at::QTensorImpl>(rebuilt), source, part);
  return rebuilt;
}

void assign(const at::Tensor& target, const at::Tensor& source, PartFunction part) {
  if (source.is_sparse()) {
    assignSparse(implOf<at::SparseTensorImpl>(target), implOf<at::SparseTensorImpl>(source), part);
  } else if (at::sparse_csr::is_sparse_compressed(source)) {
    assignCompressed(implOf<at::SparseCsrTensorImpl>(target), implOf<at::SparseCsrTensorImpl>(source), part);
  } else if (source.is_quantized()) {
    assignQuantized(implOf<at::QTensorImpl>(target), implOf<at::QTensorImpl>(source), part);
  }
  // The shape of a nested tensor cannot change, and its memory is written in place.
}

}  // namespace openreg::fallback
