#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "device/Export.h"

// Optional capabilities of a device. The device has a capability if the project contains the files of the feature and the port
// does not decline it.
namespace openreg::device {

struct CapabilityText {
  std::string_view name;
  std::string_view text;  // "<text> is not supported on ... devices"
};

inline constexpr std::array kCapabilities{
    CapabilityText{"graphs", "graph capture"},
    CapabilityText{"sharing", "sharing of memory between processes"},
};

// One of the names above. Any other name is a compile error.
class Capability {
 public:
  consteval Capability(const char* name) {
    while (kCapabilities.at(index_).name != name) {
      ++index_;
    }
  }
  constexpr size_t index() const {
    return index_;
  }

 private:
  size_t index_ = 0;
};

// Called by the files of the feature while the library loads.
bool addCapability(Capability capability);

// Declines a capability, although the project contains the files of the feature. One line in a source of this folder, such as
//   const bool no_graphs = notSupported("graphs", "the SDK cannot record a stream");
// PyTorch then calls no function of the seam for the capability, and users see the reason.
bool notSupported(Capability capability, const char* reason);

// Raises NotImplementedError with the reason if the device does not have the capability.
BACKEND_API void requireCapability(Capability capability);

// For each name the sentence that requireCapability raises, or an empty string.
BACKEND_API std::map<std::string, std::string> capabilities();

}  // namespace openreg::device
