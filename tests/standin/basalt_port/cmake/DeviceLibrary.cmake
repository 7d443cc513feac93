# The device's library, which csrc/device/ calls: the target sdk::runtime is all that the rest of the build knows of it.
use_sdk(LIBRARY basalt HEADER basalt.h)
