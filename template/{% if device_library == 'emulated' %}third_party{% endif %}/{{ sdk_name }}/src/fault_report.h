// The message for a host that touches device memory.
#pragma once

namespace emulator {

class Runtime;

// From now on a fault in the address space of `runtime` is explained on the standard error output before the process dies.
void installFaultReport(Runtime& runtime);

}  // namespace emulator
