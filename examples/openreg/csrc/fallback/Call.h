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

// One run of a CPU kernel for the device, in three steps: alias the operands, run, adopt the results.
//
// In place, an alias is a CPU-tagged tensor over the operand's memory at kernel addresses. No data is copied, and results that
// the kernel allocated are re-tagged as the device's. On copies, an alias is a tensor in host memory, which gets the operand's
// content before the kernel runs; if it is written, its elements are copied back, and nothing that lies between them. Results are
// copied to the device. Either way, results that alias an operand become that operand, or a view of it.
//
// A kernel of PyTorch's own holds the stream while it runs: work that other threads submit to the stream comes before or after
// all of it. Another kernel may be a Python function: it may wait for any stream or for the GIL, which a thread that holds a
// stream must not do, and it may keep the tensors that it makes. So it waits for the stream, runs without holding it, and what it
// makes lives in host memory. To other threads it is a sequence of operators.
class Call {
 public:
  enum class Memory : uint8_t {
    InPlace,  // the device's, where the host reaches it (device/Address.h)
    Copies,  // the host's
  };
  enum class Kernel : uint8_t {
    OfPyTorch,
    OfProgram,
  };
  static Memory defaultMemory() {
    return device::hasKernelAddresses() ? Memory::InPlace : Memory::Copies;
  }

  // The device that factory functions allocate on; operands on a device fix it themselves.
  explicit Call(std::optional<c10::DeviceIndex> device = std::nullopt, Memory memory = defaultMemory(), Kernel kernel = Kernel::OfPyTorch)
      : device_(device.value_or(kUnknown)), memory_(memory), kernel_(kernel) {}
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  enum class Use : uint8_t {
    Read,
    ReadAnywhere,  // may also be a tensor that stays on the host, as indices and sequence lengths may
    Write,
  };

  // Undefined tensors and host tensors of no dimension (numbers) pass as they are. Raises if the operands are not all on
  // one device. One tensor has one alias, and tensors that share memory have aliases that share it: kernels check. The
  // operand must live as long as this object, unless it is handed over. The reference is good until the next operand.
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

  // The engine that the kernel draws from: the given generator's, or the device's default one's. Raises if it belongs to
  // another device.
  at::Generator engine(const std::optional<at::Generator>& generator);

  // Runs `kernel` on this thread, after all earlier work of the current stream.
  void run(c10::function_ref<void()> kernel);

  at::Tensor adopt(at::Tensor result);
  std::vector<at::Tensor> adopt(std::vector<at::Tensor> results);

  // Leaves the aliases to the caller, who keeps the operands' memory alive as long as it uses them.
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
    Kept original;  // mostly borrowed: counting references was a quarter of what emulation adds to a small operator
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

  std::optional<DeviceMemoryScope> scope_;  // alive until the results are adopted: it knows their memory
  std::optional<HostMemoryScope> host_scope_;  // instead, if the kernel's tensors live in host memory
  c10::SmallVector<Operand, 6> operands_;
  std::vector<Operand> multi_parts_;  // their parts are operands
  std::unordered_set<const c10::StorageImpl*> storages_;  // of the first indexed_ operands; for long lists only
  size_t indexed_ = 0;
  device::StreamHandle copies_ = nullptr;  // the stream that copies of operands run on
  c10::DeviceIndex device_;
  Memory memory_;
  Kernel kernel_;
};

}  // namespace openreg::fallback
