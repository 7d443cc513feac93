// The functions of Graph.h, for a port without graphs.
#include "device/Graph.h"

#include "device/substitutes/Optional.h"

namespace openreg::device {

BACKEND_OPTIONAL void beginCapture(StreamHandle /*stream*/, CaptureMode /*mode*/) {
  refuse("graphs", "beginCapture");
}

BACKEND_OPTIONAL GraphHandle endCapture(StreamHandle /*stream*/) {
  refuse("graphs", "endCapture");
}

BACKEND_OPTIONAL bool isCapturing(StreamHandle /*stream*/) {
  return false;
}

BACKEND_OPTIONAL GraphExecHandle instantiateGraph(GraphHandle /*graph*/) {
  refuse("graphs", "instantiateGraph");
}

BACKEND_OPTIONAL void launchGraph(GraphExecHandle /*exec*/, StreamHandle /*stream*/) {
  refuse("graphs", "launchGraph");
}

BACKEND_OPTIONAL void destroyGraph(GraphHandle /*graph*/) noexcept {}  // there are none

BACKEND_OPTIONAL void destroyGraphExec(GraphExecHandle /*exec*/) noexcept {}  // there are none

BACKEND_OPTIONAL void dumpGraph(GraphHandle /*graph*/, const std::string& /*path*/) {
  refuse("graphs", "dumpGraph");
}

}  // namespace openreg::device
