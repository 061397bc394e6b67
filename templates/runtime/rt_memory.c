/* Memory: a stream-ordered pool of our own per device, and the list of what the running call owns.
 *
 * The driver's default pool gives its memory back at every synchronisation; ours keeps it (aot_pool_trim gives it back), so a
 * buffer of a later call costs about a microsecond. A pool belongs to the device: it serves all its contexts, and outlives them
 * and a reset (tried with driver 580). Devices without pools get cuMemAlloc, whose free waits for the stream.
 * Whatever the compiled code does, a call cannot leak: what it still owns at its end is swept. */
#include "rt.h"
#include <pthread.h>
#include <stdlib.h>

enum { UNKNOWN, POOL, NO_POOL };

static struct { int kind; CUmemoryPool handle; } pools[AOT_MAX_DEVICES];   /* kind is published with release, after the handle */
static int poolless;                                           /* 1: some device here has no pools */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static int kind_of(int device) { return __atomic_load_n(&pools[device].kind, __ATOMIC_ACQUIRE); }

static int make_pool(int device) {
  CUmemPoolProps props = { .allocType = CU_POOL_ALLOCATION_PINNED, .locationType = CU_POOL_LOCATION_DEVICE, .locationId = device };
  uint64_t keep = UINT64_MAX;
  int has = 0, code = aot_cu.cuDeviceGetAttribute(&has, CU_DEVICE_MEMORY_POOLS, device);
  if (code) return aot_set_driver_error(code, "cuDeviceGetAttribute");
  if (!has || !aot_cu.cuMemPoolCreate || !aot_cu.cuMemPoolSetAttribute || !aot_cu.cuMemAllocFromPoolAsync || !aot_cu.cuMemFreeAsync) {
    __atomic_store_n(&poolless, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&pools[device].kind, NO_POOL, __ATOMIC_RELEASE);
    return 0;
  }
  if (!pools[device].handle && (code = aot_cu.cuMemPoolCreate(&pools[device].handle, &props)))
    return aot_set_driver_error(code, "cuMemPoolCreate");
  code = aot_cu.cuMemPoolSetAttribute(pools[device].handle, CU_POOL_RELEASE_THRESHOLD, &keep);
  if (code) return aot_set_driver_error(code, "cuMemPoolSetAttribute");   /* the next call tries that again */
  __atomic_store_n(&pools[device].kind, POOL, __ATOMIC_RELEASE);
  return 0;
}

static int first_use(int device) {
  if (device < 0 || device >= AOT_MAX_DEVICES) return aot_set_error(CUDA_ERROR_INVALID_DEVICE, "there is no CUDA device %d", device);
  int mode = CU_CAPTURE_MODE_RELAXED;
  int code = aot_capture_relax(&mode);
  if (code) return aot_set_driver_error(code, "cuThreadExchangeStreamCaptureMode");
  pthread_mutex_lock(&making);
  if (kind_of(device) == UNKNOWN) code = make_pool(device);
  pthread_mutex_unlock(&making);
  int back = aot_capture_relax(&mode);
  return code || !back ? code : aot_set_driver_error(back, "cuThreadExchangeStreamCaptureMode");
}

static int has_been_used(int device) { return device >= 0 && device < AOT_MAX_DEVICES && kind_of(device) != UNKNOWN; }

int aot_explain_alloc(int code, const char *operation, int64_t bytes, int device) {
  size_t free_bytes = 0, total = 0;
  if (code != CUDA_ERROR_OUT_OF_MEMORY || aot_cu.cuMemGetInfo_v2(&free_bytes, &total))
    return aot_set_driver_error(code, operation);
  return aot_set_error(code, "%s failed: CUDA_ERROR_OUT_OF_MEMORY (2): %lld bytes were asked for on device %d, %zu of %zu are free",
                       operation, (long long)bytes, device, free_bytes, total);
}

int aot_pool_alloc(int device, void *stream, int64_t bytes, uint64_t *address) {
  CUdeviceptr made = 0;
  if (bytes < 0) return aot_set_error(AOT_E_SIZE, "negative size: %lld bytes of device memory", (long long)bytes);
  int code = aot_driver_state();
  if (!code && AOT_UNLIKELY(!has_been_used(device))) code = first_use(device);
  if (code) return code;
  size_t size = bytes ? (size_t)bytes : 1;                     /* addresses of empty arrays differ too */
  if (kind_of(device) == POOL) {
    code = aot_cu.cuMemAllocFromPoolAsync(&made, size, pools[device].handle, (CUstream)stream);
    if (code) return aot_explain_alloc(code, "cuMemAllocFromPoolAsync", bytes, device);
  } else {
    code = aot_cu.cuMemAlloc_v2(&made, size);
    if (code) return aot_explain_alloc(code, "cuMemAlloc", bytes, device);
  }
  *address = made;
  return 0;
}

/* Which way the address was allocated is asked of the driver only where some device has no pools. */
static int was_pooled(uint64_t address) {
  int device = -1;
  if (AOT_LIKELY(!__atomic_load_n(&poolless, __ATOMIC_ACQUIRE))) return 1;
  if (aot_cu.cuPointerGetAttribute(&device, CU_POINTER_DEVICE_ORDINAL, address)) return 0;
  return has_been_used(device) && kind_of(device) == POOL;
}

