#include "runtime/memory/Storage.h"

#include <algorithm>

#include "device/Memory.h"
#include "runtime/CopyStream.h"
#include "runtime/memory/CachingAllocator.h"

namespace openreg {

void resizeStorage(c10::StorageImpl* storage, size_t nbytes, std::optional<device::StreamHandle> stream) {
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  const auto index = storage->device().index();
  auto data = cachingAllocator().allocateOn(index, nbytes);
  const size_t kept = std::min(storage->nbytes(), nbytes);
  if (kept > 0 && storage->data() != nullptr) {
    if (stream.has_value()) {
      device::copyAsync(data.get(), storage->data(), kept, *stream);
    } else {
      copyInOrder(data.get(), storage->data(), kept, index);
    }
  }
  storage->set_data_ptr_noswap(std::move(data));
  storage->set_nbytes(nbytes);
}

c10::DataPtr copyToDevice(const c10::StorageImpl& host, c10::DeviceIndex device) {
  auto copy = cachingAllocator().allocateOn(device, host.nbytes());
  if (host.nbytes() > 0) {
    copyInOrder(copy.get(), host.data(), host.nbytes(), device);
  }
  return copy;
}

}  // namespace openreg
