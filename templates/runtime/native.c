/* A host function's call without Python. In: operands that say where their memory is. Out: work on the stream, or done on the CPU.
 *
 * Arrays are checked against the signature as Python's are; destinations and results may not share memory with arguments here. */
#include "native.h"
#include "rt.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

float __truncdfhf2(double value);
float __truncdfbf2(double value);

enum { WORDS = 512, ALIGNMENT = 64 };
typedef struct { char *message; size_t size; } text;

static int say(const text *out, const aot_native_call *call, uint32_t index, int is_result, const char *problem) {
  const aot_function *function = call->function;
  const aot_value *value = is_result ? &function->results[index] : &function->args[index];
  if (is_result)
    snprintf(out->message, out->size, "%s.%s(): result %u, %s: %s", function->source->name, function->name, (unsigned)index + 1, value->type, problem);
  else
    snprintf(out->message, out->size, "%s.%s(): argument %u '%s', %s: %s", function->source->name, function->name, (unsigned)index + 1, value->name,
             value->type, problem);
  return AOT_E_LIMIT;
}

/* ------------------------------------------------------------------ arrays */

void aot_operand_is(aot_operand *operand, const dl_tensor *array) {
  operand->address = array->data ? (uint64_t)(uintptr_t)array->data + array->byte_offset : 0;
  operand->shape = array->shape;
  operand->strides = array->strides;
  operand->rank = array->rank;
  operand->code = array->dtype.code;
  operand->bits = array->dtype.lanes == 1 ? array->dtype.bits : 0;
}

static int is_row_major(const aot_operand *array) {
  int64_t expected = 1;
  for (int32_t i = array->rank - 1; array->strides && i >= 0; i--) {
    if (array->shape[i] == 0) return 1;
    if (array->shape[i] != 1 && array->strides[i] != expected) return 0;
    expected *= array->shape[i];
  }
  return 1;
}

static const char *problem_of(const aot_value *value, const aot_operand *array) {
  int fits = array->bits == value->dl_bits &&
             (array->code == value->dl_code || (value->dl_code == AOT_DL_INT && array->code == AOT_DL_UINT && !value->index));
  if (!fits) return "got another element type";
  if (array->rank != value->rank) return "got another rank";
  int64_t bytes = value->storage, dense = 1;
  int count = 1;                                               /* 0: no elements; strides are products of the other extents then, too */
  for (int32_t i = 0; i < array->rank; i++) {
    count = count && array->shape[i];
    if (array->shape[i] < 0 || (array->shape[i] && __builtin_mul_overflow(bytes, array->shape[i], &bytes))) return "got extents that no array has";
    if (value->shape[i] != AOT_DYNAMIC && value->shape[i] != array->shape[i]) return "got another extent";
  }
  if (!value->strides && !is_row_major(array)) return "got an array that is not contiguous (row-major)";
  for (int32_t i = array->rank - 1; value->strides && count && i >= 0; i--) {
    int64_t stride = array->strides ? array->strides[i] : dense;
    if (value->strides[i] != AOT_DYNAMIC && array->shape[i] != 1 && stride != value->strides[i]) return "got strides that do not fit";
    dense *= array->shape[i];
  }
  uint64_t alignment = value->dl_code == AOT_DL_COMPLEX ? value->storage / 2 : value->storage;
  if (count && !array->address) return "got no memory";
  return count && array->address % alignment ? "got an address that is no multiple of the element's size" : NULL;
}

static void describe(const aot_value *value, const aot_operand *array, int64_t *descriptor) {
  int64_t offset = value->offset == AOT_DYNAMIC ? 0 : value->offset, dense = 1;
  descriptor[0] = descriptor[1] = (int64_t)array->address - offset * value->storage;
  descriptor[2] = offset;
  for (int32_t i = value->rank - 1; i >= 0; i--) {
    descriptor[3 + i] = array->shape[i];
    descriptor[3 + value->rank + i] = value->strides && array->strides ? array->strides[i] : dense;
    dense *= array->shape[i];
  }
}

