#include "device/Capabilities.h"

namespace acme::device {

[[maybe_unused]] const bool declined[] = {
    notSupported("graphs", "basalt cannot record a stream"),
    notSupported("peer_access", "basalt does not tell whether kernels can"),
    notSupported("priorities"),
    notSupported("sharing", "basalt shares nothing between processes"),
};

}  // namespace acme::device
