#include "device/Capabilities.h"

namespace acme::device {

[[maybe_unused]] const bool declined_graphs = notSupported("graphs", "basalt cannot record a stream");

}  // namespace acme::device
