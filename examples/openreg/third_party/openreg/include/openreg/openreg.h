// C interface of an emulated accelerator.
//
// Terms
//   device address   The address that orMalloc returns. If the host reads or writes it, the process ends with a message.
//   kernel address   Device address plus the constant of orGetKernelAddressOffset. Only code that runs on the device may use
//                    it, that is a function that was passed to a launch call.
//   stream           A queue that runs its work in the order of submission. Streams run independently of each other. The
//                    default stream is a stream like any other; other streams do not wait for it.
//   event            A point in a stream.
//   pinned memory    Host memory from orMallocHost. All other host memory is called pageable.
//
// Rules that hold for every function
//   - Any thread may call it. The current device and the last error belong to the calling thread.
//   - The first call that needs a device initializes the SDK; loading the library does nothing.
//   - Failures are returned, and stored for orGetLastError. orErrorNotReady is not a failure and is not stored.
//   - Some failures are possible everywhere and are not repeated below: orErrorInitialization (an environment variable is
//     invalid, or the system refuses address space) and, for functions that need a device, orErrorForked, and
//     orErrorInvalidDevice if there are no devices.
//   - Output arguments are written on success only. A null output argument is orErrorInvalidValue.
//   - Sizes are bytes.
//   - A device can be lost (orDeviceFail, orSetStickyErrors). Until orDeviceReset, every call that needs the device, by a
//     stream, an event, memory or as the current device, returns orErrorDeviceLost with the reason. Handles can be destroyed.
//   - After the process has begun to exit, queued work is dropped, and waiting for it returns orErrorNotSupported.
//   - "Waits" means that the calling thread is blocked. Release locks that queued work may need before such a call. A wait that
//     could never end, because the caller is itself a kernel of that stream, returns orErrorNotSupported.
//
// Environment, read at the first call
//   OPENREG_NUM_DEVICES     number of devices, 0 to 64
//   OPENREG_DEVICE_MEMORY   memory of each device: bytes, or a number with the suffix K, M, G or T (powers of 1024)
//   OPENREG_LAUNCH          inline    work for an idle stream may run at once on the submitting thread (default)
//                           async     orLaunchKernel and asynchronous copies and fills are always queued
//                           blocking  kernels, copies, fills and host functions have completed when the call returns;
//                                     recording an event and waiting for one by a stream never block the caller
//   For finding mistakes. All are off by default and also have a function below.
//   OPENREG_DELAY_US        like orSetKernelDelay
//   OPENREG_FAIL            like orInjectFault, with the default error of the function: orMalloc:3,orLaunchKernel:1
//   OPENREG_STICKY_ERRORS   1: like orSetStickyErrors
//   OPENREG_LOG             like orSetLaunchLog
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
  orErrorInvalidValue = 1,  // an argument is out of range, null, or inconsistent with another argument
  orErrorMemoryAllocation = 2,  // the device or the host does not have enough memory
  orErrorInitialization = 3,  // the SDK could not be initialized
  orErrorInvalidDevice = 4,  // no device has this index
  orErrorInvalidHandle = 5,  // not a live stream, event or graph; of another device; or not a handle for other processes
  orErrorNotReady = 6,  // the work is still pending
  orErrorInvalidPointer = 7,  // unknown, freed or foreign pointer, or not the start of an allocation
  orErrorInvalidMemcpyDirection = 8,  // the kind of copy contradicts the pointers
  orErrorNotSupported = 9,  // not possible, or not possible from this caller
  orErrorForked = 10,  // the SDK was in use before fork(); start child processes with the `spawn` method
  orErrorLaunchFailure = 11,  // a kernel or host function ended with an exception
  orErrorStreamCaptureUnsupported = 12,  // not possible during a capture; the capture is now invalid
  orErrorStreamCaptureInvalidated = 13,  // an earlier call made the capture invalid
  orErrorStreamCaptureUnjoined = 14,  // a capture ended without waiting for a stream that had joined it
  orErrorDeviceLost = 15,  // the device failed and must be reset
  orErrorUnknown = 999
} orError_t;

