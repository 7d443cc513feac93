#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/MaybeOwned.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <unordered_set>
#include <variant>
#include <vector>

#include "device/Address.h"
#include "fallback/CopiedOperands.h"
#include "fallback/InPlaceOperands.h"
#include "fallback/Operand.h"
#include "runtime/Stream.h"

namespace openreg::fallback {

// The device that the `device` argument of an operator names. Raises an error if it is not one of this device: a kernel of this device
// makes tensors in its own memory only.
c10::DeviceIndex deviceNamed(c10::Device device);

// One run of a CPU kernel for the device, in three steps: alias the operands, run the kernel, convert the results. The CPU
// kernel computes on aliases; a strategy makes them, InPlaceOperands or CopiedOperands. A result that aliases an operand becomes that
// operand, or a view of it; other results become tensors of the device.
class Call {
 public:
  enum class Memory : uint8_t {
    InPlace,  // device memory, if the host can access it (device/Address.h)
    Copies,  // host memory
  };
  static Memory defaultMemory() {
    return device::hasKernelAddresses() ? Memory::InPlace : Memory::Copies;
  }

  // Sets the device for factory functions. Operands on a device set it too.
  explicit Call(
      std::optional<c10::DeviceIndex> device = std::nullopt, Memory memory = defaultMemory(), KernelAuthor author = KernelAuthor::PyTorch)
      : device_(device.value_or(kUnknown)), author_(author) {
    if (memory == Memory::Copies) {
      strategy_.emplace<CopiedOperands>();
    }
  }
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

  static Kept hold(const at::Tensor& operand, Keep keep) {
    return keep == Keep::Reference ? Kept::borrowed(operand) : Kept::owned(at::Tensor(operand));
  }
  void setDevice(const at::Tensor& operand);
  const at::Tensor& bind(const at::Tensor& operand, Keep keep, Use use);
  const at::Tensor& bindMultiPart(const at::Tensor& operand, Keep keep, Use use);
  at::Tensor adoptMultiPart(const at::Tensor& result);
  template <class Strategy>
  void writeBack(const Strategy& strategy);
  Operand* findOriginal(const at::Tensor& tensor);
  const Operand* findAlias(const at::Tensor& result) const;

  std::variant<InPlaceOperands, CopiedOperands> strategy_;  // alive until the results are converted, because it records their memory
  c10::SmallVector<Operand, 6> operands_;
  std::vector<Operand> multi_parts_;  // their component tensors are operands
  std::unordered_set<const c10::StorageImpl*> storages_;  // of the first indexed_ operands; for long lists only
  size_t indexed_ = 0;
  c10::DeviceIndex device_;
  KernelAuthor author_;
};

}  // namespace openreg::fallback
