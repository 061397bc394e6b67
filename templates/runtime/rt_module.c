/* Loading a source's blob: once per context, at the first use, with every kernel fetched and loaded then.
 *
 * A source's state is a list of what each context loaded, newest first. Entries are published with release and never change
 * or go away, so that finding one takes no lock: for a process with one context, one compare. Contexts are told apart by
 * cuCtxGetId, because a handle is reused after its context was destroyed. */
#include "rt.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct aot_loaded {
  struct aot_loaded *next;
  uint64_t context_id;
  CUmodule module;
  int device, image;                                           /* image: see aot_source_image */
  aot_loaded_kernel kernels[];
} aot_loaded;

typedef struct { char *at; size_t left; } growing;
enum { LOG_BYTES = 4096 };
typedef struct { char error[LOG_BYTES], info[LOG_BYTES]; } logs;

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;   /* loads are rare: one lock for all sources */

__attribute__((format(printf, 2, 3))) static void add(growing *out, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(out->at, out->left, format, arguments);
  va_end(arguments);
  size_t used = n < 0 ? 0 : (size_t)n < out->left ? (size_t)n : out->left ? out->left - 1 : 0;
  out->at += used;
  out->left -= used;
}

static void add_device(growing *out) {
  CUdevice device = 0;
  char name[128] = "";
  int major = 0, minor = 0;
  if (aot_cu.cuCtxGetDevice(&device) || aot_cu.cuDeviceGetName(name, sizeof name, device) ||
      aot_cu.cuDeviceGetAttribute(&major, CU_DEVICE_CAPABILITY_MAJOR, device) ||
      aot_cu.cuDeviceGetAttribute(&minor, CU_DEVICE_CAPABILITY_MINOR, device)) {
    add(out, "this GPU");
    return;
  }
  add(out, "%s (device %d, compute capability %d.%d)", name, device, major, minor);
}

static void add_images(growing *out, const aot_source *source) {
  if (!source || !source->nimages) return;
  add(out, "; the package ships");
  for (uint32_t i = 0; i < source->nimages; i++)
    add(out, "%s %s (%s)", i ? "," : "", source->images[i].target, source->images[i].kind);
  add(out, ": build it with an --archs that serves this GPU");
}

/* 1 where the driver is older than what made the package's images, and the error is one that this leads to. */
static int driver_too_old(int code) {
  if (code == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) return 1;
  int suspect = code == CUDA_ERROR_INVALID_IMAGE || code == CUDA_ERROR_NO_BINARY_FOR_GPU || code == CUDA_ERROR_INVALID_PTX;
  return suspect && aot_this_package.min_driver_cuda > aot_driver_version();
}

static void add_too_old(growing *out) {
  int needs = aot_this_package.min_driver_cuda, version = aot_driver_version();
  add(out, "the NVIDIA driver is too old: the package was made with %s and needs a driver for CUDA %d.%d or later, this one "
           "supports CUDA %d.%d; update the driver, or build the package with an older CUDA toolchain (--cuda 12)",
      aot_this_package.toolchain, needs / 1000, needs % 1000 / 10, version / 1000, version % 1000 / 10);
}

static void add_log(growing *out, const char *title, char *log) {
  log[LOG_BYTES - 1] = 0;
  size_t n = strlen(log);
  while (n && (log[n - 1] == '\n' || log[n - 1] == ' ')) log[--n] = 0;
  if (n) add(out, "\n%s: %s", title, log);
}

static int explain_load(int code, const char *origin, const aot_source *source, logs *log, char *message, size_t size) {
  growing out = { message, size };
  add(&out, "%s: ", origin);
  if (driver_too_old(code)) {
    add_too_old(&out);
    add(&out, " (%s)", aot_error_name(code));
  } else if (code == CUDA_ERROR_NO_BINARY_FOR_GPU) {
    add(&out, "no image in the package runs on ");
    add_device(&out);
    add_images(&out, source);
    add(&out, " (%s)", aot_error_name(code));
  } else {
    aot_explain(out.at, out.left, code, "cuModuleLoadDataEx");
    out.left -= strlen(out.at);
    out.at += strlen(out.at);
  }
  add_log(&out, "driver's log", log->error);
  add_log(&out, "driver's notes", log->info);
  return code;
}

int aot_capture_relax(int *mode) { return aot_cu.cuThreadExchangeStreamCaptureMode(mode); }

static int load_with_logs(const void *image, int jit_level, CUmodule *module, logs *log) {
  int options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BYTES, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BYTES,
                    CU_JIT_OPTIMIZATION_LEVEL };
  void *values[] = { log->error, (void *)(uintptr_t)LOG_BYTES, log->info, (void *)(uintptr_t)LOG_BYTES,
                     (void *)(uintptr_t)(jit_level < 0 ? 0 : jit_level) };
  return aot_cu.cuModuleLoadDataEx(module, image, jit_level < 0 ? 4 : 5, options, values);
}