typedef enum orMemcpyKind {
  orMemcpyHostToHost = 0,
  orMemcpyHostToDevice = 1,
  orMemcpyDeviceToHost = 2,
  orMemcpyDeviceToDevice = 3,  // within a device or between two
  orMemcpyDefault = 4  // derived from the pointers
} orMemcpyKind;

typedef enum orMemoryType {
  orMemoryTypeUnregistered = 0,  // pageable host memory, freed memory, or no memory at all
  orMemoryTypeHost = 1,  // pinned
  orMemoryTypeDevice = 2
} orMemoryType;

// For orEventCreateWithFlags, combined with |.
typedef enum orEventFlags {
  orEventDefault = 0,  // records timestamps
  orEventBlockingSync = 1,  // a hint that a wait should sleep instead of spinning; here every wait sleeps
  orEventDisableTiming = 2,
  orEventInterprocess = 4  // other processes can use it; together with orEventDisableTiming
} orEventFlags;

// For orStreamBeginCapture: which threads must not make synchronous calls (orMemcpy and orMemset) during a capture.
typedef enum orStreamCaptureMode {
  orStreamCaptureModeGlobal = 0,  // all threads
  orStreamCaptureModeThreadLocal = 1,  // the thread that began the capture
  orStreamCaptureModeRelaxed = 2  // none, except for calls on a captured stream; any thread may end the capture
} orStreamCaptureMode;

typedef enum orStreamCaptureStatus {
  orStreamCaptureStatusNone = 0,
  orStreamCaptureStatusActive = 1,
  orStreamCaptureStatusInvalidated = 2  // orStreamEndCapture must still end the capture
} orStreamCaptureStatus;

typedef struct orStream* orStream_t;  // NULL: the default stream of the current device
typedef struct orEvent* orEvent_t;
typedef struct orGraph* orGraph_t;  // captured work
typedef struct orGraphExec* orGraphExec_t;  // captured work that can be launched
typedef void (*orKernel_t)(void* args);

// Opaque bytes that can be sent to another process in any way.
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
  int maxConcurrentStreams;  // number of streams that can run work at the same time
} orDeviceProp;

typedef struct orPointerAttributes {
  orMemoryType type;
  int device;  // -1 unless type is orMemoryTypeDevice
  void* basePointer;  // start of the allocation that contains the pointer; NULL if unregistered
  size_t size;  // requested size of the allocation; 0 if unregistered
} orPointerAttributes;

// ---- Errors ---------------------------------------------------------------------------------------------------------

// Returns the name of the enumerator, or "unknown error code". Never NULL; the pointer stays valid.
OPENREG_API const char* orGetErrorName(orError_t error);

// Returns one sentence with the general meaning of the code. Never NULL; the pointer stays valid.
OPENREG_API const char* orGetErrorString(orError_t error);

// Returns and clears the last failure on this thread; orSuccess if there was none since the previous orGetLastError.
OPENREG_API orError_t orGetLastError(void);

// Like orGetLastError, but does not clear the failure.
OPENREG_API orError_t orPeekAtLastError(void);

// Returns a message about the last failing call of this thread: the function's name, the cause, and the remedy. Empty if no
// call has failed. Valid until the next failing call on the thread; orGetLastError does not clear it.
OPENREG_API const char* orGetLastErrorMessage(void);

// ---- Devices --------------------------------------------------------------------------------------------------------

// Returns the number of devices. It neither initializes the SDK nor needs a device, so it also works in a forked child.
OPENREG_API orError_t orGetDeviceCount(int* count);

// Returns the current device of the calling thread, initially 0. Works in a forked child.
OPENREG_API orError_t orGetDevice(int* device);

// Sets the current device of the calling thread.
// orErrorInvalidDevice: index out of range.
OPENREG_API orError_t orSetDevice(int device);

