#pragma once

#include "device/Export.h"

// Streams: queues of work of one device. Device.h has the rules for all functions.
namespace openreg::device {

// The SDK's own handle of a stream, as a pointer, opaque to everything above the seam. Programs get it from a stream (`native_handle`) and
// give those of other libraries (get_stream_from_external), so it must not be a struct of the port. What the SDK does not tell about a
// stream is kept in a table beside it (substitutes/StreamTable.h). Never nullptr, which means "no stream": PyTorch's default stream is
// made by createStream() too. An SDK whose handles are numbers adds a constant to them.
using StreamHandle = void*;

// On the current device. Streams are kept until the process ends, so no function destroys one. A device without priorities ignores it.
BACKEND_API StreamHandle createStream(int priority);

// True if everything submitted has completed, also the task that is running now. Does not wait, and may return false a little longer than
// necessary. If the SDK's answer is wrong while the last task runs: substitutes/StreamTable.h.
BACKEND_API bool queryStream(StreamHandle stream);

// Blocks until everything submitted to the stream has completed.
BACKEND_API void synchronizeStream(StreamHandle stream);

// The priority of createStream(). Part of the capability "priorities".
BACKEND_API int streamPriority(StreamHandle stream);

// Also for streams that another library made with the SDK. Throws for a handle that is no stream, if the SDK can tell.
BACKEND_API int streamDevice(StreamHandle stream);

}  // namespace openreg::device
