#pragma once

#include <string>

#include "device/Export.h"
#include "device/Stream.h"

// PORTING: graphs. Map each function of this file to your SDK in Graph.cpp.
namespace openreg::device {

// The SDK's recorded graph and its executable form, opaque to everything above the seam.
using GraphHandle = void*;
using GraphExecHandle = void*;

// Which calls of other threads a capture forbids: those of all threads, those of the capturing one, or only those that
// touch the streams it captures.
enum class CaptureMode {
  Global,
  ThreadLocal,
  Relaxed,
};

// From here on the stream's work is recorded instead of run, and the work of streams that wait for its events.
BACKEND_API void beginCapture(StreamHandle stream, CaptureMode mode);

// Raises, and leaves the stream usable, if the capture was spoilt by a call that cannot be recorded or if a stream that
// joined it was not joined back.
BACKEND_API GraphHandle endCapture(StreamHandle stream);

// Also true for a capture that was spoilt and has not ended.
BACKEND_API bool isCapturing(StreamHandle stream);

BACKEND_API GraphExecHandle instantiateGraph(GraphHandle graph);
BACKEND_API void launchGraph(GraphExecHandle exec, StreamHandle stream);
BACKEND_API void destroyGraph(GraphHandle graph) noexcept;
BACKEND_API void destroyGraphExec(GraphExecHandle exec) noexcept;

// Writes the graph as a Graphviz file.
BACKEND_API void dumpGraph(GraphHandle graph, const std::string& path);

}  // namespace openreg::device