// Waits for all work submitted to any stream of the current device before this call; not for other devices.
// orErrorLaunchFailure: work on one of its streams failed since the last report; reported once.
// orErrorNotSupported: called from inside a kernel of the current device.
OPENREG_API orError_t orDeviceSynchronize(void);

// Describes a device, which need not be the current one. Works in a forked child.
// orErrorInvalidDevice: index out of range.
OPENREG_API orError_t orGetDeviceProperties(orDeviceProp* properties, int device);

// Returns the range of stream priorities: *least is 0, *greatest is -2. Work of a lower number runs first.
OPENREG_API orError_t orDeviceGetStreamPriorityRange(int* least, int* greatest);

// Sets *can to 1 if kernels of `device` may use the memory of `peer`, else to 0. It is 1 for any two different devices.
// orErrorInvalidDevice: an index is out of range.
OPENREG_API orError_t orDeviceCanAccessPeer(int* can, int device, int peer);

// Returns OPENREG_VERSION of the library, which may differ from that of the header.
OPENREG_API orError_t orRuntimeGetVersion(int* version);

// Resets the current device to its initial state, whether it is lost or not. Queued work of the device is discarded. The call
// waits for running work, and for events of other devices that its streams wait for. Then the device's memory is freed, and its
// streams, its events, and the graphs that use it are destroyed: their handles and pointers become invalid. The default stream
// and pinned memory remain. A capture that includes the device becomes invalid; a capture that began on it ends. No other
// thread should use the device during the call.
// orErrorNotSupported: called from inside a kernel or host function.
OPENREG_API orError_t orDeviceReset(void);

// ---- Memory ---------------------------------------------------------------------------------------------------------

// Allocates memory on the current device. The content is undefined. *pointer is a device address; NULL for size 0.
// orErrorMemoryAllocation: not enough contiguous memory; the message has the sizes.
OPENREG_API orError_t orMalloc(void** pointer, size_t size);

// Frees memory of any device. First waits for the earlier work of that device. Inside a kernel or host function it does not
// wait: then the caller must ensure that nothing uses the memory any more. NULL is allowed and does nothing.
// orErrorInvalidPointer: not the start of a live allocation of orMalloc (foreign, interior, already freed, of another process).
OPENREG_API orError_t orFree(void* pointer);

// Allocates pinned host memory, aligned to a page and filled with zeros. The host can read and write it. Only copies from and
// to pinned memory are asynchronous. NULL for size 0.
// orErrorMemoryAllocation: the system has no memory.
OPENREG_API orError_t orMallocHost(void** pointer, size_t size);

// Frees pinned memory. First waits for the work of all devices, with the exception described at orFree. NULL does nothing.
// orErrorInvalidPointer: not the start of a live allocation of orMallocHost.
OPENREG_API orError_t orFreeHost(void* pointer);

// Returns the unallocated and the total memory of the current device.
OPENREG_API orError_t orMemGetInfo(size_t* free, size_t* total);

// Copies on the default stream of the current device, after its earlier work; complete on return. Each device range must be
// within one live allocation. Size 0 copies nothing and checks no pointer.
// orErrorInvalidValue: null pointer, ranges overlap, a range leaves its allocation, unknown kind.
// orErrorInvalidPointer: a device address at which nothing is allocated.
// orErrorInvalidMemcpyDirection: `kind` contradicts the types of the pointers.
OPENREG_API orError_t orMemcpy(void* dst, const void* src, size_t size, orMemcpyKind kind);

// Copies in the order of `stream`. If one of the pointers is pageable host memory, the copy is synchronous: it waits for the
// stream and returns when the copy is complete. Otherwise it returns at once, and the memory must not change until the stream
// has finished the copy. The calling thread makes small copies on an idle stream itself. Errors of orMemcpy, and
// orErrorInvalidHandle: not a live stream.
OPENREG_API orError_t orMemcpyAsync(void* dst, const void* src, size_t size, orMemcpyKind kind, orStream_t stream);

