/* A libcuda.so.1 without a GPU: every entry point of templates/runtime/driver.h, with the driver's own refusals (a grid of 0,
 * a capture that is synchronised, memory it does not know). Nothing is computed unless a test gives fake_on_launch. */
#define _GNU_SOURCE
#include "fake.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CONTEXTS = 64, MAX_STREAMS = 1024, MAX_HIDDEN = 8 };

static struct CUctx_st contexts[MAX_CONTEXTS];                 /* slots are reused: handles come back with another id */
static unsigned long long last_context;
static struct CUstream_st streams[MAX_STREAMS];
static int nstreams, nevents, live_events, live_streams, nmodules;
static pid_t started;
static _Thread_local CUcontext current;
static _Thread_local int capture_mode;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char hidden[MAX_HIDDEN][128], jit_log[512];
static int nhidden;

typedef void launch_hook(const char *kernel, const unsigned *grid, const unsigned *block, unsigned shared, void **params);
static launch_hook *hook;

CUcontext fake_current(void) { return current; }
int fake_ready(void) { return !started ? CUDA_ERROR_NOT_INITIALIZED : !current || !current->alive ? CUDA_ERROR_INVALID_CONTEXT : 0; }

void fake_on_launch(launch_hook *function) { hook = function; }
void fake_set_jit_log(const char *log) { snprintf(jit_log, sizeof jit_log, "%s", log); }
void fake_hide_function(const char *name) { if (nhidden < MAX_HIDDEN) snprintf(hidden[nhidden++], sizeof hidden[0], "%s", name); }
long fake_live_events(void) { return live_events; }
long fake_live_streams(void) { return live_streams; }

CUcontext fake_context_new(int device, int primary) {
  pthread_mutex_lock(&lock);
  CUcontext made = NULL;
  for (int i = 0; i < MAX_CONTEXTS && !made; i++)
    if (!contexts[i].alive) made = &contexts[i];
  if (made) *made = (struct CUctx_st){ ++last_context, device, 1, primary };
  pthread_mutex_unlock(&lock);
  return made;
}

/* It stays current where it was, as in the driver: every use is an error until the slot is taken by another one. */
void fake_context_destroy(CUcontext context) { context->alive = 0; }

/* ------------------------------------------------------------------ init, devices, contexts */

CUresult cuInit(unsigned flags) {
  CALL("%u", flags);
  if (started && started != getpid()) return CUDA_ERROR_NOT_INITIALIZED;   /* what the driver says in a forked child */
  if (!fake.devices) return CUDA_ERROR_NO_DEVICE;
  started = getpid();
  return 0;
}