static void address_range(const aot_value *value, const aot_operand *array, uint64_t *low, uint64_t *high) {
  int64_t first = 0, last = 0, dense = 1;
  *low = *high = 0;
  for (int32_t i = array->rank - 1; i >= 0; i--) {
    if (!array->shape[i]) return;
    int64_t step = array->strides ? array->strides[i] : dense;
    *(step < 0 ? &first : &last) += (array->shape[i] - 1) * step;
    dense *= array->shape[i];
  }
  *low = array->address + (uint64_t)(first * value->storage);
  *high = array->address + (uint64_t)((last + 1) * value->storage);
}

/* Whether the memory meets that of an argument other than `but`. */
static int meets(const aot_native_call *call, uint32_t but, uint64_t low, uint64_t high) {
  const aot_function *function = call->function;
  for (uint32_t k = 0; k < function->nargs; k++) {
    uint64_t from, to;
    if (k == but || function->args[k].kind != AOT_ARRAY) continue;
    address_range(&function->args[k], &call->args[k], &from, &to);
    if (from < high && low < to) return 1;
  }
  return 0;
}

static int check_overlaps(const aot_native_call *call, const text *out) {
  const aot_function *function = call->function;
  uint64_t low, high;
  for (uint32_t i = 0; i < function->nargs; i++) {
    if (function->args[i].role != AOT_DESTINATION) continue;
    address_range(&function->args[i], &call->args[i], &low, &high);
    if (meets(call, i, low, high)) return say(out, call, i, 0, "shares memory with another argument");
  }
  for (uint32_t k = 0; k < function->nresults; k++) {
    if (function->results[k].kind != AOT_ARRAY || function->results[k].alias >= 0 || !call->results[k].address) continue;
    address_range(&function->results[k], &call->results[k], &low, &high);
    if (meets(call, UINT32_MAX, low, high)) return say(out, call, k, 1, "its memory is that of an argument");
  }
  return 0;
}

/* ------------------------------------------------------------------ numbers */

static int store_integer(const aot_value *value, int64_t number, void *slot) {
  int64_t low = 0, high = 1;
  if (value->dl_code == AOT_DL_INT) high = (int64_t)((1ull << (value->dl_bits - 1)) - 1), low = -high - 1;
  else if (value->dl_code == AOT_DL_UINT) high = value->dl_bits == 64 ? INT64_MAX : (int64_t)((1ull << value->dl_bits) - 1);
  memcpy(slot, &number, value->storage);
  return value->dl_code != AOT_DL_PTR && (number < low || number > high);
}

static int store_half(const aot_value *value, double number, void *slot) {
  int bfloat = value->dl_code == AOT_DL_BFLOAT;
  float half = bfloat ? __truncdfbf2(number) : __truncdfhf2(number);
  uint16_t bits;
  memcpy(&bits, &half, sizeof bits);                           /* the low 16 bits of the register */
  memcpy(slot, &bits, sizeof bits);
  return !isinf(number) && (bits & 0x7fff) == (bfloat ? 0x7f80 : 0x7c00);
}

/* 1: out of the type's range. */
static int store_number(const aot_value *value, const aot_operand *number, void *slot) {
  const double *wide = number->real;
  float narrow[2] = { (float)wide[0], (float)wide[1] };
  int parts = value->dl_code == AOT_DL_COMPLEX ? 2 : 1, lost = 0;
  if (parts == 1 && value->dl_code != AOT_DL_FLOAT && value->dl_code != AOT_DL_BFLOAT) return store_integer(value, number->integer, slot);
  if (value->storage == 2) return store_half(value, wide[0], slot);
  int whole = value->storage == 8 * parts;
  memcpy(slot, whole ? (const void *)wide : narrow, value->storage);
  for (int i = 0; !whole && i < parts; i++) lost |= isinf(narrow[i]) && !isinf(wide[i]);
  return lost;
}

