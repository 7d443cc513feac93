// Graph functions of the C interface.
#include "api.h"

#include <utility>

using namespace emulator;
using namespace emulator::api;

static_assert(static_cast<int>(CaptureMode::Global) == orStreamCaptureModeGlobal);
static_assert(static_cast<int>(CaptureMode::ThreadLocal) == orStreamCaptureModeThreadLocal);
static_assert(static_cast<int>(CaptureMode::Relaxed) == orStreamCaptureModeRelaxed);
static_assert(static_cast<int>(CaptureState::None) == orStreamCaptureStatusNone);
static_assert(static_cast<int>(CaptureState::Active) == orStreamCaptureStatusActive);
static_assert(static_cast<int>(CaptureState::Invalidated) == orStreamCaptureStatusInvalidated);

namespace {

Status failHandle(const char* what) {
  return fail(Status::InvalidHandle, "this is no live %s; it was destroyed before, or is no handle of this library", what);
}

// A new handle for a graph, in one of the tables.
template <class Table, class Handle>
Status publish(Table& table, const char* what, std::shared_ptr<const Graph> graph, Handle* handle) {
  const auto entry = table.acquire();
  if (entry.object == nullptr) {
    return fail(Status::MemoryAllocation, "there are too many %ss; destroy some", what);
  }
  entry.object->open(std::move(graph));
  table.publish(entry.handle);
  *handle = reinterpret_cast<Handle>(entry.handle);
  return Status::Success;
}

template <class Table>
Status destroy(Table& table, const char* what, const void* pointer) {
  const auto handle = reinterpret_cast<std::uintptr_t>(pointer);
  auto* const retired = table.retire(handle);
  if (retired == nullptr) {
    return failHandle(what);
  }
  retired->close();
  table.recycle(handle);
  return Status::Success;
}

template <class Body>
orError_t callGraph(const char* function, orGraph_t handle, Body&& body) {
  return callRuntime(function, [&](Runtime& runtime, ThreadState&) {
    GraphSlot* const slot = runtime.graphs.find(reinterpret_cast<std::uintptr_t>(handle));
    std::shared_ptr<const Graph> graph = slot != nullptr ? slot->get() : nullptr;
    return graph != nullptr ? body(runtime, std::move(graph)) : failHandle("graph");
  });
}

}  // namespace

orError_t orStreamBeginCapture(orStream_t stream, orStreamCaptureMode mode) {
  return callStream(__func__, stream, [&](Runtime& runtime, ThreadState& thread, Stream& target) {
    const int value = static_cast<int>(mode);
    if (value < orStreamCaptureModeGlobal || value > orStreamCaptureModeRelaxed) {
      return fail(Status::InvalidValue, "%d is no mode of capture", value);
    }
    EMULATOR_TRY(target.device().check());
    return runtime.captures.begin(thread, target, static_cast<CaptureMode>(value));
  });
}

orError_t orStreamEndCapture(orStream_t stream, orGraph_t* graph) {
  return callStream(__func__, stream, [&](Runtime& runtime, ThreadState& thread, Stream& target) {
    EMULATOR_TRY(requireOutput(graph, "graph"));
    *graph = nullptr;
    std::shared_ptr<const Graph> captured;
    EMULATOR_TRY(runtime.captures.end(thread, target, &captured));
    return publish(runtime.graphs, "graph", std::move(captured), graph);
  });
}

orError_t orStreamGetCaptureStatus(orStream_t stream, orStreamCaptureStatus* status) {
  return callStream(__func__, stream, [&](Runtime& runtime, ThreadState&, Stream& target) {
    EMULATOR_TRY(requireOutput(status, "status"));
    *status = target.capturing() ? static_cast<orStreamCaptureStatus>(runtime.captures.state(target)) : orStreamCaptureStatusNone;
    return Status::Success;
  });
}

orError_t orGraphInstantiate(orGraphExec_t* exec, orGraph_t graph) {
  return callGraph(__func__, graph, [&](Runtime& runtime, std::shared_ptr<const Graph> captured) {
    EMULATOR_TRY(requireOutput(exec, "exec"));
    return publish(runtime.graph_execs, "executable graph", std::move(captured), exec);
  });
}

orError_t orGraphLaunch(orGraphExec_t exec, orStream_t stream) {
  return callStream(__func__, stream, [&](Runtime& runtime, ThreadState& thread, Stream& target) {
    GraphExec* const launched = runtime.graph_execs.find(reinterpret_cast<std::uintptr_t>(exec));
    if (launched == nullptr) {
      return failHandle("executable graph");
    }
    if (target.capturing()) {
      return runtime.captures.refuse(
          target, "the launch of a graph cannot be captured; launch it outside of captures, or capture the work itself");
    }
    EMULATOR_TRY(target.device().check());
    EMULATOR_LOG(target, "graph", "exec=%p", static_cast<void*>(exec));
    const bool at_once = runtime.mode() == LaunchMode::Blocking ? !diagnosis::on(diagnosis::kDelay) : runtime.mayRunAtOnce();
    return settle(runtime, thread, target, launched->launch(thread, target, at_once));
  });
}

orError_t orGraphDestroy(orGraph_t graph) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState&) {
    return destroy(runtime.graphs, "graph", graph);
  });
}

orError_t orGraphExecDestroy(orGraphExec_t exec) {
  return callRuntime(__func__, [&](Runtime& runtime, ThreadState&) {
    return destroy(runtime.graph_execs, "executable graph", exec);
  });
}

orError_t orGraphGetNodeCount(orGraph_t graph, size_t* count) {
  return callGraph(__func__, graph, [&](Runtime&, const std::shared_ptr<const Graph>& captured) {
    EMULATOR_TRY(requireOutput(count, "count"));
    *count = captured->nodes().size();
    return Status::Success;
  });
}

orError_t orGraphDebugDump(orGraph_t graph, const char* path) {
  return callGraph(__func__, graph, [&](Runtime&, const std::shared_ptr<const Graph>& captured) {
    if (path == nullptr) {
      return fail(Status::InvalidValue, "the path is null");
    }
    return captured->dump(path);
  });
}
