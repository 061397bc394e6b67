/* One call: the frame on the C stack, the error that ends it, and what happens at its end.
 *
 *   aot_push(&frame); code = aot_run(&frame, slots); aot_pop(&frame);
 *
 * Compiled host code calls our functions; one that fails records the error and jumps back to aot_run. No frame of C++ or
 * Python lies in between (callbacks return codes), and compiled host code has no destructors, so nothing is skipped that
 * would have to run. Whether the entry returned or jumped, the end is the same: chains are joined to the caller's stream and
 * everything that the call still owns is given back in stream order. */
#include "rt.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

aot_frame *aot_current(void) { return aot_this_thread.frame; }

static inline void enter(aot_thread *thread, aot_frame *frame) {
  frame->outer = thread->frame;
  frame->live = frame->live_inline;
  frame->nlive = 0;
  frame->live_capacity = AOT_LIVE_INLINE;
  frame->forks = NULL;
  frame->nforks = 0;
  frame->events = frame->async = frame->caller_context = NULL;
  frame->worked = frame->printed = frame->on_cpu = 0;
  frame->code = 0;
  frame->message[0] = 0;
  frame->nextents = 0;
  thread->frame = frame;
}

static inline void leave(aot_thread *thread, aot_frame *frame) {
  if (AOT_UNLIKELY(frame->live != frame->live_inline)) free(frame->live);
  frame->live = frame->live_inline;
  frame->nlive = 0;
  thread->frame = frame->outer;
}

void aot_push(aot_frame *frame) { enter(&aot_this_thread, frame); }
void aot_pop(aot_frame *frame) { leave(&aot_this_thread, frame); }

/* Whether the context that this thread used last is still current, and the one that is asked for. If so, the call is in it. */
static inline int is_familiar(const aot_thread *thread, aot_frame *frame, uint64_t context_id) {
  unsigned long long id;
  if (thread->context == NULL || (thread->device != frame->device && frame->device >= 0) || thread->context_id != context_id ||
      aot_cu.cuCtxGetId == NULL || aot_driver_state() != 0 || aot_cu.cuCtxGetId(NULL, &id) != 0 || id != context_id)
    return 0;
  frame->context = thread->context;
  frame->context_id = context_id;
  frame->device = thread->device;
  return 1;
}

AOT_HOT int aot_push_familiar(aot_frame *frame, uint64_t context_id) {
  aot_thread *thread = &aot_this_thread;
  if (!is_familiar(thread, frame, context_id)) return 0;
  enter(thread, frame);
  return 1;
}

aot_frame *aot_frame_here(const char *caller) {
  aot_frame *frame = aot_this_thread.frame;
  if (AOT_LIKELY(frame != NULL)) return frame;
  fprintf(stderr, "%s: %s was called outside of a call of a package function\n", aot_this_package.name, caller);
  abort();
}

_Noreturn void aot_unwind(aot_frame *frame) { longjmp(frame->unwind, 1); }

int aot_record(aot_frame *frame, int code, const char *format, ...) {
  if (frame->code) return code;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(frame->message, sizeof frame->message, format, arguments);
  va_end(arguments);
  frame->code = code;
  return code;
}

/* The format names the operation ("cuLaunchKernel of k, grid 1 x 1 x 1"); the driver's error is put behind it. */
int aot_record_driver(aot_frame *frame, int code, const char *format, ...) {
  if (!code || frame->code) return code;
  char operation[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(operation, sizeof operation, format, arguments);
  va_end(arguments);
  frame->code = code;
  return aot_explain(frame->message, sizeof frame->message, code, operation);
}

_Noreturn void aot_fail(int code, const char *format, ...) {
  aot_frame *frame = aot_frame_here("aot_fail");
  if (!frame->code) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(frame->message, sizeof frame->message, format, arguments);
    va_end(arguments);
    frame->code = code;
  }
  aot_unwind(frame);
}

