// C interface of an emulated accelerator.
//
// Terms
//   device address   What orMalloc returns. The host cannot read or write it: doing so ends the process with a message.
//   kernel address   Device address plus the constant of orGetKernelAddressOffset. Only code that runs on the device,
//                    that is inside a function given to a launch call, may use it.
//   stream           A queue that runs its work in the order of submission. Streams run independently of each other; the
//                    default stream is a stream like any other and is not synchronised with the rest implicitly.
//   event            A point in a stream.
//   pinned memory    Host memory from orMallocHost. All other host memory is called pageable.
//
// Rules that hold for every function
//   - It may be called from any thread. The current device and the last error belong to the calling thread.
//   - The first call that needs a device sets up the SDK; loading the library does nothing.
//   - Failures are returned and remembered for orGetLastError. orErrorNotReady is an answer and is not remembered.
//   - Some failures are possible everywhere and are not repeated below: orErrorInitialization (an environment variable holds
//     nonsense, or the system refuses address space) and, for functions that need a device, orErrorForked, and
//     orErrorInvalidDevice if there are no devices.
//   - Output arguments are written on success only. A null output argument is orErrorInvalidValue.
//   - Sizes are bytes.
//   - A device can be lost (orDeviceFail, orSetStickyErrors). Every call that needs it, by a stream, an event, memory or as the current
//     device, is then orErrorDeviceLost with the reason, until orDeviceReset. Destroying handles remains possible.
//   - Once the process has begun to exit, queued work is abandoned and waiting for it is orErrorNotSupported.
//   - "Waits" means that the calling thread is blocked; release locks that queued work may need before. A wait that can
//     never end, because the caller is itself a kernel of the stream in question, is refused with orErrorNotSupported.
//
// Environment, read at the first call
//   OPENREG_NUM_DEVICES     number of devices, 0 to 64
//   OPENREG_DEVICE_MEMORY   memory of each device: bytes, or a number with the suffix K, M, G or T (powers of 1024)
//   OPENREG_LAUNCH          inline    work for an idle stream may run at once on the submitting thread (default)
//                           async     orLaunchKernel and asynchronous copies and fills are always queued
//                           blocking  kernels, copies, fills and host functions have completed when the call returns;
//                                     recording an event and waiting for one by a stream never block the caller
//   To find mistakes; all of it is off by default and has a function below.
//   OPENREG_DELAY_US        as orSetKernelDelay
//   OPENREG_FAIL            as orInjectFault, with the failure that fits: orMalloc:3,orLaunchKernel:1
//   OPENREG_STICKY_ERRORS   1: as orSetStickyErrors
//   OPENREG_LOG             as orSetLaunchLog
#ifndef OPENREG_OPENREG_H
#define OPENREG_OPENREG_H

#include <stddef.h>

#if defined(_WIN32)
#if defined(OPENREG_BUILD)
#define OPENREG_API __declspec(dllexport)
#else
#define OPENREG_API __declspec(dllimport)
#endif
#else
#define OPENREG_API __attribute__((visibility("default")))
#endif

// 1000 * major + 10 * minor.
#define OPENREG_VERSION 1000

