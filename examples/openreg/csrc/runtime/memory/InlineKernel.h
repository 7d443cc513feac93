#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "device/Export.h"

namespace openreg {

// A kernel that the submitting thread runs itself, when its turn on the stream has come, and that allocates while it runs.
//
// The caching allocator hands a freed block out again on the same stream at once, because whatever uses it next comes later
// on that stream. An allocation from within a kernel breaks the rule: its place on the stream is the kernel's, and another
// thread may have freed the block since, with work on it queued behind the kernel. So the allocator asks otherThreadsOn().
class BACKEND_API InlineKernel {
 public:
  // From before it is submitted until it has returned.
  InlineKernel(c10::DeviceIndex device, c10::StreamId stream);
  ~InlineKernel();
  InlineKernel(const InlineKernel&) = delete;
  InlineKernel& operator=(const InlineKernel&) = delete;

  // Whether other threads have such a kernel on the stream, running or waiting. May say yes for another stream's.
  static bool otherThreadsOn(c10::DeviceIndex device, c10::StreamId stream);

 private:
  size_t slot_;
  InlineKernel* outer_;
};

}  // namespace openreg
