#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/MaybeOwned.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <unordered_set>
#include <vector>

#include "fallback/MemoryScope.h"
#include "device/Address.h"
#include "runtime/Stream.h"

namespace openreg::fallback {

// One run of a CPU kernel for the device, in three steps: alias the operands, run the kernel, convert the results.
//
// In place, an alias is a CPU-tagged tensor over the operand's memory at kernel addresses. Nothing is copied, and results that the
// kernel allocated are retagged as device tensors. On copies, an alias is a tensor in host memory. The operand's content is copied
// to it before the kernel runs. If the kernel writes the alias, its elements are copied back, but not the memory between them.
// Results are copied to the device. In both cases, a result that aliases an operand becomes that operand, or a view of it.
//
// One of PyTorch's own kernels holds the stream while it runs: other work of the stream runs before or after the whole kernel. Any
// other kernel may be a Python function, which may wait for any stream or for the GIL, and may keep the tensors that it creates. A
// thread that holds a stream must not wait for these. Therefore such a kernel waits for the stream and runs without holding it, and
// its new tensors are in host memory. To other threads it is a sequence of operators.
class Call {
 public:
  enum class Memory : uint8_t {
    InPlace,  // device memory, if the host can access it (device/Address.h)
    Copies,  // host memory
  };
  enum class Kernel : uint8_t {
    OfPyTorch,
    OfProgram,
  };
  static Memory defaultMemory() {
    return device::hasKernelAddresses() ? Memory::InPlace : Memory::Copies;
  }

  // Sets the device for factory functions. Operands on a device set it too.
  explicit Call(std::optional<c10::DeviceIndex> device = std::nullopt, Memory memory = defaultMemory(), Kernel kernel = Kernel::OfPyTorch)
      : device_(device.value_or(kUnknown)), memory_(memory), kernel_(kernel) {}
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  enum class Use : uint8_t {
    Read,
    ReadAnywhere,  // may also be a host tensor, such as indices and sequence lengths
    Write,
  };

  // Returns the alias of an operand. Undefined tensors and host tensors without dimensions (numbers) are returned unchanged.
  // Raises an error if the operands are not all on one device. Each tensor has one alias, and aliases of tensors that share
  // memory share it too, because kernels check this. The operand must live as long as this object, unless it is moved in. The
  // reference is valid until the next operand.
  const at::Tensor& alias(const at::Tensor& operand, Use use = Use::Read) {
    return bind(operand, Keep::Reference, use);
  }
  at::Tensor alias(at::Tensor&& operand, Use use = Use::Read) {
    return bind(operand, Keep::Tensor, use);
  }

  // The operands' device, or the current one if there is no operand on a device.
  c10::Device device() const {
    return {kDeviceType, device_ == kUnknown ? currentDevice() : device_};
  }

  // The random engine for the kernel: that of the given generator, else of the device's default generator. Raises an error if
  // the generator belongs to another device.
  at::Generator engine(const std::optional<at::Generator>& generator);

  // Runs `kernel` on this thread, after all earlier work of the current stream.
  void run(c10::function_ref<void()> kernel);

  at::Tensor adopt(at::Tensor result);
  std::vector<at::Tensor> adopt(std::vector<at::Tensor> results);

  // Transfers the aliases to the caller, who must keep the operands' memory alive while it uses them.
  void releaseAliases() {
    operands_.clear();
  }

 private:
  static constexpr c10::DeviceIndex kUnknown = -1;
  enum class Keep : uint8_t {
    Reference,
    Tensor,
  };
  using Kept = c10::MaybeOwned<at::Tensor>;

  struct Operand {
    Kept original;  // usually borrowed, because counting references took a quarter of the emulation's cost for a small operator
    at::Tensor alias;
    bool written;
  };

  static Kept hold(const at::Tensor& operand, Keep keep) {
    return keep == Keep::Reference ? Kept::borrowed(operand) : Kept::owned(at::Tensor(operand));
  }
  void setDevice(const at::Tensor& operand);
  const at::Tensor& bind(const at::Tensor& operand, Keep keep, Use use);
  const at::Tensor& bindMultiPart(const at::Tensor& operand, Keep keep, Use use);
  at::Tensor adoptMultiPart(const at::Tensor& result);
  void runInPlace(c10::function_ref<void()> kernel);
  void runOnCopies(c10::function_ref<void()> kernel);
  void finish();
  void writeBack(const Operand& operand) const;
  void moveBack(const Operand& operand) const;
  void copyBack(const Operand& operand) const;
  void copyElementsBack(const at::Tensor& alias, char* storage) const;
  Operand* findOriginal(const at::Tensor& tensor);
  const Operand* findAlias(const at::Tensor& result) const;

  std::optional<DeviceMemoryScope> scope_;  // alive until the results are converted, because it records their memory
  std::optional<HostMemoryScope> host_scope_;  // used instead if the kernel's tensors are in host memory
  c10::SmallVector<Operand, 6> operands_;
  std::vector<Operand> multi_parts_;  // their component tensors are operands
  std::unordered_set<const c10::StorageImpl*> storages_;  // of the first indexed_ operands; for long lists only
  size_t indexed_ = 0;
  device::StreamHandle copies_ = nullptr;  // the stream that copies of operands run on
  c10::DeviceIndex device_;
  Memory memory_;
  Kernel kernel_;
};

}  // namespace openreg::fallback