int aot_capturing(aot_frame *frame, CUstream stream, int *capturing) {
  int status = CU_CAPTURE_NONE;
  int code = aot_cu.cuStreamIsCapturing(stream, &status);
  *capturing = status != CU_CAPTURE_NONE;
  if (code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {            /* the legacy stream, while another one is being captured */
    *capturing = 1;
    return 0;
  }
  return aot_record_driver(frame, code, "cuStreamIsCapturing");
}

static const char *function_name(const aot_frame *frame) { return frame->function ? frame->function->name : "kernel"; }

/* Synchronising a stream that is being captured fails and breaks the capture for good: say it before anything is done. */
static int refuse_capture(aot_frame *frame, CUstream stream, const char *why) {
  int capturing = 0;
  int code = aot_capturing(frame, stream, &capturing);
  if (code || !capturing) return code;
  return aot_record(frame, AOT_E_CAPTURE, "%s cannot be captured in a CUDA graph: %s", function_name(frame), why);
}

int aot_wait_stream(aot_frame *frame, CUstream stream, const char *why) {
  int code = refuse_capture(frame, stream, why);
  return code ? code : aot_record_driver(frame, aot_cu.cuStreamSynchronize(stream), "cuStreamSynchronize in %s (%s)",
                                         function_name(frame), why);
}

int aot_wait(aot_frame *frame, const char *why) { return aot_wait_stream(frame, (CUstream)frame->stream, why); }

static int may_start(aot_frame *frame) {
  if (!(frame->function->flags & (AOT_READS_DEVICE | AOT_HOST_SYNC))) return 0;
  return refuse_capture(frame, (CUstream)frame->stream, frame->function->flags & AOT_READS_DEVICE
                        ? "its host code reads device memory" : "its host code waits for the device");
}

/* Text of kernels reaches stdout at a synchronisation only. In a capture nothing runs yet: it comes when the graph's user waits. */
static void show_messages(aot_frame *frame) {
  int capturing = 0;
  CUstream stream = (CUstream)frame->stream;
  frame->printed = 1;
  if (aot_capturing(frame, stream, &capturing) || capturing) return;
  aot_record_driver(frame, aot_cu.cuStreamSynchronize(stream), "cuStreamSynchronize in %s (its kernels print or assert)",
                    function_name(frame));
}

static void leave_default_device(aot_frame *frame) {
  if (!frame->caller_context) return;
  aot_record_driver(frame, aot_cu.cuCtxSetCurrent(frame->caller_context), "cuCtxSetCurrent");
  frame->caller_context = NULL;
}

static void finish(aot_frame *frame) {
  aot_async_sweep(frame);
  aot_chains_join(frame);
  if ((frame->function->flags & AOT_MESSAGES) && frame->worked) show_messages(frame);
  aot_live_sweep(frame);
  aot_chains_release(frame);
  leave_default_device(frame);
  if (frame->printed) fflush(stdout);
}

/* A function of its own: what calls setjmp keeps nothing in registers, and looks this thread's state up again each time. */
__attribute__((noinline)) static void enter_code(aot_frame *frame, aot_entry entry, void **slots) {
  if (setjmp(frame->unwind) == 0) entry(slots);
}

int aot_run(aot_frame *frame, void **slots) {
  if (may_start(frame)) return frame->code;
  enter_code(frame, frame->function->entry, slots);
  finish(frame);
  return frame->code;
}

/* What a call that only launches has left behind is mostly nothing. */
static inline int is_clean(const aot_frame *frame) {
  return !(frame->nlive | frame->nforks | frame->printed) && !frame->events && !frame->async && !frame->caller_context;
}

AOT_HOT int aot_run_familiar(aot_frame *frame, uint64_t context_id, void **slots) {
  aot_thread *thread = &aot_this_thread;
  if (!is_familiar(thread, frame, context_id)) return 0;
  enter(thread, frame);
  enter_code(frame, frame->function->entry, slots);
  if (AOT_UNLIKELY(!is_clean(frame))) finish(frame);
  leave(thread, frame);
  return 1;
}

int aot_run_cpu(aot_frame *frame, aot_entry entry, void **slots) {
  frame->on_cpu = 1;
  enter_code(frame, entry, slots);
  aot_live_sweep(frame);
  if (frame->printed) fflush(stdout);
  return frame->code;
}

/* ------------------------------------------------------------------ what compiled host code calls */

void aot_rt_result_extent(int64_t k, int64_t axis, int64_t extent) {
  aot_frame *frame = aot_frame_here("aot_rt_result_extent");
  if (axis < 0 || axis >= AOT_MAX_RANK) aot_fail(AOT_E_INTERNAL, "result %lld has no axis %lld", (long long)k, (long long)axis);
  if (extent < 0)
    aot_fail(AOT_E_SIZE, "negative size: axis %lld of result %lld would be %lld long", (long long)axis, (long long)k, (long long)extent);
  frame->extents[axis] = extent;
  frame->nextents = (uint32_t)axis + 1;
}

void _mlir_ciface_aot_rt_result(aot_bytes *out, int64_t k, int64_t bytes) {
  aot_frame *frame = aot_frame_here("aot_rt_result");
  uint64_t address = 0;
  if (bytes < 0) aot_fail(AOT_E_SIZE, "negative size: result %lld would have %lld bytes", (long long)k, (long long)bytes);
  int code = frame->memory(frame, k, bytes, &address);
  frame->nextents = 0;
  if (code) {
    if (frame->message[0]) frame->code = frame->code ? frame->code : code;
    aot_record(frame, code, "memory for result %lld (%lld bytes) could not be allocated", (long long)k, (long long)bytes);
    aot_unwind(frame);
  }
  frame->worked = 1;
  *out = (aot_bytes){ (void *)(uintptr_t)address, (void *)(uintptr_t)address, 0, bytes, 1 };
}

static void read_device(void *value, int64_t address, size_t bytes) {
  aot_frame *frame = aot_frame_here("aot_rt_load");
  static const char why[] = "its host code reads device memory";
  must(frame, refuse_capture(frame, (CUstream)frame->stream, why));
  must(frame, aot_record_driver(frame, aot_cu.cuMemcpyDtoHAsync_v2(value, (CUdeviceptr)address, bytes, (CUstream)frame->stream),
                                "cuMemcpyDtoHAsync of %zu bytes", bytes));
  must(frame, aot_record_driver(frame, aot_cu.cuStreamSynchronize((CUstream)frame->stream), "cuStreamSynchronize in %s (%s)",
                                function_name(frame), why));
}

int8_t aot_rt_load_i8(int64_t address) { int8_t value; read_device(&value, address, sizeof value); return value; }
int16_t aot_rt_load_i16(int64_t address) { int16_t value; read_device(&value, address, sizeof value); return value; }
int32_t aot_rt_load_i32(int64_t address) { int32_t value; read_device(&value, address, sizeof value); return value; }
int64_t aot_rt_load_i64(int64_t address) { int64_t value; read_device(&value, address, sizeof value); return value; }

static int64_t device_attribute(int attribute, const char *caller) {
  aot_frame *frame = aot_frame_here(caller);
  int value = 0;
  must(frame, aot_record_driver(frame, aot_cu.cuDeviceGetAttribute(&value, attribute, frame->device), "cuDeviceGetAttribute"));
  return value;
}

int64_t aot_rt_shared_limit(void) { return device_attribute(CU_DEVICE_SHARED_PER_BLOCK_OPTIN, "aot_rt_shared_limit"); }
int64_t aot_rt_multiprocessors(void) { return device_attribute(CU_DEVICE_MULTIPROCESSORS, "aot_rt_multiprocessors"); }

AOT_HOT void aot_rt_assert(_Bool ok, int32_t message) {
  if (AOT_LIKELY(ok)) return;
  aot_frame *frame = aot_frame_here("aot_rt_assert");
  const char *const *texts = frame->function->source->messages;
  aot_fail(AOT_E_ASSERT, "%s", texts && message >= 0 ? texts[message] : "assertion failed");
}

/* Each {} of the text becomes the next number. */
static void fill_in(char *out, size_t size, const char *text, const int64_t *numbers, size_t count) {
  size_t used = 0;
  for (size_t next = 0; *text && used + 1 < size; ) {
    if (text[0] != '{' || text[1] != '}' || next == count) { out[used++] = *text++; continue; }
    int written = snprintf(out + used, size - used, "%lld", (long long)numbers[next++]);
    used = (size_t)written < size - used ? used + (size_t)written : size - 1;
    text += 2;
  }
  out[used] = 0;
}

_Noreturn void aot_rt_refuse(int32_t message, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) {
  aot_frame *frame = aot_frame_here("aot_rt_refuse");
  const aot_source *source = frame->function->source;
  const int64_t numbers[] = { a, b, c, d, e };
  char text[AOT_MESSAGE_BYTES];
  fill_in(text, sizeof text, source->messages[message], numbers, sizeof numbers / sizeof numbers[0]);
  aot_fail(AOT_E_SIZE, "%s.%s(): %s", source->name, frame->function->name, text);
}