CUresult cuDriverGetVersion(int *version) { CALL(" "); *version = (int)fake.driver; return 0; }
CUresult cuDeviceGetCount(int *count) { CALL(" "); *count = (int)fake.devices; return 0; }
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  CALL("%d", ordinal);
  *device = ordinal;
  return ordinal < 0 || ordinal >= fake.devices ? CUDA_ERROR_INVALID_DEVICE : 0;
}
CUresult cuDeviceGetName(char *name, int size, CUdevice device) { CALL("%d", device); snprintf(name, (size_t)size, "Fake GPU"); return 0; }

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  CALL("%d %d", attribute, device);
  if (device < 0 || device >= fake.devices) return CUDA_ERROR_INVALID_DEVICE;
  switch (attribute) {
    case CU_DEVICE_MAX_THREADS_PER_BLOCK: *value = 1024; return 0;
    case CU_DEVICE_CAPABILITY_MAJOR: *value = (int)fake.capability / 10; return 0;
    case CU_DEVICE_CAPABILITY_MINOR: *value = (int)fake.capability % 10; return 0;
    case CU_DEVICE_REGISTERED_HOST_POINTERS: *value = (int)fake.registered_host; return 0;
    case CU_DEVICE_MULTIPROCESSORS: *value = 132; return 0;
    case CU_DEVICE_SHARED_PER_BLOCK_OPTIN: *value = (int)fake.optin_shared; return 0;
    case CU_DEVICE_MEMORY_POOLS: *value = (int)fake.pools; return 0;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  CALL("%d", device);
  for (int i = 0; i < MAX_CONTEXTS; i++)
    if (contexts[i].alive && contexts[i].primary && contexts[i].device == device) { *context = &contexts[i]; return 0; }
  *context = fake_context_new(device, 1);
  return *context ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuCtxGetCurrent(CUcontext *context) { CALL(" "); *context = current; return 0; }
CUresult cuCtxSetCurrent(CUcontext context) {
  CALL("c%llu", context ? context->id : 0);
  if (context && !context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  current = context;
  return 0;
}
CUresult cuCtxSynchronize(void) { CALL(" "); return current ? 0 : CUDA_ERROR_INVALID_CONTEXT; }
CUresult cuCtxGetDevice(CUdevice *device) {
  CALL(" ");
  if (!current) return CUDA_ERROR_INVALID_CONTEXT;
  *device = current->device;
  return 0;
}
CUresult cuCtxGetId(CUcontext context, unsigned long long *id) {
  CALL(" ");
  if (!context) context = current;
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *id = context->id;
  return 0;
}

/* ------------------------------------------------------------------ streams and events */

static int known(CUstream stream) { return stream >= streams && stream < streams + nstreams; }

const char *fake_stream_name(CUstream stream) {
  static _Thread_local char name[4][32];
  static _Thread_local int turn;
  char *out = name[turn++ & 3];
  if (!stream) return "s0";
  if (known(stream)) snprintf(out, 32, "s%d", stream->id);
  else snprintf(out, 32, "%p", (void *)stream);
  return out;
}

int fake_stream_captures(CUstream stream) { return known(stream) ? stream->capture : 0; }
int fake_any_capture(void) {
  for (int i = 0; i < nstreams; i++)
    if (streams[i].capture == CU_CAPTURE_ACTIVE) return 1;
  return 0;
}
int fake_prohibited(void) { return fake_any_capture() && capture_mode != CU_CAPTURE_MODE_RELAXED ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : 0; }
/* What a stream joins that waits for one in the capture of the graph; a new capture's graph. */
void fake_capture_into(CUstream stream, CUgraph graph) {
  stream->capture = CU_CAPTURE_ACTIVE;
  stream->graph = graph;
}
void fake_capture(CUstream stream, int status) {
  if (status == CU_CAPTURE_ACTIVE) stream->graph = fake_graph_new();   /* who ends the capture has it, by fake_graph_of */
  stream->capture = status;
}
CUgraph fake_graph_of(CUstream stream) { return stream->graph; }

CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
  CALL("%d", *mode);
  int before = capture_mode;
  capture_mode = *mode;
  *mode = before;
  return 0;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  CALL("%u", flags);
  int code = fake_ready();
  if (code || nstreams == MAX_STREAMS) return code ? code : CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&lock);
  *stream = &streams[nstreams++];
  **stream = (struct CUstream_st){ .id = nstreams, .context = current, .alive = 1 };
  live_streams++;
  pthread_mutex_unlock(&lock);
  return 0;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  CALL("%s", fake_stream_name(stream));
  if (!known(stream) || !stream->alive) return CUDA_ERROR_INVALID_HANDLE;
  stream->alive = 0;
  live_streams--;
  return 0;
}
CUresult cuStreamSynchronize(CUstream stream) {
  CALL("%s", fake_stream_name(stream));
  if (!stream && fake_any_capture()) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (!fake_stream_captures(stream)) return 0;
  stream->capture = 2;                                         /* the capture is broken */
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  (void)flags;
  CALL("%s e%d", fake_stream_name(stream), event->id);
  return event->alive ? 0 : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuStreamIsCapturing(CUstream stream, int *status) {
  CALL("%s", fake_stream_name(stream));
  *status = fake_stream_captures(stream);
  return !stream && fake_any_capture() ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : 0;
}
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, size_t *count) {
  CALL("%s", fake_stream_name(stream));
  *status = fake_stream_captures(stream);
  if (id || dependencies || count) return CUDA_ERROR_INVALID_VALUE;   /* nobody asks for these */
  if (*status == CU_CAPTURE_ACTIVE) *graph = stream->graph;
  return 0;
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
  CALL("%s", fake_stream_name(stream));
  *context = known(stream) ? stream->context : current;
  return *context ? 0 : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  CALL("%u", flags);
  *event = calloc(1, sizeof **event);                          /* never freed: a stale handle shows instead of crashing */
  pthread_mutex_lock(&lock);
  **event = (struct CUevent_st){ ++nevents, 1 };
  live_events++;
  pthread_mutex_unlock(&lock);
  return 0;
}
CUresult cuEventDestroy_v2(CUevent event) {
  CALL("e%d", event->id);
  if (!event->alive) return CUDA_ERROR_INVALID_HANDLE;
  event->alive = 0;
  pthread_mutex_lock(&lock);
  live_events--;
  pthread_mutex_unlock(&lock);
  return 0;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  CALL("e%d %s", event->id, fake_stream_name(stream));
  return event->alive ? 0 : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuEventSynchronize(CUevent event) { CALL("e%d", event->id); return 0; }

/* ------------------------------------------------------------------ modules and launches */

static void write_log(unsigned count, const int *options, void **values) {
  char *buffer = NULL;
  size_t room = 0;
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = values[i];
    if (options[i] == CU_JIT_ERROR_LOG_BYTES) room = (uintptr_t)values[i];
  }
  if (buffer && room) snprintf(buffer, room, "%s", jit_log);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options, void **values) {
  write_log(count, options, values);
  CALL("mode %d", capture_mode);
  int code = fake_ready();
  if (code) return code;
  *module = calloc(1, sizeof **module);
  **module = (struct CUmod_st){ ++nmodules, current, image };
  return 0;
}

