#include "DeviceMemory.h"

#include <pybind11/stl.h>

#include "Call.h"
#include "runtime/memory/CachingAllocator.h"
#include "runtime/Stream.h"

namespace py = pybind11;

namespace openreg {
namespace {

// Accepts allocations on the current stream of this thread, by any thread.
void beginAllocateCurrentStreamToPool(c10::DeviceIndex index, c10::MempoolId_t pool) {
  cachingAllocator().beginAllocateToPool(
      index, pool, [wanted = currentStream(index).unwrap()](c10::Stream stream) { return stream == wanted; });
}

}  // namespace

void bindDeviceMemory(py::module_& m) {
  m.def(
      "_set_memory_fraction",
      call([](double fraction, c10::DeviceIndex device) { cachingAllocator().setMemoryFraction(device, fraction); }), py::arg("fraction"),
      py::arg("device"));
  m.def("_get_memory_fraction", call([](c10::DeviceIndex device) { return cachingAllocator().memoryFraction(device); }), py::arg("device"));
  m.def("_begin_allocate_current_stream_to_pool", call(beginAllocateCurrentStreamToPool), py::arg("device"), py::arg("pool"));
  m.def(
      "_end_allocate_to_pool",
      call([](c10::DeviceIndex device, c10::MempoolId_t pool) { cachingAllocator().endAllocateToPool(device, pool); }), py::arg("device"),
      py::arg("pool"));
  m.def(
      "_release_pool", call([](c10::DeviceIndex device, c10::MempoolId_t pool) { cachingAllocator().releasePool(device, pool); }),
      py::arg("device"), py::arg("pool"));
  m.def("_empty_pool", call([](c10::MempoolId_t pool) { cachingAllocator().emptyCache(pool); }), py::arg("pool"));
}

}  // namespace openreg
