#ifndef BASALT_H
#define BASALT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A device library of another kind than quartz, to try the seam on: a C interface, a current device for each thread, streams that
 * are worker threads, and memory that the host reaches only while it is unlocked. It lacks what many young SDKs lack:
 *
 * - no memset, no memory information, no priorities, no texts for errors, no graphs, nothing shared between processes;
 * - a stream does not tell its device;
 * - bsStreamQuery looks at the queue alone: while the last task still runs, it says that the stream is done;
 * - a stream that waits for an event waits for the event's state when the wait is reached, so a later record moves the wait;
 * - bsMemcpyAsync never waits, not even for pageable memory.
 *
 * Every function may be called from any thread. A size of 0 is an error. After fork() the functions of the child report bsErrorInvalid,
 * but for those of the current device.
 */

typedef enum {
  bsSuccess = 0,
  bsErrorInvalid = 1, /* an argument is wrong */
  bsErrorMemory = 2, /* not enough memory */
  bsErrorNotReady = 3 /* from the two queries, and for the time of an event that was not reached */
} bsStatus;

typedef struct bsStream* bsStream_t;
typedef struct bsEvent* bsEvent_t;

/* BASALT_DEVICES in the environment says how many there are; 2 if it is not set. */
bsStatus bsGetDeviceCount(int* count);
bsStatus bsGetDevice(int* device);
bsStatus bsSetDevice(int device);
bsStatus bsDeviceSynchronize(void);

/* Memory of the current device: 16 GiB for each device. Freed memory must not be in use by any stream. */
bsStatus bsMalloc(void** memory, size_t bytes);
bsStatus bsFree(void* memory);

/* Between bsUnlock and bsLock the host may touch the allocation that `memory` points into. The calls count. */
bsStatus bsUnlock(void* memory);
bsStatus bsLock(void* memory);

bsStatus bsMallocHost(void** memory, size_t bytes);
bsStatus bsFreeHost(void* memory);

typedef enum {
  bsMemoryUnknown = 0,
  bsMemoryHost = 1,
  bsMemoryDevice = 2
} bsMemoryKind;

typedef struct {
  bsMemoryKind kind;
  int device;
  void* start; /* of the allocation */
} bsPointerInfo;

bsStatus bsGetPointerInfo(const void* pointer, bsPointerInfo* info);

/* A null stream is not one. */
bsStatus bsStreamCreate(bsStream_t* stream);
bsStatus bsStreamDestroy(bsStream_t stream);
bsStatus bsStreamQuery(bsStream_t stream);
bsStatus bsStreamSynchronize(bsStream_t stream);

/* The direction is found out from the pointers. */
bsStatus bsMemcpyAsync(void* to, const void* from, size_t bytes, bsStream_t stream);

/* Runs a function on the stream's thread. It must not call back into the library, but for bsLock and bsUnlock. */
bsStatus bsEnqueue(bsStream_t stream, void (*function)(void* argument), void* argument);

bsStatus bsEventCreate(bsEvent_t* event);
bsStatus bsEventDestroy(bsEvent_t event);
bsStatus bsEventRecord(bsEvent_t event, bsStream_t stream);
bsStatus bsStreamWaitEvent(bsStream_t stream, bsEvent_t event);
bsStatus bsEventQuery(bsEvent_t event);
bsStatus bsEventSynchronize(bsEvent_t event);
bsStatus bsEventElapsed(bsEvent_t begin, bsEvent_t end, float* milliseconds);

#ifdef __cplusplus
}
#endif

#endif
