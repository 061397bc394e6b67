/* Destinations that share memory with a value. In: descriptors. Out: descriptors that do not overlap, and copies afterwards.
 *
 * Tensor arguments are values: f(x, out) computes from x as it was before the call, even when `out` is x or a part of it.
 * Host code and kernels are compiled for arrays that do not overlap, so such a destination is computed in memory of its
 * own and copied over when the call is done, all in stream order. memref arguments are references, and left alone. */
#include "py.h"

typedef struct aot_moved { uint64_t original, temporary, bytes; } aot_moved;

/* What else is in the memory [low, high) of an argument: -1, another destination; 1, a value; 0, nothing that counts. */
static int meets(const aot_call *call, uint32_t index, uint64_t low, uint64_t high) {
  const aot_value *args = call->callable->args;
  int met = 0;
  for (uint32_t i = 0; i < call->callable->nargs; i++) {
    const uint64_t *span = &call->spans[2 * i];
    if (i == index || args[i].kind != AOT_ARRAY || span[0] >= high || low >= span[1])
      continue;
    if (args[i].role == AOT_DESTINATION)
      return -1;
    met |= args[i].role == AOT_IN;
  }
  return met;
}

static int refuse_overlap(const aot_call *call, uint32_t index, const char *why) {
  return aot_wrong(call, index, PyExc_ValueError, ", got an array that shares memory with another argument: %s", why);
}

static int move(aot_call *call, const aot_frame *frame, uint32_t index, uint64_t low, uint64_t high) {
  const aot_value *value = &call->callable->args[index];
  int64_t *descriptor = call->slots[index];
  if (value->strides)
    return refuse_overlap(call, index, "a strided array cannot be computed elsewhere first");
  if (!call->moved && !(call->moved = PyMem_Calloc(call->callable->nargs, sizeof *call->moved))) {
    PyErr_NoMemory();
    return -1;
  }
  aot_moved *moved = &call->moved[call->nmoved];
  *moved = (aot_moved){.original = low, .bytes = high - low};
  int code = aot_scratch_alloc(call, frame, (int64_t)moved->bytes, &moved->temporary);
  if (code)
    return aot_raise(code, aot_last_error());
  call->nmoved++;
  code = aot_scratch_copy(call, moved->temporary, low, moved->bytes);   /* it may be read before it is written */
  if (code)
    return aot_raise(code, aot_last_error());
  descriptor[0] = descriptor[1] = (int64_t)(moved->temporary - (uint64_t)(descriptor[2] * value->storage));
  return 0;
}

int aot_destinations_separate(aot_call *call, const aot_frame *frame) {
  for (uint32_t i = 0; i < call->callable->nargs; i++) {
    const aot_value *value = &call->callable->args[i];
    if (value->kind != AOT_ARRAY || value->role != AOT_DESTINATION)
      continue;
    uint64_t low = call->spans[2 * i], high = call->spans[2 * i + 1];
    int met = meets(call, i, low, high);
    if (met < 0)
      return refuse_overlap(call, i, "both are written");
    if (met && move(call, frame, i, low, high))
      return -1;
  }
  return 0;
}

int aot_destinations_finish(aot_call *call, int failed) {
  int first = 0;
  for (uint32_t i = 0; i < call->nmoved; i++) {
    const aot_moved *moved = &call->moved[i];
    int code = failed ? 0 : aot_scratch_copy(call, moved->original, moved->temporary, moved->bytes);
    int freed = aot_scratch_free(call, moved->temporary);
    if (!first)
      first = code ? code : freed;
  }
  PyMem_Free(call->moved);
  call->moved = NULL;
  call->nmoved = 0;
  return first;
}