#ifdef __cplusplus
extern "C" {
#endif

typedef enum orError_t {
  orSuccess = 0,
  orErrorInvalidValue = 1,  // an argument is out of range, null, or inconsistent with another one
  orErrorMemoryAllocation = 2,  // the device or the host does not have enough memory
  orErrorInitialization = 3,  // the SDK could not be set up
  orErrorInvalidDevice = 4,  // no device has this index
  orErrorInvalidHandle = 5,  // not a live stream, event or graph, one of another device, or no handle for other processes
  orErrorNotReady = 6,  // the work is still pending
  orErrorInvalidPointer = 7,  // unknown, freed or foreign pointer, or not the start of an allocation
  orErrorInvalidMemcpyDirection = 8,  // the kind of copy contradicts the pointers
  orErrorNotSupported = 9,  // cannot be done, or not from here
  orErrorForked = 10,  // the SDK was in use before fork(); start child processes with the `spawn` method
  orErrorLaunchFailure = 11,  // a kernel or host function ended with an exception
  orErrorStreamCaptureUnsupported = 12,  // cannot be done during a capture, which is invalid from then on
  orErrorStreamCaptureInvalidated = 13,  // an earlier call made the capture invalid
  orErrorStreamCaptureUnjoined = 14,  // a capture ended without waiting for a stream that had joined it
  orErrorDeviceLost = 15,  // the device failed and has to be reset
  orErrorUnknown = 999
} orError_t;

typedef enum orMemcpyKind {
  orMemcpyHostToHost = 0,
  orMemcpyHostToDevice = 1,
  orMemcpyDeviceToHost = 2,
  orMemcpyDeviceToDevice = 3,  // within a device or between two
  orMemcpyDefault = 4  // found out from the pointers
} orMemcpyKind;

typedef enum orMemoryType {
  orMemoryTypeUnregistered = 0,  // pageable host memory, freed memory, or no memory at all
  orMemoryTypeHost = 1,  // pinned
  orMemoryTypeDevice = 2
} orMemoryType;

// For orEventCreateWithFlags, combined with |.
typedef enum orEventFlags {
  orEventDefault = 0,  // records timestamps
  orEventBlockingSync = 1,  // a hint: waiting should not burn the processor; here no wait does
  orEventDisableTiming = 2,
  orEventInterprocess = 4  // other processes can use it; together with orEventDisableTiming
} orEventFlags;

// For orStreamBeginCapture: whom a capture keeps from synchronous calls that might disturb it, that is orMemcpy and orMemset.
typedef enum orStreamCaptureMode {
  orStreamCaptureModeGlobal = 0,  // all threads
  orStreamCaptureModeThreadLocal = 1,  // the thread that began the capture
  orStreamCaptureModeRelaxed = 2  // nobody, unless the call concerns a stream of the capture; any thread may end it
} orStreamCaptureMode;

typedef enum orStreamCaptureStatus {
  orStreamCaptureStatusNone = 0,
  orStreamCaptureStatusActive = 1,
  orStreamCaptureStatusInvalidated = 2  // only orStreamEndCapture succeeds in ending this
} orStreamCaptureStatus;

typedef struct orStream* orStream_t;  // NULL: the default stream of the current device
typedef struct orEvent* orEvent_t;
typedef struct orGraph* orGraph_t;  // captured work
typedef struct orGraphExec* orGraphExec_t;  // captured work that can be launched
typedef void (*orKernel_t)(void* args);

// Opaque bytes that may be sent to another process by any means.
typedef struct orIpcMemHandle_t {
  char reserved[64];
} orIpcMemHandle_t;
typedef struct orIpcEventHandle_t {
  char reserved[64];
} orIpcEventHandle_t;

typedef struct orDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  size_t allocationAlignment;  // orMalloc returns multiples of this
  int multiProcessorCount;  // hardware threads of the host
  int major;  // version of the emulated architecture
  int minor;
  int maxConcurrentStreams;  // streams of the device that can make progress at the same moment
} orDeviceProp;

typedef struct orPointerAttributes {
  orMemoryType type;
  int device;  // -1 unless type is orMemoryTypeDevice
  void* basePointer;  // start of the allocation that holds the pointer; NULL if unregistered
  size_t size;  // size that was asked for; 0 if unregistered
} orPointerAttributes;

// ---- Errors ---------------------------------------------------------------------------------------------------------

// Name of the enumerator; "unknown error code" for a number that is none. Never NULL, valid forever.
OPENREG_API const char* orGetErrorName(orError_t error);

// One sentence on what the code means in general. Never NULL, valid forever.
OPENREG_API const char* orGetErrorString(orError_t error);

// The last failure on this thread, orSuccess if there was none since the previous orGetLastError, which forgets it.
OPENREG_API orError_t orGetLastError(void);

// As orGetLastError, without forgetting.
OPENREG_API orError_t orPeekAtLastError(void);