// Sets `size` bytes of device memory to the low byte of `value`, on the default stream; complete on return.
// orErrorInvalidValue: null pointer, the range leaves its allocation.
// orErrorInvalidPointer: not a device address, or nothing is allocated there.
OPENREG_API orError_t orMemset(void* pointer, int value, size_t size);

// Like orMemset, but asynchronous, in the order of `stream`. Errors of orMemset, and orErrorInvalidHandle: not a live stream.
OPENREG_API orError_t orMemsetAsync(void* pointer, int value, size_t size, orStream_t stream);

// Describes a pointer. Any address is allowed; an address inside an allocation returns that allocation.
OPENREG_API orError_t orPointerGetAttributes(orPointerAttributes* attributes, const void* pointer);

// Returns the difference in bytes between a kernel address and its device address. It is the same for all devices and does
// not change while the process runs. Only functions that run on the device may use kernel addresses: elsewhere accesses are
// neither checked nor ordered by a stream.
OPENREG_API orError_t orGetKernelAddressOffset(ptrdiff_t* offset);

// ---- Other processes ------------------------------------------------------------------------------------------------
// One process creates a handle and passes its bytes to another process of the same user, which opens it while the first runs.

// Returns the handle of an allocation of orMalloc, the same handle each time. It is valid until the allocation is freed. Do not
// free the memory while another process has it open, because that process would see other data, such as later allocations.
// orErrorInvalidPointer: not the start of a live allocation.
// orErrorNotSupported: it is memory of another process.
OPENREG_API orError_t orIpcGetMemHandle(orIpcMemHandle_t* handle, void* pointer);

// Opens the memory of a handle in this process. *pointer is a device address on the device of the same index, for kernels,
// copies and fills. The memory does not count as allocated in this process. Opening a handle again returns the same address;
// close it once for each time it was opened. Open memory stays readable if the other process ends.
// orErrorInvalidHandle: not a handle; its memory was freed; or its process has ended.
// orErrorInvalidDevice: this process has fewer devices.
// orErrorMemoryAllocation: no addresses are left.
// orErrorNotSupported: this process created the handle itself, or the system forbids opening the other process's memory.
OPENREG_API orError_t orIpcOpenMemHandle(void** pointer, orIpcMemHandle_t handle);

// Reverts one orIpcOpenMemHandle. Waits like orFree.
// orErrorInvalidPointer: not an address from orIpcOpenMemHandle, or already closed.
OPENREG_API orError_t orIpcCloseMemHandle(void* pointer);

// Returns the handle of an event, the same handle each time. It is valid until this process destroys the event. For other
// processes the event is complete from then on.
// orErrorInvalidHandle: not a live event.
// orErrorInvalidValue: created without orEventInterprocess.
OPENREG_API orError_t orIpcGetEventHandle(orIpcEventHandle_t* handle, orEvent_t event);

// Opens the event of a handle in this process. Destroy it like any other event. Each process may record it on its streams of
// the device of the same index; queries and waits of all processes refer to the latest record. A wait notices the progress of
// another process with a delay of up to a millisecond. If a process ends before its record is complete, streams that wait for
// it continue, and query and synchronize return orErrorLaunchFailure. A record fails with orErrorNotSupported if the 16
// previous records are all pending.
// orErrorInvalidHandle: not a handle; its event was destroyed; or its process has ended.
// orErrorInvalidDevice, orErrorNotSupported: as for orIpcOpenMemHandle.
OPENREG_API orError_t orIpcOpenEventHandle(orEvent_t* event, orIpcEventHandle_t handle);

// ---- Streams --------------------------------------------------------------------------------------------------------

// Creates a stream of priority 0 on the current device.
OPENREG_API orError_t orStreamCreate(orStream_t* stream);

