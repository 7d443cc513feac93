#include "runtime/DeviceProperties.h"

#include <vector>

#include "runtime/Functions.h"

namespace openreg {

const DeviceProperties& deviceProperties(c10::DeviceIndex index) {
  checkDeviceIndex(index);
  static const std::vector<DeviceProperties> all = [] {
    std::vector<DeviceProperties> result;
    for (c10::DeviceIndex i = 0; i < deviceCount(); ++i) {
      result.push_back(device::properties(i));
    }
    return result;
  }();
  return all.at(index);
}

}  // namespace openreg
