#include "fallback/InPlaceOperands.h"

#include <utility>

#include "fallback/Alias.h"
#include "device/Launch.h"
#include "runtime/Stream.h"
#include "runtime/memory/InlineKernel.h"
#include "runtime/memory/Storage.h"

namespace openreg::fallback {

at::Tensor InPlaceOperands::makeAlias(const at::Tensor& operand) const {
  return fallback::makeAlias(operand);
}

void InPlaceOperands::run(c10::DeviceIndex device, KernelAuthor author, c10::ArrayRef<Operand> /*operands*/, c10::function_ref<void()> body) {
  if (author == KernelAuthor::Program) [[unlikely]] {
    device::synchronizeStream(currentStreamHandle(device));
    host_scope_.emplace();
    body();
    return;
  }
  const InlineKernel submitted(device, currentStreamId(device));
  device::runOnStream(currentStreamHandle(device), [&] {
    device_scope_.emplace(device);
    body();
  });
}

void InPlaceOperands::writeBack(const Operand& operand) const {
  auto* alias = operand.alias.storage().unsafeGetStorageImpl();
  auto& data = alias->_mutable_data_ptr_no_checks();
  if (data.get_context() == nullptr) {
    return;  // still the operand's memory
  }
  auto* storage = operand.original->storage().unsafeGetStorageImpl();
  const auto device = operand.original->device().index();
  if (retag(data, device)) {
    storage->set_data_ptr_noswap(std::move(data));
  } else {  // the kernel has resized it in host memory
    storage->set_data_ptr_noswap(copyToDevice(*alias, device));
  }
  storage->set_nbytes(alias->nbytes());
}

}  // namespace openreg::fallback
