#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <vector>

#include "aten/emulation/Scope.h"
#include "device/Launch.h"
#include "runtime/Stream.h"

namespace openreg::emulation {

// One run of a CPU kernel on device memory, in three steps: alias the operands, run, adopt the results.
//
// An alias is a CPU-tagged tensor over the operand's memory at kernel addresses. No data is copied. Results that the
// kernel allocated are re-tagged as the device's; results that alias an operand become that operand, or a view of it.
class Call {
 public:
  // The device that factory functions allocate on; operands on a device fix it themselves.
  explicit Call(std::optional<c10::DeviceIndex> device = std::nullopt) : device_(device.value_or(kUnknown)) {}

  // Undefined tensors and host tensors of no dimension (numbers) pass as they are. Raises if the operands are not all on
  // one device; `host_operands` lets host tensors of any shape through (indices, sequence lengths).
  at::Tensor alias(const at::Tensor& operand, bool written = false);
  void allowHostOperands() {
    host_operands_ = true;
  }

  // The engine that the kernel draws from: the given generator's, or the device's default one's. Raises if it belongs to
  // another device.
  at::Generator engine(const std::optional<at::Generator>& generator);

  // Runs `kernel` in its turn on the current stream, on this thread.
  template <class Kernel>
  void run(Kernel&& kernel) {
    if (device_ == kUnknown) [[unlikely]] {
      device_ = currentDevice();
    }
    device::runOnStream(currentStreamHandle(device_), [&] {
      scope_.emplace(device_);
      kernel();
      finish();
    });
  }

  at::Tensor adopt(at::Tensor result);
  std::vector<at::Tensor> adopt(std::vector<at::Tensor> results);

  // The operand of the n-th alias that was made with written == true.
  const at::Tensor& written(size_t n) const;

 private:
  static constexpr c10::DeviceIndex kUnknown = -1;

  struct Operand {
    at::Tensor original;
    at::Tensor alias;
    bool written;
  };

  void setDevice(const at::Tensor& operand);
  void finish();
  static void writeBack(const Operand& operand);
  const Operand* findByStorage(const c10::StorageImpl* storage) const;

  std::optional<Scope> scope_;  // alive until the results are adopted: it knows their memory
  c10::SmallVector<Operand, 6> operands_;
  c10::DeviceIndex device_;
  bool host_operands_ = false;
};

}  // namespace openreg::emulation