/* As memset nodes where the stream is captured: a copy would read this stack at every replay. */
static int number_to_device(uint64_t address, const void *slot, size_t bytes, CUstream stream) {
  uint32_t words[4] = { 0, 0, 0, 0 };
  memcpy(words, slot, bytes);
  if (bytes == 1) return aot_cu.cuMemsetD8Async(address, (unsigned char)words[0], 1, stream);
  if (bytes == 2) return aot_cu.cuMemsetD16Async(address, (unsigned short)words[0], 1, stream);
  int code = 0;
  for (size_t i = 0; !code && i < bytes / 4; i++) code = aot_cu.cuMemsetD32Async(address + 4 * i, words[i], 1, stream);
  return code;
}

/* ------------------------------------------------------------------ the call */

/* Memory of result k, as aot_result_memory is for Python. */
static int give_memory(aot_frame *frame, int64_t k, int64_t bytes, uint64_t *address) {
  aot_native_call *call = frame->python;
  aot_operand *result = &call->results[k];
  const aot_value *value = &call->function->results[k];
  if (result->address || !call->allocates) {
    for (int i = 0; i < value->rank; i++)
      if (result->shape[i] != frame->extents[i])
        return aot_record(frame, AOT_E_SIZE, "%s.%s(): result %lld is %lld long in dimension %d, its memory is for %lld", call->function->source->name,
                          call->function->name, (long long)k + 1, (long long)frame->extents[i], i, (long long)result->shape[i]);
    *address = result->address;
    return 0;
  }
  memcpy(result->made, frame->extents, sizeof result->made);
  void *made = NULL;
  int code = 0;
  if (call->on_cpu) code = posix_memalign(&made, ALIGNMENT, bytes ? (size_t)bytes : 1) ? AOT_E_NO_MEMORY : 0;
  else code = aot_pool_alloc(frame->device, frame->stream, bytes, address);
  if (code) return aot_record(frame, code, "%s", call->on_cpu ? "no host memory for a result" : aot_last_error());
  if (call->on_cpu) *address = (uint64_t)(uintptr_t)made;
  result->address = *address;
  result->owned = 1;
  return 0;
}

/* What a call that failed had allocated for its results. */
static void take_memory_back(aot_native_call *call) {
  for (uint32_t k = 0; k < call->function->nresults; k++) {
    aot_operand *result = &call->results[k];
    if (!result->owned) continue;
    if (call->on_cpu) free((void *)(uintptr_t)result->address);
    else (void)aot_pool_free(result->address, call->stream);   /* the call's own error is the one to tell */
    result->address = result->owned = 0;
  }
}

static int read_arguments(aot_native_call *call, int64_t *word, void **slots, const text *out) {
  const aot_function *function = call->function;
  for (uint32_t i = 0; i < function->nargs; i++) {
    const aot_value *value = &function->args[i];
    slots[i] = word;
    if (value->kind == AOT_ARRAY) {
      const char *problem = problem_of(value, &call->args[i]);
      if (problem) return say(out, call, i, 0, problem);
      describe(value, &call->args[i], word);
      word += 3 + 2 * value->rank;
    } else {
      if (store_number(value, &call->args[i], word)) return say(out, call, i, 0, "got a number out of its range");
      word += 2;
    }
  }
  for (uint32_t k = 0; k < function->nresults; k++) {
    const aot_value *value = &function->results[k];
    aot_operand *result = &call->results[k];
    slots[function->nargs + k] = value->alias < 0 ? word : NULL;
    int is_given = value->alias < 0 && value->kind == AOT_ARRAY && (result->address || !call->allocates);
    const char *problem = is_given ? problem_of(value, result) : NULL;
    if (problem) return say(out, call, k, 1, problem);
    word += value->kind == AOT_ARRAY ? 3 + 2 * value->rank : 2;
  }
  return check_overlaps(call, out);
}

static int write_numbers(aot_native_call *call, void **slots, CUstream stream) {
  const aot_function *function = call->function;
  int code = 0;
  for (uint32_t k = 0; !code && k < function->nresults; k++) {
    const aot_value *value = &function->results[k];
    const void *slot = slots[function->nargs + k];
    if (value->kind == AOT_ARRAY || value->alias >= 0) continue;
    if (call->numbers_on_device) code = number_to_device(call->results[k].address, slot, value->storage, stream);
    else memcpy((void *)(uintptr_t)call->results[k].address, slot, value->storage);
  }
  return code;
}