// What went wrong in the last failing call of this thread and what to do about it, beginning with the function's name.
// Empty if no call has failed. Valid until the next failing call on the thread; orGetLastError does not erase it.
OPENREG_API const char* orGetLastErrorMessage(void);

// ---- Devices --------------------------------------------------------------------------------------------------------

// Number of devices. Neither sets up the SDK nor needs a device, so it also works in a forked child.
OPENREG_API orError_t orGetDeviceCount(int* count);

// Current device of the calling thread, 0 at first. Works in a forked child.
OPENREG_API orError_t orGetDevice(int* device);

// Chooses the current device of the calling thread.
// orErrorInvalidDevice: index out of range.
OPENREG_API orError_t orSetDevice(int device);

// Waits for all work submitted to any stream of the current device before this call, and for no other device.
// orErrorLaunchFailure: work on one of its streams failed since the last report; reported once.
// orErrorNotSupported: called from inside a kernel of the current device.
OPENREG_API orError_t orDeviceSynchronize(void);

// Describes a device, which need not be the current one. Works in a forked child.
// orErrorInvalidDevice: index out of range.
OPENREG_API orError_t orGetDeviceProperties(orDeviceProp* properties, int device);

// Range of stream priorities: *least is 0, *greatest is -2. Work of a lower number is served first.
OPENREG_API orError_t orDeviceGetStreamPriorityRange(int* least, int* greatest);

// *can is 1 if kernels of `device` may use the memory of `peer`, which holds for each two different devices, else 0.
// orErrorInvalidDevice: an index is out of range.
OPENREG_API orError_t orDeviceCanAccessPeer(int* can, int device, int peer);

// OPENREG_VERSION of the library, as opposed to that of the header.
OPENREG_API orError_t orRuntimeGetVersion(int* version);

// Brings the current device back to the state it had at the start, lost or not. Work that is queued on it is discarded; the call
// waits for what is running, and for events of other devices that its streams wait for. Then its memory is freed, and its
// streams, events, and the graphs that use it end: their handles are invalid and its pointers unknown. The default stream
// remains, and pinned memory does. A capture that the device takes part in becomes invalid, or is over if it began there.
// No other thread should be using the device meanwhile.
// orErrorNotSupported: called from inside a kernel or host function.
OPENREG_API orError_t orDeviceReset(void);

// ---- Memory ---------------------------------------------------------------------------------------------------------

// Allocates memory on the current device. The content is undefined. *pointer is a device address; NULL for size 0.
// orErrorMemoryAllocation: not enough contiguous memory; the message has the figures.
OPENREG_API orError_t orMalloc(void** pointer, size_t size);

// Gives device memory of any device back to the system. Waits first for the work of that device submitted before, unless
// called from inside a kernel or host function: then the caller vouches that nothing uses the memory any more.
// NULL is allowed and does nothing.
// orErrorInvalidPointer: not the start of a live allocation of orMalloc (foreign, interior, already freed, of another process).
OPENREG_API orError_t orFree(void* pointer);

// Allocates pinned host memory, aligned to a page and filled with zeros. It is the host's: read and write it freely. Only
// copies from and to it are asynchronous. NULL for size 0.
// orErrorMemoryAllocation: the system has no memory.
OPENREG_API orError_t orMallocHost(void** pointer, size_t size);

// Frees pinned memory. Waits first for the work of all devices, with the exception described at orFree. NULL does nothing.
// orErrorInvalidPointer: not the start of a live allocation of orMallocHost.
OPENREG_API orError_t orFreeHost(void* pointer);

// Unallocated and total memory of the current device.
OPENREG_API orError_t orMemGetInfo(size_t* free, size_t* total);

// Copies on the default stream of the current device, after the work submitted to it before; complete on return.
// Device ranges must lie within one live allocation each. Size 0 copies nothing and looks at no pointer.
// orErrorInvalidValue: null pointer, ranges overlap, a range leaves its allocation, unknown kind.
// orErrorInvalidPointer: a device address at which nothing is allocated.
// orErrorInvalidMemcpyDirection: `kind` contradicts where the pointers point to.
OPENREG_API orError_t orMemcpy(void* dst, const void* src, size_t size, orMemcpyKind kind);

