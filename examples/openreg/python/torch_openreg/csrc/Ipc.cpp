#include "Ipc.h"

#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Event.h>

#include <string>

#include "Call.h"
#include "runtime/Ipc.h"

namespace py = pybind11;

namespace openreg {
namespace {

py::tuple toTuple(const SharedStorage& shared) {
  return py::make_tuple(static_cast<int>(shared.device), shared.nbytes, py::bytes(shared.memory), shared.offset, py::bytes(shared.ticket.table), shared.ticket.index, shared.ticket.serial);
}

SharedStorage fromTuple(const py::tuple& parts) {
  SharedStorage shared;
  shared.device = static_cast<c10::DeviceIndex>(parts[0].cast<int>());
  shared.nbytes = parts[1].cast<size_t>();
  shared.memory = parts[2].cast<std::string>();
  shared.offset = parts[3].cast<size_t>();
  shared.ticket = {parts[4].cast<std::string>(), parts[5].cast<int64_t>(), parts[6].cast<uint64_t>()};
  return shared;
}

c10::Event& eventOf(const py::object& object) {
  TORCH_CHECK_TYPE(THPEvent_Check(object.ptr()), "expected a torch.Event");
  return reinterpret_cast<THPEvent*>(object.ptr())->event;
}

}  // namespace

void bindIpc(py::module_& m) {
  m.def("_share_storage", [](const py::object& storage) { return toTuple(call(shareStorage)(torch::createStorage(storage.ptr()))); }, py::arg("storage"));
  m.def("_open_storage", [](const py::tuple& shared) { return py::reinterpret_steal<py::object>(torch::createPyObject(call(openStorage)(fromTuple(shared)))); }, py::arg("shared"));
  m.def("_decline_storage", [](const py::tuple& shared) { call(declineStorage)(fromTuple(shared)); }, py::arg("shared"));
  m.def("_share_event", [](const py::object& event) { return py::bytes(call([&] { return shareEvent(eventOf(event)); })()); }, py::arg("event"));
  m.def("_open_event", [](const py::object& event, int device, const py::bytes& handle) {
          const std::string bytes = handle;
          call([&] { openEvent(eventOf(event), static_cast<c10::DeviceIndex>(device), bytes); })(); }, py::arg("event"), py::arg("device"), py::arg("handle"));
  m.def("_collect_shared_storages", call(collectSharedStorages));
}

}  // namespace openreg
