/* Calls from C: what the functions of the generated header have in common. In: arrays as DLPack describes them, and numbers by
 * address. Out: 0, or an error's number, whose text is this thread's until its next call. */
#include "c_call.h"
#include "native.h"
#include "rt.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPU = 1, CPU = 2 };

const char *aot_c_error(void) { return aot_last_error(); }

static int place_of(const dl_tensor *array) {
  int32_t type = array->device.type;
  return type == DL_CUDA || type == DL_CUDA_MANAGED ? GPU : type == DL_CPU || type == DL_CUDA_HOST ? CPU : 0;
}

static void set_number(aot_operand *operand, const aot_value *value, const void *number) {
  int is_signed = value->dl_code == AOT_DL_INT;
  if (value->dl_code == AOT_DL_COMPLEX) memcpy(operand->real, number, sizeof operand->real);
  else if (value->dl_code == AOT_DL_FLOAT || value->dl_code == AOT_DL_BFLOAT)
    operand->real[0] = value->storage == 8 ? *(const double *)number : (double)*(const float *)number;
  else if (value->storage == 1) operand->integer = is_signed ? (int64_t)*(const int8_t *)number : *(const uint8_t *)number;
  else if (value->storage == 2) operand->integer = is_signed ? (int64_t)*(const int16_t *)number : *(const uint16_t *)number;
  else if (value->storage == 4) operand->integer = is_signed ? (int64_t)*(const int32_t *)number : *(const uint32_t *)number;
  else memcpy(&operand->integer, number, 8);
}

/* GPU or CPU, and the GPU's number (-1: no array tells it); 0: the arrays are in different places, which aot_last_error() tells. */
static int find_place(const aot_function *function, const void *const *args, void *const *results, int32_t *device) {
  int place = 0;
  *device = -1;
  uint32_t count = (uint32_t)function->nargs + function->nresults;
  for (uint32_t i = 0; i < count; i++) {
    const aot_value *value = i < function->nargs ? &function->args[i] : &function->results[i - function->nargs];
    if (value->kind != AOT_ARRAY || value->alias >= 0) continue;
    const dl_tensor *array = i < function->nargs ? args[i] : results[i - function->nargs];
    int own = place_of(array), elsewhere = own == GPU && *device >= 0 && array->device.id != *device;
    if (!own || (place && own != place) || elsewhere) {
      char which[96];
      if (i < function->nargs) snprintf(which, sizeof which, "argument %u '%s'", i + 1, value->name);
      else snprintf(which, sizeof which, "result %u", i - function->nargs + 1);
      aot_set_error(AOT_E_LIMIT, "%s.%s(): %s has device {%d, %d}: all arrays must be on one CUDA device, or all in host memory",
                    function->source->name, function->name, which, (int)array->device.type, (int)array->device.id);
      return 0;
    }
    place = own;
    if (own == GPU) *device = array->device.id;
  }
  return place ? place : function->entry ? GPU : CPU;
}

int aot_c_call(const aot_function *function, const void *const *args, void *const *results, void *stream) {
  size_t count = (size_t)function->nargs + function->nresults;
  aot_native_call call = { .function = function, .stream = stream, .allocates = 1 };
  int place = find_place(function, args, results, &call.device);
  if (!place) return AOT_E_LIMIT;
  aot_operand *operands = calloc(count ? count : 1, sizeof *operands);
  if (!operands) return aot_set_error(AOT_E_NO_MEMORY, "no memory for the arguments");
  call.on_cpu = place == CPU;
  call.args = operands;
  call.results = operands + function->nargs;
  for (uint32_t i = 0; i < function->nargs; i++) {
    if (function->args[i].kind == AOT_ARRAY) aot_operand_is(&operands[i], args[i]);
    else set_number(&operands[i], &function->args[i], args[i]);
  }
  for (uint32_t k = 0; k < function->nresults; k++) {
    if (function->results[k].alias >= 0) continue;
    if (function->results[k].kind == AOT_ARRAY) aot_operand_is(&call.results[k], results[k]);
    else call.results[k].address = (uint64_t)(uintptr_t)results[k];
  }
  char message[AOT_MESSAGE_BYTES] = "";
  int code = aot_native_run(&call, message, sizeof message);
  for (uint32_t k = 0; !code && k < function->nresults; k++) {
    const aot_value *value = &function->results[k];
    dl_tensor *array = results[k];
    if (value->kind != AOT_ARRAY || value->alias >= 0 || array->data) continue;
    array->data = (void *)(uintptr_t)call.results[k].address;
    memcpy(array->shape, call.results[k].made, (size_t)value->rank * sizeof *array->shape);
  }
  free(operands);
  return code ? aot_set_error(code, "%s", message[0] ? message : aot_error_name(code)) : 0;
}

/* From any thread: freeing needs a context of the device, too. */
static int free_on_device(uint64_t address, int device, void *stream) {
  void *context, *restore;
  uint64_t id;
  int code = aot_context_enter(device, &context, &id, &restore);
  if (code) return code;
  code = aot_pool_free(address, stream);
  aot_context_leave(restore);
  return code;
}

int aot_c_free(dl_tensor *array, void *stream) {
  int code = 0;
  if (array->data && place_of(array) == GPU) code = free_on_device((uint64_t)(uintptr_t)array->data, array->device.id, stream);
  else free(array->data);
  if (!code) array->data = NULL;
  return code;
}
