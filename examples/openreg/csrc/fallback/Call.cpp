#include "fallback/Call.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "fallback/Alias.h"
#include "fallback/MultiPartTensor.h"
#include "device/Launch.h"
#include "device/Memory.h"
#include "device/Waiting.h"
#include "runtime/memory/CachingAllocator.h"
#include "runtime/Generator.h"
#include "runtime/Guard.h"
#include "runtime/memory/InlineKernel.h"
#include "runtime/memory/Storage.h"

namespace openreg::fallback {
namespace {

constexpr c10::DispatchKeySet kDeviceKey(c10::DispatchKey::PrivateUse1);

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

// If the SDK cannot hold a stream (launchInline), this lock separates the calls on copies of one stream. Otherwise two
// threads could read the same value and write it one after the other, and one result would be lost. Streams that share a lock
// may wait for each other briefly. Recursive, because a kernel may call operators.
std::unique_lock<std::recursive_mutex> lockCopies(c10::Stream stream) {
  constexpr size_t kLocks = 64;
  static auto& locks = *new std::array<std::recursive_mutex, kLocks>;
  return device::lockMutex(locks[(static_cast<size_t>(stream.id()) + static_cast<size_t>(stream.device_index()) * 17) % kLocks]);
}

// Copies of operands run on a separate stream, because the call holds the current stream.
device::StreamHandle copyStream(c10::DeviceIndex index) {
  static std::mutex mutex;
  static auto& streams = *new std::map<c10::DeviceIndex, device::StreamHandle>;
  const std::lock_guard<std::mutex> guard(mutex);
  auto& stream = streams[index];
  if (stream == nullptr) {
    const DeviceGuard device_guard(c10::Device(kDeviceType, index));
    stream = device::createStream(0);
  }
  return stream;
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

// Allocates device memory with the content of a CPU storage.
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
    releaseAlias(std::move(operand.alias), *operand.original);
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
  if (isMultiPart(operand)) [[unlikely]] {
    return bindMultiPart(operand, keep, use);
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

const at::Tensor& Call::bindMultiPart(const at::Tensor& operand, Keep keep, Use use) {
  for (auto& multi_part : multi_parts_) {
    if (multi_part.original->is_same(operand)) {
      multi_part.written |= use == Use::Write;
      return multi_part.alias;
    }
  }
  auto result = rebuild(operand, c10::kCPU, [&](const at::Tensor& part, bool parameter) { return alias(at::Tensor(part), parameter ? Use::ReadAnywhere : use); });
  multi_parts_.push_back({hold(operand, keep), std::move(result), use == Use::Write});
  return multi_parts_.back().alias;
}

// Finds the operand that is this tensor, else an operand that shares its memory.
Call::Operand* Call::findOriginal(const at::Tensor& tensor) {
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
      generator->device().type() == kDeviceType, "Expected a '", c10::DeviceTypeName(kDeviceType, true), "' device type for generator but found '", generator->device(), "'");
  return static_cast<GeneratorImpl*>(generator->unsafeGetGeneratorImpl())->engine();
}

// Applies a change of memory (resize, set_) or of shape by the kernel to a written operand.
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
    if (retag(data, operand.original->device().index())) {
      storage->set_data_ptr_noswap(std::move(data));
    } else {  // the kernel resized it in host memory
      storage->set_data_ptr_noswap(deviceCopy(*alias_storage, device_));
    }
    storage->set_nbytes(nbytes);
  }
}

void Call::copyBack(const Operand& operand) const {
  auto* storage = operand.original->storage().unsafeGetStorageImpl();
  if (const size_t nbytes = operand.alias.storage().nbytes(); nbytes != storage->nbytes()) {
    resizeStorage(storage, nbytes, copies_);  // keeps the content, because other tensors may use it
  }
  copyElementsBack(operand.alias, static_cast<char*>(storage->mutable_data()));
}

// Copies only the elements of a view, because the memory between them may belong to another tensor that another stream is writing.
void Call::copyElementsBack(const at::Tensor& alias, char* storage) const {
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
  // PORTING: this makes many small copies. If your SDK can copy strided memory (a pitch or several dimensions), use that.
  const auto landing = cachingAllocator().allocateOn(device_, spanned);
  device::copyAsync(landing.get(), alias.const_data_ptr(), spanned, copies_);
  forEachBlock(dimensions, 0, [&, block = block](int64_t offset) { device::copyAsync(first + offset, static_cast<char*>(landing.get()) + offset, block, copies_); });
  device::synchronizeStream(copies_);  // `landing` is freed next
}

void Call::run(c10::function_ref<void()> kernel) {
  if (device_ == kUnknown) [[unlikely]] {
    device_ = currentDevice();
  }
  memory_ == Memory::InPlace ? runInPlace(kernel) : runOnCopies(kernel);
}

void Call::runInPlace(c10::function_ref<void()> kernel) {
  if (kernel_ == Kernel::OfProgram) [[unlikely]] {
    device::synchronizeStream(currentStreamHandle(device_));
    host_scope_.emplace();
    kernel();
    finish();
    return;
  }
  const InlineKernel submitted(device_, currentStreamId(device_));
  device::runOnStream(currentStreamHandle(device_), [&] {
    scope_.emplace(device_);
    kernel();
    finish();
  });
}

void Call::runOnCopies(c10::function_ref<void()> kernel) {
  copies_ = copyStream(device_);
  const auto run = [&] {
    for (const auto& operand : operands_) {
      if (const size_t nbytes = spannedBytes(*operand.original); nbytes > 0 && operand.original->storage().data() != nullptr) {
        device::copyAsync(operand.alias.mutable_data_ptr(), operand.original->const_data_ptr(), nbytes, copies_);
      }
    }
    device::synchronizeStream(copies_);
    host_scope_.emplace();
    kernel();
    finish();
    device::synchronizeStream(copies_);  // the copies may be freed next
  };
  const auto stream = currentStream(device_);
  if (kernel_ == Kernel::OfProgram) {
    stream.synchronize();
    run();
    return;
  }
  const auto lock = lockCopies(stream);
  device::runOnStream(stream.handle(), run);
}

void Call::finish() {
  for (const auto& operand : operands_) {
    if (operand.written) {
      writeBack(operand);
    }
  }
  for (const auto& multi_part : multi_parts_) {
    if (multi_part.written) {
      assign(*multi_part.original, multi_part.alias, [&](const at::Tensor& part, bool) { return adopt(part); });
    }
  }
}

// Finds the operand whose alias this result is, else an operand whose memory it shares.
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
  TORCH_CHECK_NOT_IMPLEMENTED(impl->has_storage(), "this operator returned a tensor of layout ", impl->layout(), ", which this device does not support");
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
      // The memory does not come from the CPU allocator: it is host memory, a constant, or null.
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
