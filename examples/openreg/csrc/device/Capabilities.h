#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "device/Export.h"

// What a device may be without and still be right. A capability is there if the part of this project that has it is linked,
// and the port does not decline it.
namespace openreg::device {

struct CapabilityText {
  std::string_view name;
  std::string_view text;  // "<text> is not supported on ... devices"
};

inline constexpr std::array kCapabilities{
    CapabilityText{"graphs", "graph capture"},
    CapabilityText{"sharing", "sharing of memory between processes"},
};

// One of the names above. Any other is an error of the compiler.
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

// While the library loads, by the part of the project that has the capability.
bool addCapability(Capability capability);

// For a source of this folder: the device does not have the capability, whatever is linked. One line, such as
//   const bool no_graphs = notSupported("graphs", "the SDK cannot record a stream");
// No function of the seam that belongs to the capability is called then, and users read the reason.
bool notSupported(Capability capability, const char* reason);

// Raises NotImplementedError with the reason if the device does not have the capability.
BACKEND_API void requireCapability(Capability capability);

// For each name an empty string, or the sentence with which requireCapability raises.
BACKEND_API std::map<std::string, std::string> capabilities();

}  // namespace openreg::device