int aot_pool_free(uint64_t address, void *stream) {
  int code = aot_driver_state();
  if (code || !address) return code;
  if (was_pooled(address)) {
    code = aot_cu.cuMemFreeAsync(address, (CUstream)stream);
    return code ? aot_set_driver_error(code, "cuMemFreeAsync") : 0;
  }
  code = aot_cu.cuStreamSynchronize((CUstream)stream);         /* the free is ordered by waiting */
  int freed = aot_cu.cuMemFree_v2(address);
  if (code) return aot_set_driver_error(code, "cuStreamSynchronize");
  return freed ? aot_set_driver_error(freed, "cuMemFree") : 0;
}

int aot_pool_trim(int device) {
  void *context, *restore = NULL;
  uint64_t id;
  int code = aot_context_enter(device, &context, &id, &restore);
  if (code) return code;
  if (has_been_used(device) && kind_of(device) == POOL) {
    code = aot_cu.cuMemPoolTrimTo ? aot_cu.cuMemPoolTrimTo(pools[device].handle, 0)
                                  : aot_driver_lacks("cuMemPoolTrimTo", aot_error_buffer(), AOT_MESSAGE_BYTES);
    if (code > 0) aot_set_driver_error(code, "cuMemPoolTrimTo");
  }
  if (!code) code = aot_graph_trim(device, context);
  aot_context_leave(restore);
  return code;
}

/* ------------------------------------------------------------------ what the call owns */

int aot_live_reserve(aot_frame *frame) {
  if (AOT_LIKELY(frame->nlive < frame->live_capacity)) return 0;
  uint32_t capacity = 2 * frame->live_capacity;
  int moved = frame->live == frame->live_inline;
  aot_allocation *bigger = realloc(moved ? NULL : frame->live, capacity * sizeof *bigger);
  if (!bigger) return aot_record(frame, AOT_E_NO_MEMORY, "no host memory for the list of the call's %u buffers", frame->nlive);
  for (uint32_t i = 0; moved && i < frame->nlive; i++) bigger[i] = frame->live_inline[i];
  frame->live = bigger;
  frame->live_capacity = capacity;
  return 0;
}

void aot_live_add(aot_frame *frame, uint64_t address, uint64_t bytes, uint8_t kind) {
  frame->live[frame->nlive++] = (aot_allocation){ .address = address, .bytes = bytes, .host = kind };
}

int aot_live_find(const aot_frame *frame, uint64_t address) {
  for (uint32_t i = frame->nlive; i-- > 0;) {                  /* newest first: buffers are mostly freed in reverse order */
    const aot_allocation *one = &frame->live[i];
    if (one->address == address && one->host != AOT_MEM_REGISTERED && one->host != AOT_MEM_SPENT) return (int)i;
  }
  return -1;
}

void aot_live_remove(aot_frame *frame, int index) { frame->live[index] = frame->live[--frame->nlive]; }

/* Memory of a graph that an earlier part of the call had: what is enqueued on the call's stream comes after that. */
static int take_spent(aot_frame *frame, int64_t bytes, const void *stream, uint64_t *address) {
  uint64_t size = aot_graph_size(bytes);
  for (uint32_t i = 0; stream == frame->stream && i < frame->nlive; i++) {
    aot_allocation *one = &frame->live[i];
    if (one->host != AOT_MEM_SPENT || one->bytes != size) continue;
    one->host = AOT_MEM_GRAPH;
    *address = one->address;
    return 1;
  }
  return 0;
}

int aot_device_alloc(aot_frame *frame, int64_t bytes, void *stream, uint64_t *address) {
  if (take_spent(frame, bytes, stream, address)) return 0;
  int code = aot_live_reserve(frame);
  if (code) return code;
  code = aot_graph_alloc(frame, bytes, stream, address);
  int of_graph = *address != 0;
  if (!code && !of_graph) code = aot_pool_alloc(frame->device, stream, bytes, address);
  if (code) return aot_record(frame, code, "%s", aot_last_error());
  frame->worked = 1;
  if (of_graph) aot_live_add(frame, *address, aot_graph_size(bytes), AOT_MEM_GRAPH);
  else aot_live_add(frame, *address, (uint64_t)bytes, AOT_MEM_DEVICE);
  return 0;
}

int aot_device_free(aot_frame *frame, int index, void *stream) {
  aot_allocation *one = &frame->live[index];
  uint64_t address = one->address;
  if (one->host == AOT_MEM_GRAPH && stream == frame->stream) {
    one->host = AOT_MEM_SPENT;
    return 0;
  }
  int code = one->host == AOT_MEM_GRAPH ? 0 : aot_pool_free(address, stream);
  aot_live_remove(frame, index);
  return code;
}

