/* Small memory of calls that are captured in a CUDA graph: the graph keeps it, instead of allocating and freeing it in each replay.
 *
 * Stream-ordered memory is two nodes of a graph, and kernels before and behind a node that is no kernel do not overlap. So what a
 * captured call allocates, up to AOT_GRAPH_BYTES, comes from cuMemAlloc, outside of the capture, and belongs to a CUDA user object
 * of the graph: clones, child graphs and executable graphs have references to it, and the driver destroys it after the last of
 * them, when no replay uses the memory any more. Each call has memory of its own, whatever captures, streams and threads there are.
 *
 * A destructor may not call CUDA. It puts the memory on a list, from where later captures take it; aot_pool_trim frees it. Memory
 * is gone with its context, and an address may come back in another one: what belongs to a dead context is never freed or given.
 *
 *   aot_graph_alloc(frame, 4096, stream, &address) -> 0, and an address if `stream` is captured; else address 0 */
#define _GNU_SOURCE
#include "rt.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

enum { SMALLEST = 512 };                                       /* bytes; sizes are powers of two from here on */
enum { LEGACY_STREAM = 1 };                                    /* 0 is the same stream; neither can be captured */

typedef struct kept {                                          /* memory of a graph, or of none on the lists here */
  struct kept *next;
  CUcontext context;
  uint64_t context_id;
  int device;
  CUdeviceptr address;
  uint64_t bytes;
} kept;

static kept *returned;                                         /* by destructors, in any thread: pushed and taken as a whole, no lock */
static kept *idle;                                             /* under the lock */
static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;

