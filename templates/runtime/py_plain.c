/* Plain arrays in one pass, and calls that have nothing else. In: numbers, and arrays whose type has the C exchange API. Out:
 * descriptors and the call's value, or "not plain", and the general way begins anew (py_arguments.c, py_call.c), which takes all
 * other arrays and has the words for those that are wrong.
 *
 * Plain is a row-major array with elements, of the argument's element type, rank and extents, on the call's GPU, writable as far as
 * the protocol says. What is accepted here must be what aot_check_array and aot_place_take accept: this is only quicker. */
#include "py.h"
#include "rt.h"
#include <string.h>

#define MOST ((int64_t)1 << 58)                                /* elements: their bytes are a number, too */

static uint32_t packed(dl_dtype dtype) {
  uint32_t word;
  memcpy(&word, &dtype, sizeof word);
  return word;
}

void aot_plain_setup(const aot_callable *callable, uint32_t index) {
  const aot_value *value = &callable->args[index];
  aot_plain *plain = &callable->plain[index];
  int on_gpu = !callable->function || callable->function->entry;
  plain->words = value->kind == AOT_ARRAY ? 3 + 2 * (uint32_t)value->rank : 2;
  plain->possible = on_gpu && value->kind == AOT_ARRAY && !value->strides && value->offset == 0;
  plain->number = value->kind == AOT_SCALAR && value->dl_code != AOT_DL_PTR;
  plain->destination = value->kind == AOT_ARRAY && value->role == AOT_DESTINATION;
  plain->rank = value->rank;
  plain->storage = value->storage;
  plain->misaligned = (uint8_t)((value->dl_code == AOT_DL_COMPLEX ? value->storage / 2 : value->storage) - 1);
  plain->dtype = plain->other = packed((dl_dtype){value->dl_code, value->dl_bits, 1});
  if (value->dl_code == AOT_DL_INT && !value->index)
    plain->other = packed((dl_dtype){AOT_DL_UINT, value->dl_bits, 1});
  plain->shape = NULL;
  for (int i = 0; i < value->rank; i++)
    if (value->shape[i] != AOT_DYNAMIC)
      plain->shape = value->shape;
}

/* Extents and strides into the descriptor; elements, or 0: not plain. */
static inline __attribute__((always_inline)) int64_t fill(const aot_plain *plain, const dl_tensor *tensor, int64_t *slot) {
  int64_t count = 1, *strides = slot + plain->rank;
  for (int32_t i = plain->rank - 1; i >= 0; i--) {
    int64_t extent = tensor->shape[i];
    if (extent <= 0 || (tensor->strides && extent != 1 && tensor->strides[i] != count))
      return 0;
    if (plain->shape && plain->shape[i] != AOT_DYNAMIC && plain->shape[i] != extent)
      return 0;
    slot[i] = extent;
    strides[i] = count;
    if (__builtin_mul_overflow(count, extent, &count))
      return 0;
  }
  return count;
}

/* Asking torch whether a tensor is negated only when read costs more than all other checks of it. The only such views of its public
 * interface are imaginary parts, with even strides; a row-major one is the work of _neg_view or as_strided. So a row-major tensor
 * is asked once, and remembered by its object and its memory. */
static inline __attribute__((always_inline)) int is_lazy(PyObject *object, const aot_kind *kind, const dl_tensor *tensor, uint64_t address, int64_t count) {
  enum { KNOWN_BITS = 9 };
  static uint64_t known[1 << KNOWN_BITS];                      /* object and memory in one word, which threads cannot tear */
  if (!kind->is_neg)
    return 0;
  uint64_t mixed = (uint64_t)(uintptr_t)object * UINT64_C(0x9e3779b97f4a7c15), word = mixed ^ address * UINT64_C(0xd6e8feb86659fd93);
  size_t place = (size_t)(mixed >> (64 - KNOWN_BITS));
  int remembers = count > 1 && tensor->dtype.code != AOT_DL_COMPLEX;
  if (remembers && __atomic_load_n(&known[place], __ATOMIC_RELAXED) == word)
    return 0;
  int lazy = aot_is_lazy(object, kind, tensor->dtype);
  if (remembers && !lazy)
    __atomic_store_n(&known[place], word, __ATOMIC_RELAXED);
  return lazy;
}

