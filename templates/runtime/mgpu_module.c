/* Modules and launches of sources that were lowered to the LLVM dialect before they came to us: their host code calls upstream's
 * mgpuModuleLoad from a static constructor, so it only registers; loading is done per context at the first launch. */
#include "rt.h"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct image {                                         /* a registered blob in one context */
  struct image *next;
  uint64_t context_id;
  CUmodule module;
} image;

typedef struct kernel {
  struct kernel *next;
  uint64_t context_id;
  aot_loaded_kernel loaded;
  char name[];
} kernel;

typedef struct module {
  const void *blob;
  int jit_level;                                               /* -1: not PTX */
  image *images;                                               /* under the lock */
  kernel *kernels;                                             /* published with release; both lists only grow */
} module;

static pthread_mutex_t fetching = PTHREAD_MUTEX_INITIALIZER;

static module *register_blob(const void *blob, int jit_level) {
  module *made = calloc(1, sizeof *made);
  if (made) *made = (module){ blob, jit_level, NULL, NULL };
  return made;                                                 /* NULL shows at the first launch: a constructor cannot raise */
}

void *mgpuModuleLoad(void *blob, size_t bytes) { (void)bytes; return register_blob(blob, -1); }
void *mgpuModuleLoadJIT(void *ptx, int opt_level) { return register_blob(ptx, opt_level < 0 || opt_level > 4 ? 4 : opt_level); }
/* Never unloaded: called from a static destructor, when the driver may be gone. */
void mgpuModuleUnload(void *loaded) { (void)loaded; }

static kernel *find_kernel(const module *in, const char *name, uint64_t context_id) {
  kernel *one = __atomic_load_n(&in->kernels, __ATOMIC_ACQUIRE);
  while (one && (one->context_id != context_id || strcmp(one->name, name))) one = one->next;
  return one;
}

static int image_in_context(aot_frame *frame, module *of, CUmodule *out, char *message, size_t size) {
  image *one = of->images;
  while (one && one->context_id != frame->context_id) one = one->next;
  if (!one) {
    one = calloc(1, sizeof *one);
    if (!one) { snprintf(message, size, "no host memory for a module"); return AOT_E_NO_MEMORY; }
    *one = (image){ of->images, frame->context_id, NULL };
    int code = aot_image_load(of->blob, frame->function->source->name, frame->function->source, of->jit_level, &one->module, message, size);
    if (code) { free(one); return code; }
    of->images = one;
  }
  *out = one->module;
  return 0;
}

static int fetch(aot_frame *frame, module *from, const char *name, kernel **out, char *message, size_t size) {
  CUmodule in = NULL;
  int code = image_in_context(frame, from, &in, message, size);
  if (code) return code;
  kernel *made = calloc(1, sizeof *made + strlen(name) + 1);
  if (!made) { snprintf(message, size, "no host memory for kernel %s", name); return AOT_E_NO_MEMORY; }
  strcpy(made->name, name);
  made->context_id = frame->context_id;
  made->loaded.name = made->name;
  code = aot_image_kernel(in, name, &made->loaded, message, size);
  if (code) { free(made); return code; }
  made->next = from->kernels;
  __atomic_store_n(&from->kernels, made, __ATOMIC_RELEASE);
  *out = made;
  return 0;
}

static int fetch_relaxed(aot_frame *frame, module *from, const char *name, kernel **out, char *message, size_t size) {
  int mode = CU_CAPTURE_MODE_RELAXED;
  int code = aot_capture_relax(&mode);
  if (code) return aot_explain(message, size, code, "cuThreadExchangeStreamCaptureMode");
  pthread_mutex_lock(&fetching);
  *out = find_kernel(from, name, frame->context_id);
  if (!*out) code = fetch(frame, from, name, out, message, size);
  pthread_mutex_unlock(&fetching);
  int back = aot_capture_relax(&mode);
  return code || !back ? code : aot_explain(message, size, back, "cuThreadExchangeStreamCaptureMode");
}

/* Called at every launch. What it returns goes to the two launch functions below only. */
void *mgpuModuleGetFunction(void *from, const char *name) {
  aot_frame *frame = aot_frame_here("mgpuModuleGetFunction");
  if (!from) aot_fail(AOT_E_NO_MEMORY, "the module of kernel %s could not be registered: no host memory", name);
  kernel *one = find_kernel(from, name, frame->context_id);
  if (AOT_UNLIKELY(!one)) {
    char message[AOT_MESSAGE_BYTES];
    int code = fetch_relaxed(frame, from, name, &one, message, sizeof message);
    if (code) aot_fail(code, "%s", message);
  }
  return &one->loaded;
}

void mgpuLaunchKernel(void *function, intptr_t gx, intptr_t gy, intptr_t gz, intptr_t bx, intptr_t by, intptr_t bz, int32_t shared,
                      void *stream, void **params, void **extra, size_t nparams) {
  (void)extra, (void)nparams;
  aot_frame *frame = aot_frame_here("mgpuLaunchKernel");
  aot_geometry geometry = { { gx, gy, gz }, { bx, by, bz }, { 0, 0, 0 }, shared, { 0 } };
  must(frame, aot_launch_loaded(frame, function, &geometry, aot_stream_or(frame, stream), params));
}

void mgpuLaunchClusterKernel(void *function, intptr_t cx, intptr_t cy, intptr_t cz, intptr_t gx, intptr_t gy, intptr_t gz, intptr_t bx,
                             intptr_t by, intptr_t bz, int32_t shared, void *stream, void **params, void **extra) {
  (void)extra;
  aot_frame *frame = aot_frame_here("mgpuLaunchClusterKernel");
  aot_geometry geometry = { { gx, gy, gz }, { bx, by, bz }, { cx, cy, cz }, shared, { 0 } };
  must(frame, aot_launch_loaded(frame, function, &geometry, aot_stream_or(frame, stream), params));
}