// Copies in the order of `stream`. If one of the pointers is pageable host memory it is synchronous: it waits for the
// stream and returns when the data has arrived. Otherwise it returns at once and the memory must stay untouched until the
// stream has come to the end of the copy; only small copies on an idle stream are made by the calling thread.
// Errors of orMemcpy, and orErrorInvalidHandle: not a live stream.
OPENREG_API orError_t orMemcpyAsync(void* dst, const void* src, size_t size, orMemcpyKind kind, orStream_t stream);

// Sets `size` bytes of device memory to the low byte of `value`, on the default stream; complete on return.
// orErrorInvalidValue: null pointer, the range leaves its allocation.
// orErrorInvalidPointer: not a device address, or nothing is allocated there.
OPENREG_API orError_t orMemset(void* pointer, int value, size_t size);

// As orMemset, in the order of `stream`, asynchronous.
// Errors of orMemset, and orErrorInvalidHandle: not a live stream.
OPENREG_API orError_t orMemsetAsync(void* pointer, int value, size_t size, orStream_t stream);

// Says what a pointer is. Any address may be asked for; one inside of an allocation finds that allocation.
OPENREG_API orError_t orPointerGetAttributes(orPointerAttributes* attributes, const void* pointer);

// Difference in bytes between a kernel address and its device address: one constant for all devices and for the life of the
// process. Kernel addresses are for functions that run on the device; whoever uses them elsewhere gives up the protection
// and the order of streams.
OPENREG_API orError_t orGetKernelAddressOffset(ptrdiff_t* offset);

// ---- Other processes ------------------------------------------------------------------------------------------------
// One process makes a handle and passes its bytes to another one of the same user, which opens it. Both have to run.

// Makes the handle of an allocation of orMalloc, the same one each time. It is valid until the allocation is freed. Free
// the memory only when nobody has it open any more: else they see other data, later allocations among it.
// orErrorInvalidPointer: not the start of a live allocation. orErrorNotSupported: it is memory of another process.
OPENREG_API orError_t orIpcGetMemHandle(orIpcMemHandle_t* handle, void* pointer);

// Makes the memory of a handle usable in this process. *pointer is a device address on the device of the same index, for
// kernels, copies and fills; the memory does not count as allocated here. Opening a handle again gives the same address, and
// has to be closed once more. What is open stays readable if the other process ends.
// orErrorInvalidHandle: no handle, of memory that was freed, or of a process that has ended.
// orErrorInvalidDevice: this process has fewer devices. orErrorMemoryAllocation: no addresses are left.
// orErrorNotSupported: this process made the handle itself, or the system forbids to open memory of the other one.
OPENREG_API orError_t orIpcOpenMemHandle(void** pointer, orIpcMemHandle_t handle);

// Undoes one orIpcOpenMemHandle. Waits like orFree.
// orErrorInvalidPointer: not an address that orIpcOpenMemHandle gave, or closed before.
OPENREG_API orError_t orIpcCloseMemHandle(void* pointer);

// Makes the handle of an event, the same one each time. It is valid until the event is destroyed here; to all others it
// counts as complete from then on.
// orErrorInvalidHandle: not a live event. orErrorInvalidValue: made without orEventInterprocess.
OPENREG_API orError_t orIpcGetEventHandle(orIpcEventHandle_t* handle, orEvent_t event);

// Makes an event of this process that is the same as the one of the handle, to be destroyed like any other. Each process may
// record it on its streams of the device of the same index; all of them query and wait for the latest recording. Waits learn
// of another process's progress with a delay of up to a millisecond. If a process ends before it has come to what it
// recorded, streams that wait for it go on, and query and synchronise give orErrorLaunchFailure.
// A recording fails with orErrorNotSupported if the 16 before it are all pending.
// orErrorInvalidHandle: no handle, of an event that was destroyed, or of a process that has ended.
// orErrorInvalidDevice, orErrorNotSupported: as for orIpcOpenMemHandle.
OPENREG_API orError_t orIpcOpenEventHandle(orEvent_t* event, orIpcEventHandle_t handle);