static void give_back(void *memory) {
  kept *one = memory;
  one->next = __atomic_load_n(&returned, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&returned, &one->next, one, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
}

/* A graph may outlive whoever opened this library with dlopen, and then calls give_back. A program itself is never closed. */
static void stay_loaded(void) {
  static int told;
  Dl_info here;
  if (__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED)) return;
  if (dladdr((const void *)(uintptr_t)give_back, &here)) dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void collect(void) {
  for (kept *next, *one = __atomic_exchange_n(&returned, NULL, __ATOMIC_ACQUIRE); one; one = next) {
    next = one->next;
    one->next = idle;
    idle = one;
  }
}

static kept *take_idle(uint64_t context_id, uint64_t bytes) {
  collect();
  for (kept **at = &idle; *at; at = &(*at)->next) {
    kept *one = *at;
    if (one->context_id != context_id || one->bytes != bytes) continue;
    *at = one->next;
    return one;
  }
  return NULL;
}

/* Relaxed: memory of another graph or none is no part of what this thread, or another one, captures. */
static int allocate(kept *one) {
  int mode = CU_CAPTURE_MODE_RELAXED;
  int code = aot_capture_relax(&mode);
  if (code) return aot_set_driver_error(code, "cuThreadExchangeStreamCaptureMode");
  code = aot_cu.cuMemAlloc_v2(&one->address, one->bytes);
  int back = aot_capture_relax(&mode);
  if (code) return aot_explain_alloc(code, "cuMemAlloc for a CUDA graph", (int64_t)one->bytes, one->device);
  return back ? aot_set_driver_error(back, "cuThreadExchangeStreamCaptureMode") : 0;
}

static int make_kept(const aot_frame *frame, uint64_t bytes, kept **out) {
  kept *made = calloc(1, sizeof *made);
  if (!made) return aot_set_error(AOT_E_NO_MEMORY, "no host memory for a buffer of a CUDA graph");
  stay_loaded();
  *made = (kept){ .context = frame->context, .context_id = frame->context_id, .device = frame->device, .bytes = bytes };
  int code = allocate(made);
  if (made->address) *out = made;                              /* a mode that was not put back is an error, too */
  else free(made);
  return code;
}

/* From here on the memory comes back by give_back, whatever happens. */
static int hand_over(kept *one, CUgraph graph) {
  CUuserObject object = NULL;
  int code = aot_cu.cuUserObjectCreate(&object, one, give_back, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (code) {
    give_back(one);
    return aot_set_driver_error(code, "cuUserObjectCreate");
  }
  code = aot_cu.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (!code) return 0;
  aot_cu.cuUserObjectRelease(object, 1);
  return aot_set_driver_error(code, "cuGraphRetainUserObject");
}

static int keep(const aot_frame *frame, uint64_t bytes, CUgraph graph, uint64_t *address) {
  pthread_mutex_lock(&keeping);
  kept *one = take_idle(frame->context_id, bytes);
  pthread_mutex_unlock(&keeping);
  int code = one ? 0 : make_kept(frame, bytes, &one);
  if (code) {
    if (one) give_back(one);
    return code;
  }
  uint64_t made = one->address;                                /* another thread may end the capture, and `one` is its then */
  code = hand_over(one, graph);
  if (!code) *address = made;
  return code;
}

/* The graph that the stream is captured in; NULL: none, or a driver before CUDA 12.0, whose graphs allocate in nodes. */
static int graph_of(CUstream stream, CUgraph *graph) {
  int status = CU_CAPTURE_NONE;
  *graph = NULL;
  if ((uintptr_t)stream <= LEGACY_STREAM || !aot_cu.cuStreamGetCaptureInfo_v2 || !aot_cu.cuUserObjectCreate ||
      !aot_cu.cuUserObjectRelease || !aot_cu.cuGraphRetainUserObject || !aot_cu.cuCtxGetId)
    return 0;
  int code = aot_cu.cuStreamGetCaptureInfo_v2(stream, &status, NULL, graph, NULL, NULL);
  if (code || status != CU_CAPTURE_ACTIVE) *graph = NULL;
  return code ? aot_set_driver_error(code, "cuStreamGetCaptureInfo") : 0;
}

uint64_t aot_graph_size(int64_t bytes) {
  if (bytes < 0 || bytes > AOT_GRAPH_BYTES) return 0;
  uint64_t size = SMALLEST;
  while (size < (uint64_t)bytes) size *= 2;
  return size;
}

int aot_graph_alloc(const aot_frame *frame, int64_t bytes, void *stream, uint64_t *address) {
  CUgraph graph;
  uint64_t size = aot_graph_size(bytes);
  *address = 0;
  if (!size) return 0;
  int code = graph_of((CUstream)stream, &graph);
  return code || !graph ? code : keep(frame, size, graph, address);
}

/* ------------------------------------------------------------------ giving it back */

/* Frees one, if its context lives; memory of a dead one is gone already. */
static int release(const kept *one) {
  unsigned long long id = 0;
  if (aot_cu.cuCtxGetId(one->context, &id) || id != one->context_id) return 0;
  int code = aot_cu.cuCtxSetCurrent(one->context);
  if (code) return aot_set_driver_error(code, "cuCtxSetCurrent");
  code = aot_cu.cuMemFree_v2(one->address);
  return code ? aot_set_driver_error(code, "cuMemFree") : 0;
}

static kept *take_all(int device) {
  kept *taken = NULL;
  pthread_mutex_lock(&keeping);
  collect();
  for (kept **at = &idle; *at;) {
    kept *one = *at;
    if (one->device != device) { at = &one->next; continue; }
    *at = one->next;
    one->next = taken;
    taken = one;
  }
  pthread_mutex_unlock(&keeping);
  return taken;
}

int aot_graph_trim(int device, void *context) {
  kept *one = take_all(device);
  if (!one) return 0;
  int mode = CU_CAPTURE_MODE_RELAXED;
  int code = aot_capture_relax(&mode), relaxed = !code;
  if (code) aot_set_driver_error(code, "cuThreadExchangeStreamCaptureMode");
  for (kept *next; one; one = next) {
    next = one->next;
    if (!code && !(code = release(one))) free(one);
    else give_back(one);
  }
  aot_cu.cuCtxSetCurrent(context);
  if (relaxed) aot_capture_relax(&mode);
  return code;
}
