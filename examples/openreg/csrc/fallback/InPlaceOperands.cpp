#include "fallback/InPlaceOperands.h"

#include <utility>

#include "runtime/memory/Storage.h"

namespace openreg::fallback {

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
  } else {  // the kernel resized it in host memory
    storage->set_data_ptr_noswap(copyToDevice(*alias, device));
  }
  storage->set_nbytes(alias->nbytes());
}

}  // namespace openreg::fallback