// ---- Streams --------------------------------------------------------------------------------------------------------

// Makes a stream of priority 0 on the current device.
OPENREG_API orError_t orStreamCreate(orStream_t* stream);

// Makes a stream on the current device. `flags` must be 0.
// orErrorInvalidValue: unknown flag, or priority outside of orDeviceGetStreamPriorityRange.
OPENREG_API orError_t orStreamCreateWithPriority(orStream_t* stream, unsigned int flags, int priority);

// Ends the life of the handle and returns at once; pending work still completes.
// orErrorInvalidHandle: not a live stream, or the default stream.
OPENREG_API orError_t orStreamDestroy(orStream_t stream);

// orSuccess if all work submitted before is complete, orErrorNotReady if not; never waits.
// orErrorInvalidHandle: not a live stream. orErrorLaunchFailure: as for orStreamSynchronize.
OPENREG_API orError_t orStreamQuery(orStream_t stream);

// Waits for all work submitted to the stream before this call.
// orErrorInvalidHandle: not a live stream.
// orErrorLaunchFailure: queued work of the stream failed since the last report; reported once.
// orErrorNotSupported: called from inside a kernel of the stream.
OPENREG_API orError_t orStreamSynchronize(orStream_t stream);

// Work submitted to the stream from now on starts after what the event recorded last is complete. The event may be of another
// device; recording it again later changes nothing. An event never recorded does not hold anything up. `flags` must be 0.
// Returns at once. Called from inside a kernel of the stream: orErrorNotSupported if the event is still pending.
// orErrorInvalidHandle: not a live stream or event. orErrorInvalidValue: unknown flag.
OPENREG_API orError_t orStreamWaitEvent(orStream_t stream, orEvent_t event, unsigned int flags);

// orErrorInvalidHandle: not a live stream.
OPENREG_API orError_t orStreamGetPriority(orStream_t stream, int* priority);

// orErrorInvalidHandle: not a live stream.
OPENREG_API orError_t orStreamGetDevice(orStream_t stream, int* device);

// ---- Events ---------------------------------------------------------------------------------------------------------

// Makes an event for the streams of the current device, with timing.
OPENREG_API orError_t orEventCreate(orEvent_t* event);

// orErrorInvalidValue: unknown flag, or orEventInterprocess without orEventDisableTiming.
OPENREG_API orError_t orEventCreateWithFlags(orEvent_t* event, unsigned int flags);

// Ends the life of the handle and returns at once; streams that wait for it are still released.
// orErrorInvalidHandle: not a live event.
OPENREG_API orError_t orEventDestroy(orEvent_t event);

// The event now stands for all work submitted to the stream so far, and for its time of completion. What it stood for before
// is forgotten, except by the waits that were made on it.
// orErrorInvalidHandle: not a live stream or event, or they belong to different devices.
OPENREG_API orError_t orEventRecord(orEvent_t event, orStream_t stream);

// Waits for what the event recorded last; returns at once if it was never recorded.
// orErrorInvalidHandle: not a live event.
// orErrorNotSupported: called from inside a kernel of the stream on which it is pending.
OPENREG_API orError_t orEventSynchronize(orEvent_t event);

// orSuccess if what the event recorded last is complete, also if it was never recorded; else orErrorNotReady. Never waits.
// orErrorInvalidHandle: not a live event.
OPENREG_API orError_t orEventQuery(orEvent_t event);

// Time in milliseconds, with the resolution of a nanosecond, between the moments at which the device came to the two events;
// negative if `end` came first.
// orErrorInvalidHandle: not a live event.
// orErrorInvalidValue: never recorded, made without timing, or the events belong to different devices.
// orErrorNotReady: one of them is still pending.
OPENREG_API orError_t orEventElapsedTime(float* milliseconds, orEvent_t start, orEvent_t end);

