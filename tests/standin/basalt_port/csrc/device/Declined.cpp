#include "device/Capabilities.h"

namespace acme::device {

[[maybe_unused]] const bool declined[] = {
    notSupported("peer_access", "basalt does not tell whether kernels can"),
    notSupported("priorities"),
};

}  // namespace acme::device
