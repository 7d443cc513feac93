// Shared by posix.cpp and posix_process.cpp.
#pragma once

namespace emulator::platform {

// A new object of shared memory that other processes can open; -1 if the system refuses. On Linux they open its descriptor
// below /proc, so the name is removed at once. On other systems the name lasts as long as the process.
int openNamedMemory();

}  // namespace emulator::platform
