#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Event.h>

#include <string>

#include "Call.h"
#include "FeatureBindings.h"
#include "runtime/ipc/Ipc.h"

namespace py = pybind11;

namespace openreg {
namespace {

py::tuple toTuple(const SharedStorage& shared) {
  return py::make_tuple(
      static_cast<int>(shared.device), shared.nbytes, py::bytes(shared.memory), shared.offset, py::bytes(shared.lease.table),
      shared.lease.index, shared.lease.serial);
}

// A message may contain anything, so its parts are checked.
template <class Value>
Value read(const py::tuple& parts, size_t index) {
  try {
    return parts[index].cast<Value>();
  } catch (const py::cast_error&) {
    throw py::value_error(
        c10::str("this message from another process is no storage: its part ", index, " is ", py::repr(parts[index]).cast<std::string>()));
  }
}

SharedStorage fromTuple(const py::tuple& parts) {
  if (parts.size() != 7) {
    throw py::value_error(c10::str("this message from another process is no storage: it has ", parts.size(), " parts instead of 7"));
  }
  SharedStorage shared;
  shared.device = read<c10::DeviceIndex>(parts, 0);
  shared.nbytes = read<size_t>(parts, 1);
  shared.memory = read<py::bytes>(parts, 2);
  shared.offset = read<size_t>(parts, 3);
  shared.lease = {read<py::bytes>(parts, 4), read<int64_t>(parts, 5), read<uint64_t>(parts, 6)};
  return shared;
}

c10::Event& eventOf(const py::object& object) {
  TORCH_CHECK_TYPE(THPEvent_Check(object.ptr()), "expected a torch.Event");
  return reinterpret_cast<THPEvent*>(object.ptr())->event;
}

// What `features/multiprocessing.py` is made of.
void bindSharing(py::module_& m) {
  m.def(
      "share_storage", [](const py::object& storage) { return toTuple(call(shareStorage)(torch::createStorage(storage.ptr()))); },
      py::arg("storage"));
  m.def(
      "open_storage",
      [](const py::tuple& shared) {
        return py::reinterpret_steal<py::object>(torch::createPyObject(call(openStorage)(fromTuple(shared))));
      },
      py::arg("shared"));
  m.def("decline_storage", [](const py::tuple& shared) { call(declineStorage)(fromTuple(shared)); }, py::arg("shared"));
  m.def(
      "share_event", [](const py::object& event) { return py::bytes(call([&] { return shareEvent(eventOf(event)); })()); },
      py::arg("event"));
  m.def("open_event", [](const py::object& event, c10::DeviceIndex device, const py::bytes& handle) {
          const std::string bytes = handle;
          call([&] { openEvent(eventOf(event), device, bytes); })(); }, py::arg("event"), py::arg("device"), py::arg("handle"));
  m.def("collect", call(collectSharedStorages));
}

[[maybe_unused]] const bool bindings_added = addFeatureBindings("_sharing", &bindSharing);

}  // namespace

}  // namespace openreg
