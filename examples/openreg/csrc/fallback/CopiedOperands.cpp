#include "fallback/CopiedOperands.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "device/Launch.h"
#include "device/Memory.h"
#include "device/Waiting.h"
#include "fallback/Alias.h"
#include "runtime/CopyStream.h"
#include "runtime/Stream.h"
#include "runtime/StreamSlot.h"
#include "runtime/memory/CachingAllocator.h"
#include "runtime/memory/Storage.h"

namespace openreg::fallback {
namespace {

// Allocates host memory for a copy of the operand's memory; does not copy.
c10::Storage hostStorageFor(const at::Tensor& operand) {
  TORCH_CHECK_NOT_IMPLEMENTED(operand.has_storage(), "this operator cannot take a tensor of layout ", operand.layout(), " on this device");
  const auto& storage = operand.storage();
  return c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), &cpuAllocator(), storage.resizable());
}

// The number of bytes from the first element of a tensor to its last.
size_t spannedBytes(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.dtype().itemsize());
}

// If launchInline does not hold the stream, this lock separates the calls on copies of one stream. Otherwise two threads could read
// the same value and write it one after the other, and one result would be lost. Streams that share a lock may wait for each other
// briefly. Recursive, because a kernel may call operators.
std::unique_lock<std::recursive_mutex> lockUnlessHeld(c10::DeviceIndex device, c10::StreamId stream) {
  if (device::runningStream() != nullptr) {
    return {};
  }
  static auto& locks = *new std::array<std::recursive_mutex, kStreamSlots>;
  return device::lockMutex(locks[streamSlot(device, stream)]);
}

// Repetition of a block of bytes: `size` times, `stride` bytes apart.
struct Repeated {
  int64_t size;
  int64_t stride;
};

// Describes the elements of a tensor as contiguous blocks of bytes: the size of a block, and its repetitions.
std::pair<int64_t, c10::SmallVector<Repeated, 6>> blocksOf(const at::Tensor& tensor) {
  const auto itemsize = static_cast<int64_t>(tensor.dtype().itemsize());
  c10::SmallVector<Repeated, 6> dimensions;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1 && tensor.stride(d) != 0) {
      dimensions.push_back({tensor.size(d), tensor.stride(d) * itemsize});
    }
  }
  std::sort(dimensions.begin(), dimensions.end(), [](const auto& a, const auto& b) { return a.stride < b.stride; });
  int64_t block = itemsize;
  auto* first = dimensions.begin();
  for (; first != dimensions.end() && first->stride == block; ++first) {
    block *= first->size;
  }
  return {block, {first, dimensions.end()}};
}

template <class Function>
void forEachBlock(c10::ArrayRef<Repeated> dimensions, int64_t offset, const Function& function) {
  if (dimensions.empty()) {
    function(offset);
    return;
  }
  for (int64_t i = 0; i < dimensions.back().size; ++i) {
    forEachBlock(dimensions.slice(0, dimensions.size() - 1), offset + i * dimensions.back().stride, function);
  }
}

}  // namespace

at::Tensor CopiedOperands::makeAlias(const at::Tensor& operand) const {
  return fallback::makeAlias(operand, hostStorageFor(operand));
}

void CopiedOperands::run(c10::DeviceIndex device, KernelAuthor author, c10::ArrayRef<Operand> operands, c10::function_ref<void()> body) {
  device_ = device;
  copies_ = copyStream(device);
  const auto run_on_copies = [&] {
    for (const auto& operand : operands) {
      if (const size_t nbytes = spannedBytes(*operand.original); nbytes > 0 && operand.original->storage().data() != nullptr) {
        device::copyAsync(operand.alias.mutable_data_ptr(), operand.original->const_data_ptr(), nbytes, copies_);
      }
    }
    device::synchronizeStream(copies_);
    scope_.emplace(author == KernelAuthor::Program ? kAboveProgramKernels : kAboveKernels);
    body();
    device::synchronizeStream(copies_);  // the copies may be freed next
  };
  const auto stream = currentStream(device);
  if (author == KernelAuthor::Program) {
    stream.synchronize();
    run_on_copies();
    return;
  }
  device::runOnStream(stream.handle(), [&] {
    const auto lock = lockUnlessHeld(device, stream.id());
    run_on_copies();
  });
}

void CopiedOperands::writeBack(const Operand& operand) const {
  auto* storage = operand.original->storage().unsafeGetStorageImpl();
  if (const size_t nbytes = operand.alias.storage().nbytes(); nbytes != storage->nbytes()) {
    resizeStorage(storage, nbytes, copies_);  // keeps the content, because other tensors may use it
  }
  copyElementsBack(operand.alias, static_cast<char*>(storage->mutable_data()));
}

// Copies only the elements of a view, because the memory between them may belong to another tensor that another stream is writing.
void CopiedOperands::copyElementsBack(const at::Tensor& alias, char* storage) const {
  const auto spanned = static_cast<int64_t>(spannedBytes(alias));
  if (spanned == 0) {
    return;
  }
  char* const first = storage + alias.storage_offset() * static_cast<int64_t>(alias.dtype().itemsize());
  const auto [block, dimensions] = blocksOf(alias);
  if (dimensions.empty()) {
    device::copyAsync(first, alias.const_data_ptr(), spanned, copies_);
    return;
  }
  // Many small copies on the device, because the seam has no strided copy.
  const auto landing = cachingAllocator().allocateOn(device_, spanned);
  device::copyAsync(landing.get(), alias.const_data_ptr(), spanned, copies_);
  forEachBlock(dimensions, 0, [&, block = block](int64_t offset) {
    device::copyAsync(first + offset, static_cast<char*>(landing.get()) + offset, block, copies_);
  });
  device::synchronizeStream(copies_);  // `landing` is freed next
}

}  // namespace openreg::fallback
