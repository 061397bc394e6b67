/* Plain arrays in one pass. In: an argument whose type has the C exchange API. Out: its descriptor, or "not plain", and the general
 * way begins anew (py_arguments.c), which takes all the other arrays and has the words for those that are wrong.
 *
 * Plain is a row-major array with elements, of the argument's element type, rank and extents, on the call's GPU, writable as far as
 * the protocol says. What is accepted here must be what aot_check_array and aot_place_take accept: this is only quicker. */
#include "py.h"
#include <string.h>

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
  plain->rank = value->rank;
  plain->storage = value->storage;
  plain->misaligned = (value->dl_code == AOT_DL_COMPLEX ? value->storage / 2u : value->storage) - 1u;
  plain->dtype = plain->other = packed((dl_dtype){value->dl_code, value->dl_bits, 1});
  if (value->dl_code == AOT_DL_INT && !value->index)
    plain->other = packed((dl_dtype){AOT_DL_UINT, value->dl_bits, 1});
  plain->shape = NULL;
  for (int i = 0; i < value->rank; i++)
    if (value->shape[i] != AOT_DYNAMIC)
      plain->shape = value->shape;
}

/* Extents and strides into the descriptor; elements, or 0: not plain. */
static int64_t fill(const aot_plain *plain, const dl_tensor *tensor, int64_t *slot) {
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
static int is_lazy(PyObject *object, const aot_kind *kind, const dl_tensor *tensor, uint64_t address, int64_t count) {
  enum { KNOWN = 64 };
  static struct { PyObject *object; uint64_t address; } known[KNOWN];
  if (!kind->is_neg)
    return 0;
  unsigned place = (unsigned)(((uintptr_t)object >> 4 ^ (uintptr_t)object >> 10) % KNOWN);
  int remembers = count > 1 && tensor->dtype.code != AOT_DL_COMPLEX;
  if (remembers && known[place].object == object && known[place].address == address)
    return 0;
  int lazy = aot_is_lazy(object, kind, tensor->dtype);
  if (remembers && !lazy) {
    known[place].object = object;
    known[place].address = address;
  }
  return lazy;
}

int aot_plain_take(aot_call *call, uint32_t index, int64_t *slot) {
  PyObject *object = call->args[index];
  const aot_plain *plain = &call->callable->plain[index];
  const aot_kind *kind = &call->first_kind;
  aot_kind own;                                                /* frameworks may run Python code, which may ask for other kinds */
  if (call->first < 0 || kind->type != Py_TYPE(object)) {
    const aot_kind *found = aot_kind_of(object);
    if (!found)
      return -1;
    own = *found;
    kind = &own;
  }
  dl_tensor tensor;
  if (!kind->exchange || !kind->exchange->tensor_from_object || kind->immutable)
    return 0;
  if (kind->exchange->tensor_from_object(object, &tensor)) {
    PyErr_Clear();
    return 0;
  }
  uint32_t dtype = packed(tensor.dtype);
  if ((dtype != plain->dtype && dtype != plain->other) || tensor.rank != plain->rank || tensor.device.type != DL_CUDA ||
      (call->device >= 0 && tensor.device.id != call->device) || call->place == AOT_PLACE_CPU || tensor.device.id < 0)
    return 0;
  int64_t count = fill(plain, &tensor, slot + 3), bytes;
  uint64_t address = (uint64_t)(uintptr_t)tensor.data + tensor.byte_offset;
  if (!count || !address || address & plain->misaligned || __builtin_mul_overflow(count, (int64_t)plain->storage, &bytes))
    return 0;
  slot[0] = slot[1] = (int64_t)address;
  slot[2] = 0;
  call->spans[2 * index] = address;
  call->spans[2 * index + 1] = address + (uint64_t)bytes;
  int lazy = is_lazy(object, kind, &tensor, address, count);
  if (lazy)
    return lazy < 0 ? -1 : 0;
  if (call->first < 0) {
    call->first = (int32_t)index;
    call->first_object = object;
    call->first_kind = own;
  }
  if (call->device < 0) {
    call->device = tensor.device.id;
    call->device_argument = (int32_t)index;
  }
  if (call->place == AOT_PLACE_UNKNOWN) {
    call->place = AOT_PLACE_GPU;
    call->place_argument = (int32_t)index;
  }
  return 1;
}
