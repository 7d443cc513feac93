#include "device/Capabilities.h"

namespace acme::device {

[[maybe_unused]] const bool declined[] = {
    notSupported("priorities", "all queues of a board are alike"),
};

}  // namespace acme::device
