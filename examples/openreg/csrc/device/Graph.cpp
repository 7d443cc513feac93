#include "device/Graph.h"

#include "device/Error.h"
#include "device/Handles.h"
#include "device/Waiting.h"

// PORTING: capture by your SDK's functions. If the SDK has no graphs, replace them all by `const bool no_graphs = notSupported("graphs",
// "the reason");` (Capabilities.h).
namespace openreg::device {
namespace {

orStreamCaptureMode modeOf(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::Global:
      return orStreamCaptureModeGlobal;
    case CaptureMode::ThreadLocal:
      return orStreamCaptureModeThreadLocal;
    case CaptureMode::Relaxed:
      break;
  }
  return orStreamCaptureModeRelaxed;
}

}  // namespace

void beginCapture(StreamHandle stream, CaptureMode mode) {
  DEVICE_CHECK(orStreamBeginCapture(unwrap(stream), modeOf(mode)));
}

GraphHandle endCapture(StreamHandle stream) {
  orGraph_t graph = nullptr;
  DEVICE_CHECK(orStreamEndCapture(unwrap(stream), &graph));
  return graph;
}

bool isCapturing(StreamHandle stream) {
  orStreamCaptureStatus status = orStreamCaptureStatusNone;
  DEVICE_CHECK(orStreamGetCaptureStatus(unwrap(stream), &status));
  return status != orStreamCaptureStatusNone;
}

GraphExecHandle instantiateGraph(GraphHandle graph) {
  orGraphExec_t exec = nullptr;
  DEVICE_CHECK(orGraphInstantiate(&exec, static_cast<orGraph_t>(graph)));
  return exec;
}

void launchGraph(GraphExecHandle exec, StreamHandle stream) {
  const Waiting waiting;
  DEVICE_CHECK(orGraphLaunch(static_cast<orGraphExec_t>(exec), unwrap(stream)));
}

void destroyGraph(GraphHandle graph) noexcept {
  DEVICE_WARN(orGraphDestroy(static_cast<orGraph_t>(graph)));
}

void destroyGraphExec(GraphExecHandle exec) noexcept {
  DEVICE_WARN(orGraphExecDestroy(static_cast<orGraphExec_t>(exec)));
}

void dumpGraph(GraphHandle graph, const std::string& path) {
  DEVICE_CHECK(orGraphDebugDump(static_cast<orGraph_t>(graph), path.c_str()));
}

}  // namespace openreg::device