int aot_image_load(const void *image, const char *origin, const aot_source *source, int jit_level, CUmodule *module,
                   char *message, size_t size) {
  logs *log = calloc(1, sizeof *log);
  if (!log) {
    snprintf(message, size, "%s: no memory for the driver's log", origin);
    return AOT_E_NO_MEMORY;
  }
  int code = load_with_logs(image, jit_level, module, log);
  if (code) explain_load(code, origin, source, log, message, size);
  free(log);
  return code;
}

/* Everything that a launch needs to know about a kernel, and the most dynamic shared memory allowed once and for all: raising
 * the limit costs nothing, the launch decides how much is taken, and no launch has to change an attribute that others share. */
int aot_image_kernel(CUmodule module, const char *symbol, aot_loaded_kernel *kernel, char *message, size_t size) {
  CUdevice device = 0;
  CUfunction f = NULL;
  int optin = 0;
  const char *operation = "cuModuleGetFunction";
  int code = aot_cu.cuModuleGetFunction(&f, module, symbol);
  if (!code && aot_cu.cuFuncLoad) { operation = "cuFuncLoad"; code = aot_cu.cuFuncLoad(f); }
  if (!code) { operation = "cuFuncGetAttribute"; code = aot_cu.cuFuncGetAttribute(&kernel->max_threads, CU_FUNC_MAX_THREADS_PER_BLOCK, f); }
  if (!code) code = aot_cu.cuFuncGetAttribute(&kernel->static_shared, CU_FUNC_SHARED_BYTES, f);
  if (!code) { operation = "cuCtxGetDevice"; code = aot_cu.cuCtxGetDevice(&device); }
  if (!code) { operation = "cuDeviceGetAttribute"; code = aot_cu.cuDeviceGetAttribute(&optin, CU_DEVICE_SHARED_PER_BLOCK_OPTIN, device); }
  if (!code) {
    kernel->max_dynamic_shared = optin > kernel->static_shared ? optin - kernel->static_shared : 0;
    operation = "cuFuncSetAttribute";
    code = aot_cu.cuFuncSetAttribute(f, CU_FUNC_MAX_DYNAMIC_SHARED_BYTES, kernel->max_dynamic_shared);
  }
  kernel->function = code ? NULL : f;
  if (code) {
    char what[256];
    snprintf(what, sizeof what, "%s of kernel %s", operation, symbol);
    aot_explain(message, size, code, what);
  }
  return code;
}

/* Images of one fatbin may hold different kernels, so one that is not there is an error only when it is launched. */
static int fetch_kernels(const aot_source *source, aot_loaded *entry, char *message, size_t size) {
  for (uint32_t i = 0; i < source->nkernels; i++) {
    const uint32_t *block = source->kernels[i].required_block;
    entry->kernels[i].name = source->kernels[i].name;
    entry->kernels[i].special = source->kernels[i].how.cooperative || source->kernels[i].how.prioritized;
    entry->kernels[i].required_block = block[0] || block[1] || block[2] ? block : NULL;
    int code = aot_image_kernel(entry->module, source->kernels[i].symbol, &entry->kernels[i], message, size);
    if (code && code != CUDA_ERROR_NOT_FOUND) return code;
    const uint32_t *cluster = source->kernels[i].cluster;
    if (!code && cluster[0] * cluster[1] * cluster[2] > AOT_PORTABLE_CLUSTER)
      (void)aot_cu.cuFuncSetAttribute(entry->kernels[i].function, CU_FUNC_NON_PORTABLE_CLUSTER, 1);   /* else the launch says why */
  }
  return 0;
}

/* Each image holds its own position in a constant. It is read on a stream of our own: the legacy stream could be part of a
 * capture, and a copy on it would break that. Foreign images have no such constant; whatever else goes wrong here, the call it
 * came from is not the place to say it. */
static int ask_image(CUmodule module) {
  CUdeviceptr address = 0;
  CUstream stream = NULL;
  size_t bytes = 0;
  int32_t image = AOT_IMAGE_UNKNOWN, copied = AOT_IMAGE_UNKNOWN;
  if (aot_cu.cuModuleGetGlobal_v2(&address, &bytes, module, "aot_image") || bytes != sizeof copied) return image;
  if (aot_cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) return image;
  if (!aot_cu.cuMemcpyDtoHAsync_v2(&copied, address, sizeof copied, stream) && !aot_cu.cuStreamSynchronize(stream)) image = copied;
  aot_cu.cuStreamDestroy_v2(stream);
  return image;
}