/* Images that our tool made hold their position among the source's images; `image` -1 plays one that another tool made. */
static int32_t constant;
int fake_is_constant(CUdeviceptr address) { return address == (uintptr_t)&constant; }
CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
  CALL("mod%d %s", module->id, name);
  if (fake.image < 0 || strcmp(name, "aot_image")) return CUDA_ERROR_NOT_FOUND;
  constant = (int32_t)fake.image;
  *address = (uintptr_t)&constant;
  *bytes = sizeof constant;
  return 0;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  CALL("mod%d %s", module->id, name);
  for (int i = 0; i < nhidden; i++)
    if (!strcmp(hidden[i], name)) return CUDA_ERROR_NOT_FOUND;
  *function = calloc(1, sizeof **function);
  snprintf((*function)->name, sizeof (*function)->name, "%s", name);
  (*function)->module = module;
  (*function)->dynamic_shared = 48 * 1024;
  return 0;
}
CUresult cuFuncLoad(CUfunction function) { CALL("%s", function->name); function->loaded = 1; return 0; }
CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
  CALL("%d %s", attribute, function->name);
  *value = attribute == CU_FUNC_MAX_THREADS_PER_BLOCK ? (int)fake.max_threads : attribute == CU_FUNC_SHARED_BYTES ? (int)fake.static_shared
           : function->dynamic_shared;
  return 0;
}
CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  CALL("%d %d %s", attribute, value, function->name);
  if (attribute != CU_FUNC_MAX_DYNAMIC_SHARED_BYTES) return 0;
  if (value < 0 || value + fake.static_shared > fake.optin_shared) return CUDA_ERROR_INVALID_VALUE;
  function->dynamic_shared = value;
  return 0;
}

