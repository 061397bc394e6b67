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

_Thread_local aot_thread aot_this_thread;
static _Thread_local char last_error[AOT_MESSAGE_BYTES];
static _Thread_local int default_device;
static pthread_mutex_t retaining = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[AOT_MAX_DEVICES];                         /* retained once, never released */

char *aot_error_buffer(void) { return last_error; }
const char *aot_last_error(void) { return last_error; }

int aot_set_error(int code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(last_error, sizeof last_error, format, arguments);
  va_end(arguments);
  return code;
}

int aot_set_driver_error(int code, const char *operation) { return aot_explain(last_error, sizeof last_error, code, operation); }

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

static int retain(int device) {
  CUdevice handle = 0;
  CUcontext made = NULL;
  int code = aot_cu.cuDeviceGet(&handle, device);
  if (code == CUDA_ERROR_INVALID_DEVICE) return aot_set_error(code, "there is no CUDA device %d", device);
  if (code) return aot_set_driver_error(code, "cuDeviceGet");
  code = aot_cu.cuDevicePrimaryCtxRetain(&made, handle);
  if (code) return aot_set_driver_error(code, "cuDevicePrimaryCtxRetain");
  __atomic_store_n(&primary[device], made, __ATOMIC_RELEASE);
  return 0;
}

/* `again`: the one retained before was destroyed under us (cuDevicePrimaryCtxReset). */
static int primary_context(int device, int again, CUcontext *context) {
  if (device < 0 || device >= AOT_MAX_DEVICES) return aot_set_error(CUDA_ERROR_INVALID_DEVICE, "there is no CUDA device %d", device);
  int code = 0;
  *context = __atomic_load_n(&primary[device], __ATOMIC_ACQUIRE);
  if (*context && !again) return 0;
  pthread_mutex_lock(&retaining);
  if (!primary[device] || again) code = retain(device);
  *context = primary[device];
  pthread_mutex_unlock(&retaining);
  return code;
}

static int is_gone(int code) { return code == CUDA_ERROR_CONTEXT_IS_DESTROYED || code == CUDA_ERROR_INVALID_CONTEXT; }

static int id_error(int code) { return code ? aot_set_driver_error(code, aot_cu.cuCtxGetId ? "cuCtxGetId" : "cuCtxGetCurrent") : 0; }

/* The current context if it is one of the device's and alive; else NULL. `before` is what was current at all. */
static int current_of(int device, CUcontext *context, uint64_t *id, CUcontext *before) {
  CUdevice of = -1;
  *context = *before = NULL;
  int code = aot_cu.cuCtxGetCurrent(before);
  if (code) return aot_set_driver_error(code, "cuCtxGetCurrent");
  if (!*before) return 0;
  code = current_id(id);
  if (is_gone(code)) {
    *before = NULL;                                            /* nothing to come back to */
    return 0;
  }
  if (code) return id_error(code);
  code = aot_cu.cuCtxGetDevice(&of);
  if (code) return aot_set_driver_error(code, "cuCtxGetDevice");
  if (of == device) *context = *before;
  return 0;
}

static int use_primary(int device, CUcontext *context, uint64_t *id) {
  int code = 0;
  for (int again = 0; again < 2; again++) {
    code = primary_context(device, again, context);
    if (code) return code;
    code = aot_cu.cuCtxSetCurrent(*context);
    if (code && !is_gone(code)) return aot_set_driver_error(code, "cuCtxSetCurrent");
    if (!code) code = current_id(id);
    if (!is_gone(code)) break;
  }
  return id_error(code);
}

static int enter_unfamiliar(int device, void **context, uint64_t *id, void **restore) {
  CUcontext found, before;
  int code = current_of(device, &found, id, &before);
  if (code) return code;
  if (!found) {
    code = use_primary(device, &found, id);
    if (code) {
      aot_context_leave(before);
      return code;
    }
    *restore = before;
  }
  aot_thread *thread = &aot_this_thread;
  thread->context_id = *id;
  thread->context = found;
  thread->device = device;
  *context = found;
  return 0;
}

int aot_context_enter(int device, void **context, uint64_t *id, void **restore) {
  *restore = NULL;
  int code = aot_driver_state();
  if (AOT_UNLIKELY(code)) return code;
  const aot_thread *thread = &aot_this_thread;
  if (AOT_LIKELY(thread->context != NULL && thread->device == device && current_id(id) == 0 && *id == thread->context_id)) {
    *context = thread->context;
    return 0;
  }
  return enter_unfamiliar(device, context, id, restore);
}

void aot_context_leave(void *restore) { if (restore) aot_cu.cuCtxSetCurrent(restore); }

int aot_default_device_check(int device) {
  int count = 0, code = aot_cu.cuDeviceGetCount(&count);
  if (code) return aot_set_driver_error(code, "cuDeviceGetCount");
  if (device < 0 || device >= count)
    return aot_set_error(CUDA_ERROR_INVALID_DEVICE, "gpu.set_default_device %d: this machine has %d CUDA device%s, numbered from 0",
                         device, count, count == 1 ? "" : "s");
  return 0;
}

void aot_default_device_set(int device) { default_device = device; }

int aot_current_device(int *device) {
  int code = aot_driver_state();
  if (code) return code;
  CUcontext current = NULL;
  CUdevice found = 0;
  *device = default_device;
  code = aot_cu.cuCtxGetCurrent(&current);
  if (code) return aot_set_driver_error(code, "cuCtxGetCurrent");
  if (!current) return 0;
  code = aot_cu.cuCtxGetDevice(&found);
  if (code) return aot_set_driver_error(code, "cuCtxGetDevice");
  *device = found;
  return 0;
}

int aot_stream_device(void *stream, int *device) {
  CUcontext context = NULL, current = NULL;
  CUdevice found = -1;
  *device = -1;
  if ((uintptr_t)stream <= 2) return 0;                        /* the default streams belong to whatever context is current */
  int code = aot_cu.cuStreamGetCtx(stream, &context);
  if (code) return aot_set_driver_error(code, "cuStreamGetCtx (is stream= a CUDA stream?)");
  code = aot_cu.cuCtxGetCurrent(&current);
  if (code) return aot_set_driver_error(code, "cuCtxGetCurrent");
  if (context != current && (code = aot_cu.cuCtxSetCurrent(context))) return aot_set_driver_error(code, "cuCtxSetCurrent");
  code = aot_cu.cuCtxGetDevice(&found);
  if (context != current) aot_cu.cuCtxSetCurrent(current);
  *device = found;
  return code ? aot_set_driver_error(code, "cuCtxGetDevice") : 0;
}
