#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "device/Export.h"

namespace openreg {

// A kernel that runs on the submitting thread, in the order of the stream, and allocates while it runs.
//
// The caching allocator reuses a freed block on the same stream at once, because its next use is later on that stream. An allocation by
// such a kernel is an exception: its position in the stream is that of the kernel. Meanwhile another thread may have queued work on a
// block behind the kernel and freed the block. Therefore the allocator checks otherThreadsOn().
class BACKEND_API InlineKernel {
 public:
  // Create it before the kernel is submitted, and destroy it after the kernel has returned.
  InlineKernel(c10::DeviceIndex device, c10::StreamId stream);
  ~InlineKernel();
  InlineKernel(const InlineKernel&) = delete;
  InlineKernel& operator=(const InlineKernel&) = delete;

  // Whether other threads have such a kernel on the stream, running or waiting. May also return true for kernels of another stream.
  static bool otherThreadsOn(c10::DeviceIndex device, c10::StreamId stream);

 private:
  size_t slot_;
  InlineKernel* outer_;
};

}  // namespace openreg