// ---- Launches -------------------------------------------------------------------------------------------------------
// Functions that run on the device may use kernel addresses. They should not let an exception out: the SDK stops it and
// turns it into orErrorLaunchFailure.

// Runs kernel(args) in the order of `stream`. On an idle stream it may run at once on the calling thread, and sees `args`
// itself; else the `args_size` bytes are copied (aligned to 16) and a worker runs it later. The kernel must not write to its
// arguments. A launch from inside a kernel of the same stream on the same thread runs at once, as a part of it.
// orErrorInvalidValue: null kernel, or null args of a size other than 0.
// orErrorInvalidHandle: not a live stream.
// orErrorLaunchFailure: it ran at once and failed. Failures of queued kernels are reported by synchronisation.
OPENREG_API orError_t orLaunchKernel(orKernel_t kernel, const void* args, size_t args_size, orStream_t stream);

// Waits for everything submitted to the stream before, runs kernel(args) on the calling thread and returns when it is done, in
// every launch mode. Nothing else of the stream runs meanwhile. From inside a kernel of the same stream on the same thread
// it runs at once, as a part of it.
// orErrorInvalidValue: null kernel. orErrorInvalidHandle: not a live stream. orErrorLaunchFailure: the kernel failed.
OPENREG_API orError_t orLaunchKernelInline(orKernel_t kernel, void* args, orStream_t stream);

// Queues function(user) on the host, in the order of the stream; never on the calling thread. It may take locks that the
// submitting thread holds, and must not wait for the stream it runs on.
// orErrorInvalidValue: null function. orErrorInvalidHandle: not a live stream.
OPENREG_API orError_t orLaunchHostFunc(orKernel_t function, void* user, orStream_t stream);

// ---- Graphs ---------------------------------------------------------------------------------------------------------
// A capture turns what a stream is given into a graph instead of running it.
//   recorded     orLaunchKernel (the arguments are copied), orLaunchHostFunc, orMemcpyAsync, orMemsetAsync. Each is a node. All
//                addresses are kept as they are: the memory must live as long as the graph is launched.
//   dependency   orEventRecord on a stream of the capture marks a point of it, and orStreamWaitEvent for that event has what
//                follows depend on that point. A stream that waits so joins the capture (fork), also one of another device, until
//                the capture ends; the first stream must come to wait for all that the others were given (join). Neither is a
//                node, and the event stands for no work: replaying the graph does not record it.
//   refused      orErrorStreamCaptureUnsupported, and the capture is invalid: orLaunchKernelInline, orGraphLaunch and copies from or
//                to pageable memory on a stream of the capture; waiting for an event recorded outside of it (one never
//                recorded is no obstacle); to query, synchronise or destroy one of its streams, to synchronise their devices, to
//                query, synchronise or time an event that it recorded; orMemcpy and orMemset as the mode says, and always if
//                they would use one of its streams.
//   allowed      everything else, in every mode. orMalloc, orFree, orMallocHost and orFreeHost act at once and are not a part of the
//                graph; freeing waits for submitted work as ever, not for captured work, which nothing has submitted yet.
// An event whose latest recording was captured gives orErrorStreamCaptureUnsupported, also after the capture, until it is
// recorded again.

// From now on the stream is captured. Work that it was given before runs on and is no part of it. The default stream can be
// captured as well.
// orErrorInvalidValue: unknown mode, or the stream is being captured. orErrorInvalidHandle: not a live stream.
// orErrorNotSupported: called from inside a kernel of the stream.
OPENREG_API orError_t orStreamBeginCapture(orStream_t stream, orStreamCaptureMode mode);

// Ends the capture that began on this stream. *graph is NULL if that fails. Except for the first three errors the capture is
// over all the same, and its streams run again what they are given.
// orErrorInvalidValue: not captured, or the capture began on another stream. orErrorInvalidHandle: not a live stream.
// orErrorNotSupported: not the thread on which the capture began, unless its mode is relaxed.
// orErrorStreamCaptureInvalidated: a call was refused meanwhile; the message says which.
// orErrorStreamCaptureUnjoined: the stream does not wait for all work of the streams that joined the capture.
OPENREG_API orError_t orStreamEndCapture(orStream_t stream, orGraph_t* graph);

