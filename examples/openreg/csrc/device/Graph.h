#pragma once

#include <string>

#include "device/Export.h"
#include "device/Stream.h"

// Graph capture. These functions are the capability "graphs", and are called only on a device that has it. Device.h has the rules for all
// functions.
namespace openreg::device {

// The SDK's captured graph and its executable form, opaque to everything above the seam.
using GraphHandle = void*;
using GraphExecHandle = void*;

// Which unsafe calls a capture forbids: those of all threads, those of the capturing thread, or only those that use a
// captured stream.
enum class CaptureMode {
  Global,
  ThreadLocal,
  Relaxed,
};

// Starts to record the work of the stream, and of streams that wait for its events, instead of running it.
BACKEND_API void beginCapture(StreamHandle stream, CaptureMode mode);

// Raises an error, and leaves the stream usable, if a call that cannot be recorded invalidated the capture, or if the first
// stream does not wait for another stream of the capture.
BACKEND_API GraphHandle endCapture(StreamHandle stream);

// Also true for an invalidated capture until it ends. The allocators ask it often, so it must be quick.
BACKEND_API bool isCapturing(StreamHandle stream);

BACKEND_API GraphExecHandle instantiateGraph(GraphHandle graph);
BACKEND_API void launchGraph(GraphExecHandle exec, StreamHandle stream);
BACKEND_API void destroyGraph(GraphHandle graph) noexcept;
BACKEND_API void destroyGraphExec(GraphExecHandle exec) noexcept;

// Writes the graph as a Graphviz file.
BACKEND_API void dumpGraph(GraphHandle graph, const std::string& path);

}  // namespace openreg::device