// Creates a stream on the current device. `flags` must be 0.
// orErrorInvalidValue: unknown flag, or priority outside of orDeviceGetStreamPriorityRange.
OPENREG_API orError_t orStreamCreateWithPriority(orStream_t* stream, unsigned int flags, int priority);

// Destroys the handle and returns at once; pending work still completes.
// orErrorInvalidHandle: not a live stream, or the default stream.
OPENREG_API orError_t orStreamDestroy(orStream_t stream);

// Returns orSuccess if all earlier work is complete, else orErrorNotReady; never waits.
// orErrorInvalidHandle: not a live stream.
// orErrorLaunchFailure: as for orStreamSynchronize.
OPENREG_API orError_t orStreamQuery(orStream_t stream);

// Waits for all work submitted to the stream before this call.
// orErrorInvalidHandle: not a live stream.
// orErrorLaunchFailure: queued work of the stream failed since the last report; reported once.
// orErrorNotSupported: called from inside a kernel of the stream.
OPENREG_API orError_t orStreamSynchronize(orStream_t stream);

// Later work of the stream starts after the latest record of the event is complete. The event may belong to another device. A
// later record does not change the wait. An event that was never recorded is complete. `flags` must be 0. Returns at once.
// Called from inside a kernel of the stream: orErrorNotSupported if the event is still pending.
// orErrorInvalidHandle: not a live stream or event.
// orErrorInvalidValue: unknown flag.
OPENREG_API orError_t orStreamWaitEvent(orStream_t stream, orEvent_t event, unsigned int flags);

// orErrorInvalidHandle: not a live stream.
OPENREG_API orError_t orStreamGetPriority(orStream_t stream, int* priority);

// orErrorInvalidHandle: not a live stream.
OPENREG_API orError_t orStreamGetDevice(orStream_t stream, int* device);

// ---- Events ---------------------------------------------------------------------------------------------------------

// Creates an event with timing for the streams of the current device.
OPENREG_API orError_t orEventCreate(orEvent_t* event);

// orErrorInvalidValue: unknown flag, or orEventInterprocess without orEventDisableTiming.
OPENREG_API orError_t orEventCreateWithFlags(orEvent_t* event, unsigned int flags);

// Destroys the handle and returns at once; waits of streams for the event stay valid.
// orErrorInvalidHandle: not a live event.
OPENREG_API orError_t orEventDestroy(orEvent_t event);

// Records the event: it is reached when all earlier work of the stream is complete, and with timing it then records a
// timestamp. This replaces the previous record, but earlier waits still refer to that one.
// orErrorInvalidHandle: not a live stream or event, or they belong to different devices.
OPENREG_API orError_t orEventRecord(orEvent_t event, orStream_t stream);

// Waits for the latest record of the event; returns at once if it was never recorded.
// orErrorInvalidHandle: not a live event.
// orErrorNotSupported: called from inside a kernel of the stream on which it is pending.
OPENREG_API orError_t orEventSynchronize(orEvent_t event);

// Returns orSuccess if the latest record of the event is complete or it was never recorded, else orErrorNotReady. Never waits.
// orErrorInvalidHandle: not a live event.
OPENREG_API orError_t orEventQuery(orEvent_t event);

// Returns the milliseconds between the timestamps of two events, with a resolution of a nanosecond; negative if `end` was
// reached first.
// orErrorInvalidHandle: not a live event.
// orErrorInvalidValue: never recorded, created without timing, or the events belong to different devices.
// orErrorNotReady: one of them is still pending.
OPENREG_API orError_t orEventElapsedTime(float* milliseconds, orEvent_t start, orEvent_t end);

// ---- Launches -------------------------------------------------------------------------------------------------------
// Functions that run on the device may use kernel addresses. They should not throw: the SDK catches the exception and turns
// it into orErrorLaunchFailure.

