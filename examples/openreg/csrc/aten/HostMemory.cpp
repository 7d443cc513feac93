#include "aten/HostMemory.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include "aten/emulation/Alias.h"
#include "device/Memory.h"
#include "runtime/Stream.h"

namespace openreg {
namespace {

size_t spannedBytes(const at::Tensor& operand) {
  return operand.numel() == 0 ? 0 : at::detail::computeStorageNbytes(operand.sizes(), operand.strides(), operand.dtype().itemsize());
}

}  // namespace

at::Tensor toHostMemory(const at::Tensor& operand) {
  const size_t nbytes = spannedBytes(operand);
  auto copy = emulation::makeAlias(operand, c10::Storage(c10::Storage::use_byte_size_t(), nbytes, c10::GetCPUAllocator(), /*resizable=*/false));
  copy.unsafeGetTensorImpl()->set_storage_offset(0);
  if (nbytes > 0) {
    const auto stream = currentStream(operand.device().index());
    device::copyAsync(copy.mutable_data_ptr(), operand.const_data_ptr(), nbytes, stream.handle());
    stream.synchronize();
  }
  return copy;
}

void fromHostMemory(const at::Tensor& operand, const at::Tensor& copy) {
  if (const size_t nbytes = spannedBytes(operand); nbytes > 0) {
    const auto stream = currentStream(operand.device().index());
    device::copyAsync(operand.mutable_data_ptr(), copy.const_data_ptr(), nbytes, stream.handle());
    stream.synchronize();  // the copy in host memory may go at once
  }
}

}  // namespace openreg