static CUresult launch(CUfunction f, const unsigned *grid, const unsigned *block, unsigned shared, CUstream stream, void **params) {
  if (fake_ready()) return fake_ready();
  if (f->module->context != current) return CUDA_ERROR_INVALID_HANDLE;
  if (known(stream) && stream->context != current) return CUDA_ERROR_INVALID_HANDLE;
  for (int i = 0; i < 3; i++)
    if (!grid[i] || !block[i]) return CUDA_ERROR_INVALID_VALUE;
  if (grid[0] > INT32_MAX || grid[1] > 65535 || grid[2] > 65535 || block[0] * block[1] * block[2] > (unsigned)fake.max_threads ||
      shared > (unsigned)f->dynamic_shared)
    return CUDA_ERROR_INVALID_VALUE;
  if (hook) hook(f->name, grid, block, shared, params);
  return 0;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **params, void **extra) {
  (void)extra;
  CALL("%s grid %ux%ux%u block %ux%ux%u shared %u %s", function->name, gx, gy, gz, bx, by, bz, shared, fake_stream_name(stream));
  return launch(function, (unsigned[]){ gx, gy, gz }, (unsigned[]){ bx, by, bz }, shared, stream, params);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **params, void **extra) {
  (void)extra;
  const unsigned *cluster = c->numAttrs && c->attrs[0].id == CU_LAUNCH_CLUSTER_DIMENSION ? c->attrs[0].value.clusterDim : (unsigned[]){ 0, 0, 0 };
  char attributes[96] = "";
  for (unsigned i = 0; i < c->numAttrs; i++) {
    const char *name = c->attrs[i].id == CU_LAUNCH_COOPERATIVE ? "cooperative" : c->attrs[i].id == CU_LAUNCH_PROGRAMMATIC ? "programmatic"
                       : c->attrs[i].id == CU_LAUNCH_PRIORITY ? "priority" : NULL;
    size_t used = strlen(attributes);
    if (name) snprintf(attributes + used, sizeof attributes - used, " %s %d", name, c->attrs[i].value.number);
  }
  CALL("%s grid %ux%ux%u block %ux%ux%u cluster %ux%ux%u shared %u %s%s", function->name, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX,
       c->blockDimY, c->blockDimZ, cluster[0], cluster[1], cluster[2], c->sharedMemBytes, fake_stream_name(c->hStream), attributes);
  return launch(function, (unsigned[]){ c->gridDimX, c->gridDimY, c->gridDimZ }, (unsigned[]){ c->blockDimX, c->blockDimY, c->blockDimZ },
                c->sharedMemBytes, c->hStream, params);
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int type, uint32_t rank, void *address, const uint64_t *extents, const uint64_t *strides,
                                const uint32_t *box, const uint32_t *element_strides, int interleave, int swizzle, int l2_promotion,
                                int out_of_bounds) {
  CALL("rank %u type %d", rank, type);
  if ((uintptr_t)map % 64 || (uintptr_t)address % 16 || element_strides[0] != 1) return CUDA_ERROR_INVALID_VALUE;
  *map = (CUtensorMap){ { (uintptr_t)address, (uint64_t)type | (uint64_t)rank << 8 | (uint64_t)interleave << 16 | (uint64_t)swizzle << 24,
                          (uint64_t)l2_promotion | (uint64_t)out_of_bounds << 8 } };
  for (uint32_t i = 0; i < rank; i++) map->opaque[3 + i] = extents[i] | (uint64_t)box[i] << 40;
  for (uint32_t i = 0; i + 1 < rank; i++) map->opaque[8 + i] = strides[i];
  return 0;
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, int type, uint32_t rank, void *address, const uint64_t *extents, const uint64_t *strides,
                                 const int *first, const int *last, uint32_t channels, uint32_t pixels, const uint32_t *element_strides,
                                 int interleave, int swizzle, int l2_promotion, int out_of_bounds) {
  CALL("rank %u type %d channels %u pixels %u", rank, type, channels, pixels);
  if ((uintptr_t)map % 64 || (uintptr_t)address % 16 || element_strides[0] != 1 || rank < 3) return CUDA_ERROR_INVALID_VALUE;
  *map = (CUtensorMap){ { (uintptr_t)address, (uint64_t)type | (uint64_t)rank << 8 | (uint64_t)interleave << 16 | (uint64_t)swizzle << 24,
                          (uint64_t)l2_promotion | (uint64_t)out_of_bounds << 8 } };
  for (uint32_t i = 0; i < rank; i++) map->opaque[3 + i] = extents[i] | (uint64_t)element_strides[i] << 40;
  for (uint32_t i = 0; i + 1 < rank; i++) map->opaque[8 + i] = strides[i];
  for (uint32_t i = 0; i + 2 < rank; i++) map->opaque[12 + i] = (uint32_t)first[i] | (uint64_t)(uint32_t)last[i] << 32;
  return 0;
}