int aot_host_release(aot_frame *frame, int index) {
  aot_allocation one = frame->live[index];
  aot_live_remove(frame, index);
  if (one.host == AOT_MEM_REGISTERED)
    return aot_record_driver(frame, aot_cu.cuMemHostUnregister((void *)(uintptr_t)one.address), "cuMemHostUnregister");
  if (one.host == AOT_MEM_MANAGED) return aot_record_driver(frame, aot_cu.cuMemFree_v2(one.address), "cuMemFree");
  free((void *)(uintptr_t)one.address);
  return 0;
}

/* Memory that a kernel or a copy may still use has to outlive it. Plain host memory is handed to the device only by functions
 * that wait (AOT_HOST_SYNC); the others free it without waiting. */
static int must_wait(const aot_frame *frame) {
  if (frame->on_cpu) return 0;
  for (uint32_t i = 0; i < frame->nlive; i++) {
    uint8_t kind = frame->live[i].host;
    if (kind == AOT_MEM_MANAGED || kind == AOT_MEM_REGISTERED) return 1;
    if (kind == AOT_MEM_HOST && frame->function && (frame->function->flags & AOT_HOST_SYNC)) return 1;
  }
  return 0;
}

void aot_live_sweep(aot_frame *frame) {
  if (!frame->nlive) return;
  int code;
  if (must_wait(frame)) aot_wait(frame, "it has to wait before it gives host or shared memory back");
  for (uint32_t i = frame->nlive; i-- > 0;)                    /* registrations before the memory under them */
    if (frame->live[i].host == AOT_MEM_REGISTERED) aot_host_release(frame, (int)i);
  while (frame->nlive) {
    int index = (int)frame->nlive - 1;
    uint8_t kind = frame->live[index].host;
    if (kind == AOT_MEM_GRAPH || kind == AOT_MEM_SPENT) aot_live_remove(frame, index);   /* the graph has it */
    else if (kind != AOT_MEM_DEVICE) aot_host_release(frame, index);
    else if ((code = aot_device_free(frame, index, frame->stream))) aot_record(frame, code, "%s", aot_last_error());
  }
}

/* ------------------------------------------------------------------ what compiled host code calls */

void _mlir_ciface_aot_rt_alloc(aot_bytes *out, int64_t bytes) {
  aot_frame *frame = aot_frame_here("aot_rt_alloc");
  uint64_t address;
  must(frame, aot_device_alloc(frame, bytes, frame->stream, &address));
  *out = (aot_bytes){ (void *)(uintptr_t)address, (void *)(uintptr_t)address, 0, bytes, 1 };
}

void aot_rt_free(int64_t address) {
  aot_frame *frame = aot_frame_here("aot_rt_free");
  int index = aot_live_find(frame, (uint64_t)address);
  if (index < 0 || (frame->live[index].host != AOT_MEM_DEVICE && frame->live[index].host != AOT_MEM_GRAPH))
    aot_fail(AOT_E_INTERNAL, "%s frees device memory that it does not own (0x%llx)", frame->function->name, (unsigned long long)address);
  int code = aot_device_free(frame, index, frame->stream);
  if (code) aot_fail(code, "%s", aot_last_error());
}

static void *host_alloc(size_t alignment, size_t bytes) {
  aot_frame *frame = aot_frame_here("memref.alloc");
  void *made = NULL;
  if ((int64_t)bytes < 0) aot_fail(AOT_E_SIZE, "negative size: %lld bytes of host memory", (long long)bytes);
  must(frame, aot_live_reserve(frame));
  if (alignment < sizeof(void *)) alignment = sizeof(void *);
  if (posix_memalign(&made, alignment, bytes ? bytes : 1))
    aot_fail(AOT_E_NO_MEMORY, "no memory: %zu bytes of host memory, aligned to %zu", bytes, alignment);
  aot_live_add(frame, (uintptr_t)made, bytes, AOT_MEM_HOST);
  return made;
}

void *_mlir_memref_to_llvm_alloc(size_t bytes) { return host_alloc(16, bytes); }
void *_mlir_memref_to_llvm_aligned_alloc(size_t alignment, size_t bytes) { return host_alloc(alignment, bytes); }

/* A registration of the memory that was not taken back is undone first: its pages must not stay pinned. */
static void unregister_within(aot_frame *frame, uint64_t address, uint64_t bytes) {
  for (uint32_t i = frame->nlive; i-- > 0;) {
    const aot_allocation *one = &frame->live[i];
    if (one->host != AOT_MEM_REGISTERED || one->address < address || one->address >= address + (bytes ? bytes : 1)) continue;
    must(frame, aot_wait(frame, "it frees memory that is registered with the device"));
    must(frame, aot_host_release(frame, (int)i));
  }
}

void _mlir_memref_to_llvm_free(void *address) {
  aot_frame *frame = aot_frame_here("memref.dealloc");
  if (!address) return;
  int index = aot_live_find(frame, (uintptr_t)address);
  if (index < 0 || frame->live[index].host != AOT_MEM_HOST)
    aot_fail(AOT_E_INTERNAL, "%s frees host memory that it does not own (%p)", frame->function->name, address);
  unregister_within(frame, (uintptr_t)address, frame->live[index].bytes);
  must(frame, aot_host_release(frame, aot_live_find(frame, (uintptr_t)address)));
}