static int run_on_cpu(aot_native_call *call, aot_frame *frame, void **slots, const text *out) {
  aot_entry entry = aot_cpu_entry(call->function);
  if (!entry) {
    snprintf(out->message, out->size, "%s.%s() has no code for this CPU", call->function->source->name, call->function->name);
    return AOT_E_UNSUPPORTED;
  }
  frame->context = frame->stream = NULL;
  frame->context_id = 0;
  frame->device = -1;
  aot_push(frame);
  int code = aot_run_cpu(frame, entry, slots);
  aot_pop(frame);
  if (!code) return write_numbers(call, slots, NULL);
  snprintf(out->message, out->size, "%s", frame->message);
  take_memory_back(call);
  return code;
}

static int run_in_context(aot_native_call *call, aot_frame *frame, void **slots, const text *out) {
  const aot_source *source = call->function->source;
  int code = source->blob ? aot_module_load(source, frame->context_id, out->message, out->size) : 0;
  if (code) return code;
  aot_push(frame);
  code = aot_run(frame, slots);
  if (code) snprintf(out->message, out->size, "%s", frame->message);
  else if ((code = write_numbers(call, slots, call->stream))) aot_explain(out->message, out->size, code, "cuMemsetD32Async");
  aot_pop(frame);
  if (code) take_memory_back(call);
  return code;
}

/* The device that a call on a GPU runs on: 0, or a code with its text in aot_last_error(). */
static int find_device(const aot_native_call *call, int *device) {
  int code = aot_stream_device(call->stream, device);
  if (code || call->device < 0) return code || *device >= 0 ? code : aot_current_device(device);
  if (*device >= 0 && *device != call->device)
    return aot_set_error(AOT_E_LIMIT, "%s.%s(): the stream is of device %d, the arrays are on device %d", call->function->source->name,
                         call->function->name, *device, (int)call->device);
  *device = call->device;
  return 0;
}

static int run_on_gpu(aot_native_call *call, aot_frame *frame, void **slots, const text *out) {
  void *restore = NULL;
  int device = -1, code = aot_driver(out->message, out->size);
  if (code) return code;
  if (!call->function->entry) {
    snprintf(out->message, out->size, "%s.%s() has no GPU code", call->function->source->name, call->function->name);
    return AOT_E_UNSUPPORTED;
  }
  code = find_device(call, &device);
  if (!code) code = aot_context_enter(device, &frame->context, &frame->context_id, &restore);
  if (code) {
    snprintf(out->message, out->size, "%s", aot_last_error());
    return code;
  }
  frame->stream = call->stream;
  frame->device = device;
  code = run_in_context(call, frame, slots, out);
  aot_context_leave(restore);
  return code;
}

int aot_native_run(aot_native_call *call, char *message, size_t size) {
  const aot_function *function = call->function;
  const text out = { message, size };
  size_t words = 0, slots = (size_t)function->nargs + function->nresults;
  for (uint32_t i = 0; i < function->nargs; i++) words += function->args[i].kind == AOT_ARRAY ? 3 + 2 * (size_t)function->args[i].rank : 2;
  for (uint32_t k = 0; k < function->nresults; k++) words += function->results[k].kind == AOT_ARRAY ? 3 + 2 * (size_t)function->results[k].rank : 2;
  int64_t small[WORDS], *memory = small;
  if (words + slots > WORDS && !(memory = malloc((words + slots) * sizeof *memory))) {
    snprintf(message, size, "no memory for the arguments");
    return AOT_E_NO_MEMORY;
  }
  void **addresses = (void **)(memory + words);
  aot_frame frame;
  frame.function = function;
  frame.python = call;
  frame.memory = give_memory;
  int code = read_arguments(call, memory, addresses, &out);
  if (!code) code = (call->on_cpu ? run_on_cpu : run_on_gpu)(call, &frame, addresses, &out);
  if (memory != small) free(memory);
  return code;
}
