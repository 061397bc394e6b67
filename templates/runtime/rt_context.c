/* Contexts: which one a call runs in, and the text of errors that happen before there is a frame.
 *
 *   aot_context_enter(0, &context, &id, &restore) ... call ... aot_context_leave(restore)
 *
 * On the fast path one driver call is made, cuCtxGetId(NULL): it tells the current context apart from all others that ever
 * were (a handle can be reused after its context is destroyed, an id cannot). */
#include "rt.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

enum { MAX_DEVICES = 64 };

static _Thread_local struct { uint64_t id; CUcontext context; int device; } last;   /* the context this thread used last */
static _Thread_local char error[AOT_MESSAGE_BYTES];
static _Thread_local int default_device;
static pthread_mutex_t retaining = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[MAX_DEVICES];                         /* retained once, never released */

char *aot_error_buffer(void) { return error; }
const char *aot_last_error(void) { return error; }

int aot_set_error(int code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error, sizeof error, format, arguments);
  va_end(arguments);
  return code;
}

int aot_set_driver_error(int code, const char *operation) { return aot_explain(error, sizeof error, code, operation); }

/* A driver without cuCtxGetId (before CUDA 12.0): the handle has to do. */
static int current_id(uint64_t *id) {
  unsigned long long value = 0;
  int code;
  if (AOT_LIKELY(aot_cu.cuCtxGetId != NULL)) {
    code = aot_cu.cuCtxGetId(NULL, &value);
  } else {
    CUcontext context = NULL;
    code = aot_cu.cuCtxGetCurrent(&context);
    value = (uintptr_t)context;
    if (!code && !context) code = CUDA_ERROR_INVALID_CONTEXT;
  }
  *id = value;
  return code;
}

int aot_primary_context(int device, CUcontext *context) {
  if (device < 0 || device >= MAX_DEVICES) return aot_set_error(CUDA_ERROR_INVALID_DEVICE, "there is no CUDA device %d", device);
  *context = __atomic_load_n(&primary[device], __ATOMIC_ACQUIRE);
  if (*context) return 0;
  pthread_mutex_lock(&retaining);
  int code = 0;
  if (!primary[device]) {
    CUdevice handle = 0;
    CUcontext made = NULL;
    const char *operation = "cuDeviceGet";
    code = aot_cu.cuDeviceGet(&handle, device);
    if (!code) { operation = "cuDevicePrimaryCtxRetain"; code = aot_cu.cuDevicePrimaryCtxRetain(&made, handle); }
    if (!code) __atomic_store_n(&primary[device], made, __ATOMIC_RELEASE);
    if (code == CUDA_ERROR_INVALID_DEVICE) aot_set_error(code, "there is no CUDA device %d", device);
    else if (code) aot_set_driver_error(code, operation);
  }
  pthread_mutex_unlock(&retaining);
  *context = primary[device];
  return code;
}

static int switch_to_primary(int device, CUcontext current, void **restore) {
  CUcontext context = NULL;
  int code = aot_primary_context(device, &context);
  if (code) return code;
  code = aot_cu.cuCtxSetCurrent(context);
  if (code) return aot_set_driver_error(code, "cuCtxSetCurrent");
  *restore = current;
  return 0;
}

static int enter_unfamiliar(int device, void **context, uint64_t *id, void **restore) {
  CUcontext current = NULL;
  CUdevice of = -1;
  int code = aot_cu.cuCtxGetCurrent(&current);
  if (code) return aot_set_driver_error(code, "cuCtxGetCurrent");
  if (current && (code = aot_cu.cuCtxGetDevice(&of))) return aot_set_driver_error(code, "cuCtxGetDevice");
  if (of != device) {
    code = switch_to_primary(device, current, restore);
    if (!code) { code = aot_cu.cuCtxGetCurrent(&current); if (code) aot_set_driver_error(code, "cuCtxGetCurrent"); }
  }
  if (!code && (code = current_id(id))) aot_set_driver_error(code, aot_cu.cuCtxGetId ? "cuCtxGetId" : "cuCtxGetCurrent");
  if (code) {
    aot_context_leave(*restore);
    *restore = NULL;
    return code;
  }
  last.id = *id;
  last.context = current;
  last.device = device;
  *context = current;
  return 0;
}

int aot_context_enter(int device, void **context, uint64_t *id, void **restore) {
  *restore = NULL;
  int code = aot_driver_state();
  if (AOT_UNLIKELY(code)) return code;
  if (AOT_LIKELY(last.context != NULL && last.device == device && current_id(id) == 0 && *id == last.id)) {
    *context = last.context;
    return 0;
  }
  return enter_unfamiliar(device, context, id, restore);
}

void aot_context_leave(void *restore) { if (restore) aot_cu.cuCtxSetCurrent(restore); }

int aot_default_device(void) { return default_device; }

int aot_default_device_set(int device) {
  int count = 0, code = aot_cu.cuDeviceGetCount(&count);
  if (code) return aot_set_driver_error(code, "cuDeviceGetCount");
  if (device < 0 || device >= count)
    return aot_set_error(CUDA_ERROR_INVALID_DEVICE, "gpu.set_default_device %d: this machine has %d CUDA device%s, numbered from 0",
                         device, count, count == 1 ? "" : "s");
  default_device = device;
  return 0;
}