// Runs kernel(args) in the order of `stream`. On an idle stream it may run at once on the calling thread, with `args` itself;
// else the `args_size` bytes are copied (aligned to 16) and a worker runs it later. The kernel must not write to its arguments.
// A launch from inside a kernel of the same stream on the same thread runs at once, as a part of that kernel.
// orErrorInvalidValue: null kernel, or null args of a size other than 0.
// orErrorInvalidHandle: not a live stream.
// orErrorLaunchFailure: it ran at once and failed. Synchronization reports failures of queued kernels.
OPENREG_API orError_t orLaunchKernel(orKernel_t kernel, const void* args, size_t args_size, orStream_t stream);

// Waits for the earlier work of the stream, runs kernel(args) on the calling thread and returns when it is done, in every
// launch mode. No other work of the stream runs meanwhile. From inside a kernel of the same stream on the same thread it runs
// at once, as a part of that kernel.
// orErrorInvalidValue: null kernel.
// orErrorInvalidHandle: not a live stream.
// orErrorLaunchFailure: the kernel failed.
OPENREG_API orError_t orLaunchKernelInline(orKernel_t kernel, void* args, orStream_t stream);

// Queues function(user) on the host, in the order of the stream; it never runs on the calling thread. The function may wait for
// locks that the submitting thread holds, and must not wait for its stream.
// orErrorInvalidValue: null function.
// orErrorInvalidHandle: not a live stream.
OPENREG_API orError_t orLaunchHostFunc(orKernel_t function, void* user, orStream_t stream);

// ---- Graphs ---------------------------------------------------------------------------------------------------------
// A capture adds the work of a stream to a graph instead of running it.
//   recorded     orLaunchKernel (the arguments are copied), orLaunchHostFunc, orMemcpyAsync, orMemsetAsync. Each is a node. The
//                graph keeps all addresses, so the memory must stay allocated as long as the graph is launched.
//   dependency   orEventRecord on a captured stream marks a point of the capture. orStreamWaitEvent for that event makes later
//                work depend on that point. The waiting stream, also of another device, joins the capture until it ends (fork).
//                Before the end, the first stream must wait for all work of the other streams (join). Neither call is a node,
//                and the event gets no record: replaying the graph does not record it.
//   refused      These return orErrorStreamCaptureUnsupported, and the capture becomes invalid: orLaunchKernelInline,
//                orGraphLaunch, and copies from or to pageable memory on a captured stream; waiting for an event that was
//                recorded outside the capture (an event that was never recorded is allowed); querying, synchronizing or
//                destroying a captured stream; synchronizing its device; querying, synchronizing or timing an event that was
//                recorded in the capture; orMemcpy and orMemset as the mode says, and always on a captured stream.
//   allowed      Everything else, in every mode. orMalloc, orFree, orMallocHost and orFreeHost act at once and are not a part of
//                the graph. Freeing waits for submitted work, but not for captured work.
// If the latest record of an event was captured, its use returns orErrorStreamCaptureUnsupported, also after the capture, until
// the event is recorded again.

// Begins to capture the stream. Earlier work of the stream still runs and is not a part of the graph. The default stream can be
// captured too.
// orErrorInvalidValue: unknown mode, or the stream is being captured.
// orErrorInvalidHandle: not a live stream.
// orErrorNotSupported: called from inside a kernel of the stream.
OPENREG_API orError_t orStreamBeginCapture(orStream_t stream, orStreamCaptureMode mode);

// Ends the capture that began on this stream. If this fails, *graph is NULL. Except after the first three errors, the capture
// ends nevertheless, and its streams run their work again.
// orErrorInvalidValue: not captured, or the capture began on another stream.
// orErrorInvalidHandle: not a live stream.
// orErrorNotSupported: not the thread on which the capture began, unless its mode is relaxed.
// orErrorStreamCaptureInvalidated: a call during the capture was refused; the message names it.
// orErrorStreamCaptureUnjoined: the stream does not wait for all work of the streams that joined the capture.
OPENREG_API orError_t orStreamEndCapture(orStream_t stream, orGraph_t* graph);