/* Code for older architectures cannot wait for the work ahead of it, wherever it runs; older drivers cannot capture such launches. */
static int can_begin_early(const aot_source *source, int image) {
  enum { FIRST_CAPABILITY = 90, FIRST_CUDA = 12030 };
  const char *number = image < 0 || (uint32_t)image >= source->nimages ? NULL : strchr(source->images[image].target, '_');
  return number && atoi(number + 1) >= FIRST_CAPABILITY && aot_cu.cuLaunchKernelEx && aot_driver_version() >= FIRST_CUDA;
}

static void describe_loaded(const aot_source *source, aot_loaded *entry) {
  CUdevice device = 0;
  entry->device = aot_cu.cuCtxGetDevice(&device) ? -1 : device;
  entry->image = ask_image(entry->module);
  int early = can_begin_early(source, entry->image);
  for (uint32_t i = 0; i < source->nkernels; i++) entry->kernels[i].early = early && source->kernels[i].how.programmatic;
}

int aot_source_image(const aot_source *source, int device) {
  aot_loaded *entry = __atomic_load_n(&source->state->loaded, __ATOMIC_ACQUIRE);
  while (entry && entry->device != device) entry = entry->next;
  return entry ? entry->image : AOT_IMAGE_NOT_LOADED;
}

static aot_loaded *find(const aot_source *source, uint64_t context_id) {
  aot_loaded *entry = __atomic_load_n(&source->state->loaded, __ATOMIC_ACQUIRE);
  while (entry && entry->context_id != context_id) entry = entry->next;
  return entry;
}

static int load(const aot_source *source, uint64_t context_id, char *message, size_t size) {
  char origin[256];
  snprintf(origin, sizeof origin, "%s.%s", aot_this_package.name, source->name);
  aot_loaded *entry = calloc(1, sizeof *entry + source->nkernels * sizeof entry->kernels[0]);
  if (!entry) {
    snprintf(message, size, "%s: no memory for its table of kernels", origin);
    return AOT_E_NO_MEMORY;
  }
  entry->context_id = context_id;
  int code = source->blob ? aot_image_load(source->blob, origin, source, -1, &entry->module, message, size) : 0;
  if (!code && source->blob) code = fetch_kernels(source, entry, message, size);
  if (code) {                                                  /* the module, if any, stays: unloading it is never safe */
    free(entry);
    return code;
  }
  if (source->blob) describe_loaded(source, entry);
  entry->next = source->state->loaded;
  __atomic_store_n(&source->state->loaded, entry, __ATOMIC_RELEASE);
  return 0;
}

/* Loading copies code to the device, which a thread in a global-mode capture may not do; relaxed mode allows it because
 * nothing of it goes to a captured stream. */
static int load_relaxed(const aot_source *source, uint64_t context_id, char *message, size_t size) {
  int mode = CU_CAPTURE_MODE_RELAXED;
  int code = aot_capture_relax(&mode);
  if (code) return aot_explain(message, size, code, "cuThreadExchangeStreamCaptureMode");
  code = load(source, context_id, message, size);
  int back = aot_capture_relax(&mode);
  if (!code && back) return aot_explain(message, size, back, "cuThreadExchangeStreamCaptureMode");
  return code;
}

int aot_module_load(const aot_source *source, uint64_t context_id, char *message, size_t size) {
  int code = aot_driver(message, size);
  if (code || find(source, context_id)) return code;
  pthread_mutex_lock(&loading);
  code = find(source, context_id) ? 0 : load_relaxed(source, context_id, message, size);
  pthread_mutex_unlock(&loading);
  return code;
}

AOT_HOT const aot_loaded_kernel *aot_loaded_kernel_of(const aot_source *source, uint32_t kernel, uint64_t context_id) {
  aot_loaded *entry = find(source, context_id);
  return entry && kernel < source->nkernels ? &entry->kernels[kernel] : NULL;
}

static int not_in_image(const aot_source *source, uint32_t kernel, char *message, size_t size) {
  growing out = { message, size };
  add(&out, "kernel %s of %s.%s is not in the image that the driver took for ", source->kernels[kernel].name, aot_this_package.name,
      source->name);
  add_device(&out);
  add_images(&out, source);
  return CUDA_ERROR_NOT_FOUND;
}

int aot_kernel_handle(const aot_source *source, uint32_t kernel, uint64_t context_id, void **function, char *message, size_t size) {
  if (kernel >= source->nkernels) {
    snprintf(message, size, "%s.%s has no kernel number %u", aot_this_package.name, source->name, kernel);
    return AOT_E_INTERNAL;
  }
  int code = aot_module_load(source, context_id, message, size);
  if (code) return code;
  const aot_loaded_kernel *loaded = aot_loaded_kernel_of(source, kernel, context_id);
  *function = loaded->function;
  return loaded->function ? 0 : not_in_image(source, kernel, message, size);
}