__attribute__((always_inline)) static inline int take_plain(aot_call *call, uint32_t index, const aot_plain *plain, int64_t *slot) {
  PyObject *object = call->args[index];
  const aot_kind *kind = &call->first_kind;
  aot_kind other;                                              /* frameworks may run Python code, which may ask for other kinds */
  if (AOT_UNLIKELY(call->first < 0 || kind->type != Py_TYPE(object))) {
    const aot_kind *found = aot_kind_of(object);
    if (!found)
      return -1;
    if (call->first < 0)
      call->first_kind = *found;
    else {
      other = *found;
      kind = &other;
    }
  }
  dl_tensor tensor;
  if (AOT_UNLIKELY(!kind->borrows))
    return 0;
  if (AOT_UNLIKELY(kind->exchange->tensor_from_object(object, &tensor))) {
    PyErr_Clear();
    return 0;
  }
  uint32_t dtype = packed(tensor.dtype);
  if (AOT_UNLIKELY((dtype != plain->dtype && dtype != plain->other) || tensor.rank != plain->rank || tensor.device.type != DL_CUDA))
    return 0;
  int64_t count = fill(plain, &tensor, slot + 3);
  uint64_t address = (uint64_t)(uintptr_t)tensor.data + tensor.byte_offset;
  if (AOT_UNLIKELY(!count || count > MOST || !address || address & plain->misaligned))
    return 0;
  slot[0] = slot[1] = (int64_t)address;
  slot[2] = 0;
  call->spans[2 * index] = address;
  call->spans[2 * index + 1] = address + (uint64_t)count * plain->storage;
  int lazy = is_lazy(object, kind, &tensor, address, count);
  if (AOT_UNLIKELY(lazy))
    return lazy < 0 ? -1 : 0;
  if (AOT_LIKELY(call->first >= 0))
    return call->device == tensor.device.id && call->place == AOT_PLACE_GPU;
  if (call->place == AOT_PLACE_CPU || tensor.device.id < 0)
    return 0;
  call->first = call->device_argument = call->place_argument = (int32_t)index;
  call->first_object = object;
  call->device = tensor.device.id;
  call->place = AOT_PLACE_GPU;
  return 1;
}

static inline int take_number(aot_call *call, uint32_t index, int64_t *slot) {
  call->spans[2 * index] = call->spans[2 * index + 1] = 0;
  return aot_number_read(call, index, slot) ? -1 : 1;
}

int aot_plain_take(aot_call *call, uint32_t index, int64_t *slot) { return take_plain(call, index, &call->callable->plain[index], slot); }

void aot_plain_begin(aot_call *call) {
  call->nholders = call->pending = 0;
  call->first_object = NULL;
  call->first = call->device = call->device_argument = call->place_argument = -1;
  call->place = AOT_PLACE_UNKNOWN;
}

AOT_HOT int aot_plain_arguments(aot_call *call) {
  const aot_callable *callable = call->callable;
  int64_t *word = call->words;
  aot_plain_begin(call);
  for (uint32_t i = 0; i < callable->nargs; i++) {
    const aot_plain *plain = &callable->plain[i];
    call->slots[i] = word;
    int taken = plain->possible ? take_plain(call, i, plain, word) : plain->number ? take_number(call, i, word) : 0;
    if (taken <= 0)
      return taken;
    word += plain->words;
  }
  if (call->first < 0) {                                       /* nothing says where: on the current device */
    call->place = AOT_PLACE_GPU;
    return aot_stream_choose(call) ? -1 : 1;
  }
  const dl_exchange *exchange = call->first_kind.exchange;
  if (!exchange->current_stream)
    return 0;
  if (!exchange->current_stream(DL_CUDA, call->device, &call->stream))
    return 1;
  PyErr_Clear();
  return 0;
}

/* A destination that shares memory with another array is the general way's business. Numbers have empty spans. */
static inline __attribute__((always_inline)) int overlap(const aot_call *call) {
  const aot_plain *plain = call->callable->plain;
  const uint64_t *spans = call->spans;
  uint32_t count = call->callable->nargs;
  for (uint32_t i = 0; i < count; i++) {
    if (!plain[i].destination)
      continue;
    uint64_t low = spans[2 * i], high = spans[2 * i + 1];
    int hits = 0;
    for (uint32_t k = 0; k < count; k++)
      hits += (spans[2 * k] < high) & (low < spans[2 * k + 1]);
    if (AOT_UNLIKELY(hits > 1))                                /* with itself */
      return 1;
  }
  return 0;
}

static inline __attribute__((always_inline)) int call_plain(aot_call *call, PyObject **value) {
  const aot_callable *callable = call->callable;
  int taken = aot_plain_arguments(call);
  if (taken <= 0 || (callable->writes_values && overlap(call)))
    return taken < 0 ? -1 : 0;
  aot_frame frame;
  frame.function = callable->function;
  frame.stream = call->stream;
  frame.device = call->device;
  frame.python = call;
  frame.memory = aot_result_memory;
  if (!aot_run_familiar(&frame, aot_loaded_context(callable), call->slots))
    return 0;
  if (AOT_UNLIKELY(frame.code))
    aot_raise(frame.code, frame.message);
  else if (callable->returned >= 0)
    *value = Py_NewRef(call->args[callable->returned]);
  else
    *value = aot_outputs_return(call);
  return 1;
}

int aot_plain_call(aot_call *call, PyObject **value) { return call_plain(call, value); }

AOT_HOT int aot_plain_positional(const aot_callable *callable, PyObject *const *args, PyObject **value) {
  int64_t words[AOT_STACK_WORDS];
  size_t count = callable->nargs;
  aot_call call;
  call.callable = callable;
  call.args = args;
  call.words = words;
  call.slots = (void **)(words + callable->argument_words + callable->result_words);
  call.spans = (uint64_t *)(call.slots + count + callable->function->nresults);
  call.outputs = (aot_output *)(call.spans + 2 * count);
  call.stream_option = NULL;
  call.released = NULL;
  call.moved = NULL;
  if (callable->returned >= 0) {
    call.slots[count] = NULL;
    return call_plain(&call, value);
  }
  aot_lay_out_results(&call);
  int done = call_plain(&call, value);
  aot_outputs_drop(&call);
  return done;
}
