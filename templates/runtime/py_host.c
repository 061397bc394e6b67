/* A call of CPU code. In: a call whose arguments and out= are read, all in host memory. Out: the function's value.
 *
 * The driver is not touched, it need not even exist. The interpreter lock is given up where the work is worth it. */
#include "py.h"
#include "rt.h"
#include <stdlib.h>
#include <string.h>

enum { LARGE = 1 << 14 };                                      /* bytes of arguments from which on other Python threads may run meanwhile */
enum { ALIGNMENT = 64 };                                       /* what vector code and JAX like best */

/* ------------------------------------------------------------------ memory of a call, in either place */

int aot_scratch_alloc(const aot_call *call, const aot_frame *frame, int64_t bytes, uint64_t *address) {
  if (call->place != AOT_PLACE_CPU)
    return aot_pool_alloc(frame->device, frame->stream, bytes, address);
  void *made = NULL;
  if (posix_memalign(&made, ALIGNMENT, bytes ? (size_t)bytes : 1))
    return aot_set_error(AOT_E_NO_MEMORY, "no memory: %lld bytes of host memory", (long long)bytes);
  *address = (uint64_t)(uintptr_t)made;
  return 0;
}

int aot_scratch_copy(const aot_call *call, uint64_t to, uint64_t from, uint64_t bytes) {
  if (call->place != AOT_PLACE_CPU)
    return aot_copy_device(to, from, bytes, call->stream);
  memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, (size_t)bytes);
  return 0;
}

int aot_scratch_free(const aot_call *call, uint64_t address) {
  if (call->place != AOT_PLACE_CPU)
    return aot_pool_free(address, call->stream);
  free((void *)(uintptr_t)address);
  return 0;
}

/* ------------------------------------------------------------------ the call */

static int is_large(const aot_call *call) {
  int64_t bytes = 0, arrays = 0;
  for (uint32_t i = 0; i < call->callable->nargs; i++) {
    const aot_value *value = &call->callable->args[i];
    if (value->kind != AOT_ARRAY)
      continue;
    const int64_t *extents = (const int64_t *)call->slots[i] + 3;
    int64_t size = value->storage;
    for (int axis = 0; axis < value->rank; axis++)
      size *= extents[axis];
    bytes += size;
    arrays++;
  }
  return bytes >= LARGE || !arrays;
}

static int run_on_cpu(aot_call *call, aot_frame *frame) {
  aot_entry entry = aot_cpu_entry(call->callable->function);
  if (!is_large(call))
    return aot_run_cpu(frame, entry, call->slots);
  call->released = PyEval_SaveThread();
  int code = aot_run_cpu(frame, entry, call->slots);
  PyEval_RestoreThread(call->released);
  call->released = NULL;
  return code;
}

PyObject *aot_call_on_cpu(aot_call *call) {
  aot_frame frame;
  frame.function = call->callable->function;
  frame.context = frame.stream = NULL;
  frame.context_id = 0;
  frame.device = -1;
  frame.python = call;
  frame.memory = aot_result_memory;
  aot_push(&frame);
  int overlaps = call->callable->writes_values && aot_destinations_separate(call, &frame);
  int failed = overlaps ? AOT_E_PYTHON : run_on_cpu(call, &frame);
  aot_pop(&frame);
  int code = call->moved ? aot_destinations_finish(call, failed) : 0;
  int copied = aot_outputs_finish(call, failed);
  if (failed || code || copied) {
    aot_raise(failed ? failed : code ? code : copied, failed ? frame.message : aot_last_error());
    return NULL;
  }
  return aot_outputs_return(call);
}