// Whether the stream takes part in a capture. Changes nothing.
// orErrorInvalidHandle: not a live stream.
OPENREG_API orError_t orStreamGetCaptureStatus(orStream_t stream, orStreamCaptureStatus* status);

// Makes a graph that can be launched, any number of times. It has all it needs: the other one may be destroyed.
// orErrorInvalidHandle: not a live graph.
OPENREG_API orError_t orGraphInstantiate(orGraphExec_t* exec, orGraph_t graph);

// Runs the whole graph in the order of `stream`, which may be of any device, as one piece of work. A launch of the same
// executable graph on another stream waits until this one is over. The nodes run one after the other in the order of capture, each with the
// device of its stream as the current one; the first that fails ends the run. A graph without host functions and large
// copies may run at once on the calling thread if the stream is idle. Cannot be captured itself.
// orErrorInvalidHandle: not a live executable graph or stream. orErrorLaunchFailure: it ran at once and failed.
// orErrorStreamCaptureUnsupported: the stream is being captured.
// orErrorNotSupported: called from inside a kernel of the stream while the graph is still running.
OPENREG_API orError_t orGraphLaunch(orGraphExec_t exec, orStream_t stream);

// orErrorInvalidHandle: not a live graph.
OPENREG_API orError_t orGraphDestroy(orGraph_t graph);

// Ends the life of the handle and returns at once; launches that are pending still complete.
// orErrorInvalidHandle: not a live executable graph.
OPENREG_API orError_t orGraphExecDestroy(orGraphExec_t exec);

// orErrorInvalidHandle: not a live graph.
OPENREG_API orError_t orGraphGetNodeCount(orGraph_t graph, size_t* count);

// Writes the graph to a file in the language of Graphviz: kind, stream, device, sizes and addresses of each node, and what it
// depends on.
// orErrorInvalidHandle: not a live graph. orErrorInvalidValue: null path, or the file cannot be written.
OPENREG_API orError_t orGraphDebugDump(orGraph_t graph, const char* path);

// ---- Finding mistakes -----------------------------------------------------------------------------------------------
// For tests of what is built on this library.

// Every kernel, copy and fill takes this much longer on the device from now on, so that missing synchronisation shows.
// None of them runs on the submitting thread meanwhile, except by orLaunchKernelInline, in the blocking mode, and if synchronous.
// 0 ends it; at most 10 seconds.
// orErrorInvalidValue: too long.
OPENREG_API orError_t orSetKernelDelay(unsigned int microseconds);

// The nth call (1: the next one) of the named function on any thread from now on does nothing but return `error`, once.
// orSuccess: the error that fits the function, which is orErrorMemoryAllocation for orMalloc and orMallocHost, orErrorLaunchFailure
// for launches and for what reports their failures, and orErrorUnknown else. A function has one such plan at a time; nth 0 drops it.
// orErrorInvalidValue: null or unknown function, or no error code.
OPENREG_API orError_t orInjectFault(const char* function, unsigned int nth, orError_t error);

// 1: a kernel that ends with an exception after it was queued has its device lost, as a fault on hardware has. It does not
// apply to what runs on the submitting thread, which is told at once, nor to host functions. 0: back to normal.
OPENREG_API orError_t orSetStickyErrors(int enabled);

// Writes a line for each submission to a stream from now on: seconds, device, stream, kind, addresses and sizes.
// path: a file, which is overwritten; "stderr"; or NULL, which ends the log.
// orErrorInvalidValue: the file cannot be written.
OPENREG_API orError_t orSetLaunchLog(const char* path);

// The device is lost from now on, for this reason (NULL: none given). May be called from inside a kernel, whose launch still
// succeeds. A device that is lost already stays so for the first reason.
// orErrorInvalidDevice: index out of range.
OPENREG_API orError_t orDeviceFail(int device, const char* reason);

#ifdef __cplusplus
}
#endif

#endif
