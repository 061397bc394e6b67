/* tvm-ffi's C ABI. In: packed arguments, in the order of the function's and with an array for each new one behind them. Out: 0, or -1
 * with tvm-ffi's error set. Own declarations of what is needed; the library that calls us is loaded already, so its two functions
 * are looked up where they are needed. */
#include "ffi_tvm.h"
#include "native.h"
#include "rt.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTEGER = 1, BOOLEAN = 2, REAL = 3, TENSOR_POINTER = 7, TENSOR = 70, OBJECT_HEADER = 24 };

static void *library_entry(const char *name) {
  void *library = dlopen("libtvm_ffi.so", RTLD_NOW | RTLD_NOLOAD);
  return dlsym(library ? library : RTLD_DEFAULT, name);
}

static int fail(const char *kind, const char *message) {
  void (*raise)(const char *, const char *) = (void (*)(const char *, const char *))(uintptr_t)library_entry("TVMFFIErrorSetRaisedFromCStr");
  if (raise) raise(kind, message);
  return -1;
}

static const dl_tensor *tensor_of(const aot_tvm_any *value) {
  if (value->type == TENSOR_POINTER) return value->value.pointer;
  return value->type == TENSOR ? (const dl_tensor *)((const char *)value->value.pointer + OBJECT_HEADER) : NULL;
}

static void *current_stream(int32_t device) {
  typedef void *getter(int32_t type, int32_t device);
  static getter *known;                                        /* several threads may look it up at once: they find the same */
  getter *get = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (!get) __atomic_store_n(&known, get = (getter *)(uintptr_t)library_entry("TVMFFIEnvGetStream"), __ATOMIC_RELAXED);
  return get ? get(DL_CUDA, device) : NULL;
}

/* 0, or what is wrong with it. The first array says where the call runs. */
static const char *set_array(aot_native_call *call, aot_operand *operand, const aot_tvm_any *value, const dl_tensor **first) {
  const dl_tensor *tensor = tensor_of(value);
  if (!tensor) return "an array is needed";
  if (!*first) {
    *first = tensor;
    call->on_cpu = tensor->device.type != DL_CUDA && tensor->device.type != DL_CUDA_MANAGED;
    call->stream = call->on_cpu ? NULL : current_stream(tensor->device.id);
    call->device = tensor->device.id;
  }
  if (tensor->device.type != (*first)->device.type || tensor->device.id != (*first)->device.id) return "all arrays must be on one device";
  aot_operand_is(operand, tensor);
  return NULL;
}

static const char *set_tvm_number(aot_operand *operand, const aot_value *value, const aot_tvm_any *number) {
  int is_real = value->dl_code == AOT_DL_FLOAT || value->dl_code == AOT_DL_BFLOAT;
  int is_integer = number->type == INTEGER || number->type == BOOLEAN;
  if (!is_integer && !(is_real && number->type == REAL)) return is_real ? "a float is needed" : "an int is needed";
  operand->integer = number->value.integer;
  operand->real[0] = is_integer ? (double)number->value.integer : number->value.real;
  return NULL;
}

static const char *set_tvm_operands(aot_native_call *call, aot_operand *operands, const aot_tvm_any *args, uint32_t *at) {
  const aot_function *function = call->function;
  const dl_tensor *first = NULL;
  const char *wrong = NULL;
  for (*at = 0; !wrong && *at < function->nargs; ++*at) {
    const aot_value *value = &function->args[*at];
    wrong = value->kind == AOT_ARRAY ? set_array(call, &operands[*at], &args[*at], &first) : set_tvm_number(&operands[*at], value, &args[*at]);
  }
  for (uint32_t k = 0; !wrong && k < function->nresults; k++)
    if (function->results[k].kind == AOT_ARRAY && function->results[k].alias < 0) wrong = set_array(call, &call->results[k], &args[(*at)++], &first);
  return wrong;
}

/* At most one number comes back as the call's value. */
static int set_result(const aot_function *function, const void *slot, const aot_value *value, aot_tvm_any *result) {
  int64_t integer = 0;
  float single;
  memcpy(&integer, slot, value->storage);
  memcpy(&single, slot, sizeof single);
  *result = (aot_tvm_any){ .type = value->dl_code == AOT_DL_BOOL ? BOOLEAN : INTEGER, .value.integer = integer };
  if (value->dl_code == AOT_DL_INT) result->value.integer = (int64_t)((uint64_t)integer << (64 - value->dl_bits)) >> (64 - value->dl_bits);
  if (value->dl_code != AOT_DL_FLOAT) return value->dl_code <= AOT_DL_UINT || value->dl_code == AOT_DL_BOOL ? 0 : fail("TypeError", function->name);
  result->type = REAL;
  if (value->storage == 8) memcpy(&result->value.real, slot, 8);
  else result->value.real = value->storage == 4 ? (double)single : 0;
  return value->storage >= 4 ? 0 : fail("TypeError", function->name);
}

static int run_tvm(aot_native_call *call, aot_operand *operands, const aot_tvm_any *args, int32_t count, aot_tvm_any *result) {
  const aot_function *function = call->function;
  char message[AOT_MESSAGE_BYTES] = "", text[AOT_MESSAGE_BYTES + 128];
  const aot_value *number = NULL;
  int64_t slot[2] = { 0, 0 };
  uint32_t at = 0, expected = function->nargs;
  for (uint32_t k = 0; k < function->nresults; k++) {
    const aot_value *value = &function->results[k];
    expected += value->kind == AOT_ARRAY && value->alias < 0;
    if (value->kind == AOT_ARRAY) continue;
    if (number) return fail("TypeError", "functions that return several numbers cannot be called through tvm-ffi");
    number = value;
    call->results[k].address = (uint64_t)(uintptr_t)slot;
  }
  if (count < 0 || (uint32_t)count != expected) {
    snprintf(text, sizeof text, "%s.%s() takes %u arguments, arrays for its results among them, got %d", function->source->name, function->name,
             (unsigned)expected, (int)count);
    return fail("TypeError", text);
  }
  const char *wrong = set_tvm_operands(call, operands, args, &at);
  if (wrong) {
    snprintf(text, sizeof text, "%s.%s() argument %u: %s", function->source->name, function->name, (unsigned)at, wrong);
    return fail("TypeError", text);
  }
  int code = aot_native_run(call, message, sizeof message);
  if (code) return fail(code == AOT_E_LIMIT || code == AOT_E_SIZE ? "ValueError" : "RuntimeError", message[0] ? message : aot_error_name(code));
  return number ? set_result(function, slot, number, result) : 0;
}

int aot_tvm_call(const aot_function *function, const aot_tvm_any *args, int32_t count, aot_tvm_any *result) {
  size_t all = (size_t)function->nargs + function->nresults;
  aot_operand *operands = calloc(all ? all : 1, sizeof *operands);
  if (!operands) return fail("MemoryError", "no memory for the arguments");
  aot_native_call call = { .function = function, .device = -1, .on_cpu = !function->entry, .args = operands, .results = operands + function->nargs };
  *result = (aot_tvm_any){ 0 };
  int status = run_tvm(&call, operands, args, count, result);
  free(operands);
  return status;
}