// Returns whether the stream is part of a capture. Changes nothing.
// orErrorInvalidHandle: not a live stream.
OPENREG_API orError_t orStreamGetCaptureStatus(orStream_t stream, orStreamCaptureStatus* status);

// Creates an executable graph, which can be launched any number of times. `graph` may be destroyed afterwards.
// orErrorInvalidHandle: not a live graph.
OPENREG_API orError_t orGraphInstantiate(orGraphExec_t* exec, orGraph_t graph);

// Runs the whole graph as one piece of work, in the order of `stream`, which may belong to any device. A launch of the same
// executable graph on another stream waits until this launch is complete. The nodes run one after the other in the order of the
// capture, each with its stream's device as the current device. The first node that fails ends the run. On an idle stream, a
// graph without host functions and large copies may run at once on the calling thread. A launch cannot be captured.
// orErrorInvalidHandle: not a live executable graph or stream.
// orErrorLaunchFailure: it ran at once and failed.
// orErrorStreamCaptureUnsupported: the stream is being captured.
// orErrorNotSupported: called from inside a kernel of the stream while the graph is still running.
OPENREG_API orError_t orGraphLaunch(orGraphExec_t exec, orStream_t stream);

// orErrorInvalidHandle: not a live graph.
OPENREG_API orError_t orGraphDestroy(orGraph_t graph);

// Destroys the handle and returns at once; pending launches still complete.
// orErrorInvalidHandle: not a live executable graph.
OPENREG_API orError_t orGraphExecDestroy(orGraphExec_t exec);

// orErrorInvalidHandle: not a live graph.
OPENREG_API orError_t orGraphGetNodeCount(orGraph_t graph, size_t* count);

// Writes the graph to a Graphviz file: kind, stream, device, sizes, addresses and dependencies of each node.
// orErrorInvalidHandle: not a live graph.
// orErrorInvalidValue: null path, or the file cannot be written.
OPENREG_API orError_t orGraphDebugDump(orGraph_t graph, const char* path);

// ---- Finding mistakes -----------------------------------------------------------------------------------------------
// For tests of programs that use this library.

// Delays every later kernel, copy and fill on the device, to reveal missing synchronization. While a delay is set, none of them
// runs on the submitting thread, except by orLaunchKernelInline, in the blocking mode, and if synchronous. 0 removes the delay;
// at most 10 seconds.
// orErrorInvalidValue: too long.
OPENREG_API orError_t orSetKernelDelay(unsigned int microseconds);

// Makes the nth later call (1: the next call) of the named function, on any thread, do nothing but return `error`, once. With
// orSuccess it returns the function's default error: orErrorMemoryAllocation for orMalloc and orMallocHost,
// orErrorLaunchFailure for launches and functions that report their failures, else orErrorUnknown. A function has one planned
// failure at a time; nth 0 removes it.
// orErrorInvalidValue: null or unknown function, or not an error code.
OPENREG_API orError_t orInjectFault(const char* function, unsigned int nth, orError_t error);

// 1: if a queued kernel throws an exception, its device is lost, like after a fault of hardware. This does not apply to work
// on the submitting thread, whose call returns the error, nor to host functions. 0: the default.
OPENREG_API orError_t orSetStickyErrors(int enabled);

// Logs a line for each later submission to a stream: seconds, device, stream, kind, addresses and sizes. path: a file, which is
// overwritten; "stderr"; or NULL, which ends the log.
// orErrorInvalidValue: the file cannot be written.
OPENREG_API orError_t orSetLaunchLog(const char* path);

// Makes the device lost, for this reason (may be NULL). May be called from inside a kernel, whose launch still succeeds. A
// device that is already lost keeps its first reason.
// orErrorInvalidDevice: index out of range.
OPENREG_API orError_t orDeviceFail(int device, const char* reason);

#ifdef __cplusplus
}
#endif

#endif
