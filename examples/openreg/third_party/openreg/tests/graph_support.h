// What the tests of captures and graphs need.
#pragma once

#include "support.h"

// Adds to a number in device memory.
struct Add {
  int* target;
  int amount;
  static void run(void* arguments) {
    const auto& self = *static_cast<const Add*>(arguments);
    *self.target += self.amount;
  }
  static orError_t launch(int* device_address, int amount, orStream_t stream) {
    const Add add{kernelAddress(device_address), amount};
    return orLaunchKernel(&Add::run, &add, sizeof(add), stream);
  }
};

struct Multiply {
  static orError_t launch(int* device_address, int factor, orStream_t stream) {
    const Add multiply{kernelAddress(device_address), factor};
    const auto body = [](void* arguments) {
      const auto& self = *static_cast<const Add*>(arguments);
      *self.target *= self.amount;
    };
    return orLaunchKernel(body, &multiply, sizeof(multiply), stream);
  }
};

struct Number : DeviceMemory {
  explicit Number(int value) : DeviceMemory(sizeof(int)) { set(value); }
  int* address() const { return static_cast<int*>(pointer); }
  void set(int value) { EXPECT_OK(orMemcpy(pointer, &value, sizeof(value), orMemcpyDefault)); }
  int get() const {
    int value = 0;
    EXPECT_OK(orMemcpy(&value, pointer, sizeof(value), orMemcpyDefault));
    return value;
  }
};

struct Graph {
  orGraph_t handle = nullptr;
  orGraphExec_t exec = nullptr;
  // Ends the capture.
  explicit Graph(orStream_t stream) {
    EXPECT_OK(orStreamEndCapture(stream, &handle));
    EXPECT_OK(orGraphInstantiate(&exec, handle));
  }
  ~Graph() {
    EXPECT_OK(orGraphExecDestroy(exec));
    EXPECT_OK(orGraphDestroy(handle));
  }
  Graph(const Graph&) = delete;
  std::size_t nodes() const {
    std::size_t count = 0;
    EXPECT_OK(orGraphGetNodeCount(handle, &count));
    return count;
  }
  void runOn(orStream_t stream) const {
    EXPECT_OK(orGraphLaunch(exec, stream));
    EXPECT_OK(orStreamSynchronize(stream));
  }
};

inline orStreamCaptureStatus statusOf(orStream_t stream) {
  auto status = orStreamCaptureStatusNone;
  EXPECT_OK(orStreamGetCaptureStatus(stream, &status));
  return status;
}
