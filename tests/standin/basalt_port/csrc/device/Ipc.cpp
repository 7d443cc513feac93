#include "device/Capabilities.h"

namespace acme::device {

[[maybe_unused]] const bool declined_sharing = notSupported("sharing", "basalt shares nothing between processes");

}  // namespace acme::device
