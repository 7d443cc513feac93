// The functions of `_C`. Each is one call into the C++ library: checks, defaults and documentation are in Python.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <c10/macros/Export.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include "Call.h"
#include "DeviceMemory.h"
#include "Fallback.h"
#include "FeatureBindings.h"
#include "HostMemory.h"
#include "MemorySnapshot.h"
#include "device/Capabilities.h"
#include "device/Device.h"
#include "device/Waiting.h"
#include "runtime/DeviceProperties.h"
#include "runtime/Functions.h"
#include "runtime/Generator.h"
#include "runtime/Shutdown.h"
#include "runtime/Stream.h"

namespace py = pybind11;

namespace openreg {
namespace {

void bindDevice(py::module_& m) {
  m.def("_init", [] {
    // PyTorch stores that it has called `_lazy_init`; a forked child must call it again.
    torch::utils::register_fork_handler_for_device_init(c10::DeviceType::PrivateUse1);
    call(ensureInitialized)();
  });
  m.def("_is_initialized", [] { return isInitialized(); });
  m.def("_is_in_bad_fork", [] { return inBadFork(); });
  m.def("_get_device_count", call([] { return deviceCount(); }));
  m.def("_throw_no_such_device", call(throwNoSuchDevice), py::arg("index"));
  m.def("_can_access_peer", call(canAccessPeer), py::arg("device"), py::arg("peer"));
  m.def("_capabilities", call(device::capabilities));
  m.def("_get_device_properties", call(deviceProperties), py::return_value_policy::reference, py::arg("device"));

  py::class_<DeviceProperties>(m, "_DeviceProperties")
      .def_readonly("name", &DeviceProperties::name)
      .def_readonly("total_memory", &DeviceProperties::total_memory)
      .def_readonly("multi_processor_count", &DeviceProperties::multi_processor_count)
      .def_readonly("major", &DeviceProperties::major)
      .def_readonly("minor", &DeviceProperties::minor)
      .def_readonly("allocation_alignment", &DeviceProperties::allocation_alignment)
      .def("__repr__", [](const DeviceProperties& p) {
        return c10::str(
            "_DeviceProperties(name='", p.name, "', total_memory=", p.total_memory, ", multi_processor_count=", p.multi_processor_count,
            ", major=", p.major, ", minor=", p.minor, ", allocation_alignment=", p.allocation_alignment, ")");
      });
}

using StreamParts = std::tuple<c10::StreamId, c10::DeviceIndex, int>;

StreamParts parts(const Stream& stream) {
  const c10::Stream generic = stream.unwrap();
  return {generic.id(), generic.device_index(), static_cast<int>(generic.device_type())};
}

void bindStream(py::module_& m) {
  m.def("_get_default_stream", call([](c10::DeviceIndex device) { return parts(defaultStream(device)); }), py::arg("device"));
  m.def("_get_stream_priority_range", call([] {
          const auto range = priorityRange();
          return std::pair(range.least, range.greatest);
        }));
  m.def(
      "_get_external_stream",
      call([](uintptr_t handle, c10::DeviceIndex device) { return parts(streamFromExternal(reinterpret_cast<void*>(handle), device)); }),
      py::arg("handle"), py::arg("device"));
}

void bindGenerator(py::module_& m) {
  m.def(
      "_get_default_generator",
      [](c10::DeviceIndex device) { return py::reinterpret_steal<py::object>(THPGenerator_Wrap(call(defaultGenerator)(device))); },
      py::arg("device"));
}

void bindShutdown(py::module_& m) {
  m.def("_settle_autograd_threads", call(settleAutogradThreads));
}

void bindHostMemory(py::module_& m) {
  m.def("_host_memory_stats", call(hostMemoryStats));
  m.def("_reset_accumulated_host_memory_stats", call(resetAccumulatedHostMemoryStats));
  m.def("_reset_peak_host_memory_stats", call(resetPeakHostMemoryStats));
}

void* releaseGil() {
  return Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr;
}

void acquireGil(void* released) {
  PyEval_RestoreThread(static_cast<PyThreadState*>(released));
}

PyModuleDef definition;

}  // namespace
}  // namespace openreg

// Not PYBIND11_MODULE, because that macro would also define the symbol of the stub.
extern "C" C10_EXPORT PyObject* createExtensionModule() {
  try {
    ::openreg::device::setHostLock({&::openreg::releaseGil, &::openreg::acquireGil});
    auto m = py::module_::create_extension_module("_C", nullptr, &::openreg::definition);
    ::openreg::bindDevice(m);
    ::openreg::bindStream(m);
    ::openreg::bindGenerator(m);
    ::openreg::bindHostMemory(m);
    ::openreg::bindDeviceMemory(m);
    ::openreg::bindMemorySnapshot(m);
    ::openreg::bindFallback(m);
    ::openreg::bindShutdown(m);
    ::openreg::bindFeatures(m);
    return m.release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_ImportError, error.what());
  }
  return nullptr;
}
