/* XLA's foreign function interface. In: a call frame of XLA. Out: the host function's work on XLA's stream, or on the CPU.
 *
 * One handler serves all functions: the attribute `function` is a number, counted through all sources, and numbers that go in are
 * attributes n0, n1, ... by argument. Outputs are the results that are no arguments, in order, and then every argument that may be
 * written, each in the memory of its input (jax.py says so to XLA; where it is not, it is copied). */
#include "ffi_xla.h"
#include "native.h"
#include "rt.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAJOR = 0, MINOR = 1 };

static void *error_of(const xla_frame *frame, int code, const char *message) {
  xla_error_arguments arguments = { .size = offsetof(xla_error_arguments, code) + sizeof(int), .message = message, .code = code };
  return frame->api->error_create(&arguments);
}

/* XLA's element types as DLPack's; bits 0: none that we know. */
static void set_dtype(aot_operand *operand, int dtype) {
  static const struct { uint8_t code, bits; } types[] = {
    [1] = { AOT_DL_BOOL, 8 }, [2] = { AOT_DL_INT, 8 }, [3] = { AOT_DL_INT, 16 }, [4] = { AOT_DL_INT, 32 }, [5] = { AOT_DL_INT, 64 },
    [6] = { AOT_DL_UINT, 8 }, [7] = { AOT_DL_UINT, 16 }, [8] = { AOT_DL_UINT, 32 }, [9] = { AOT_DL_UINT, 64 }, [10] = { AOT_DL_FLOAT, 16 },
    [11] = { AOT_DL_FLOAT, 32 }, [12] = { AOT_DL_FLOAT, 64 }, [15] = { AOT_DL_COMPLEX, 64 }, [16] = { AOT_DL_BFLOAT, 16 },
    [18] = { AOT_DL_COMPLEX, 128 }, [19] = { AOT_DL_F8E5M2, 8 }, [20] = { AOT_DL_F8E4M3FN, 8 }, [23] = { AOT_DL_F8E4M3B11FNUZ, 8 },
    [24] = { AOT_DL_F8E5M2FNUZ, 8 }, [25] = { AOT_DL_F8E4M3FNUZ, 8 }, [28] = { AOT_DL_F8E4M3, 8 }, [29] = { AOT_DL_F8E3M4, 8 },
    [33] = { AOT_DL_F8E8M0FNU, 8 } };
  int known = dtype >= 0 && (size_t)dtype < sizeof types / sizeof *types;
  operand->code = known ? types[dtype].code : 0;
  operand->bits = known ? types[dtype].bits : 0;
}

static void set_buffer(aot_operand *operand, const xla_buffer *buffer) {
  operand->address = (uint64_t)(uintptr_t)buffer->data;
  operand->shape = buffer->dims;
  operand->strides = NULL;
  operand->rank = (int32_t)buffer->rank;
  set_dtype(operand, buffer->dtype);
}

static int64_t bytes_of(const xla_buffer *buffer, const aot_value *value) {
  int64_t bytes = value->storage;
  for (int64_t i = 0; i < buffer->rank; i++) bytes *= buffer->dims[i];
  return bytes;
}

static const xla_scalar *find_attribute(const xla_frame *frame, const char *name) {
  for (int64_t i = 0; i < frame->attributes.count; i++) {
    const xla_span *span = frame->attributes.names[i];
    if (frame->attributes.types[i] == XLA_SCALAR && span->length == strlen(name) && !memcmp(span->text, name, span->length))
      return frame->attributes.values[i];
  }
  return NULL;
}

static const aot_function *find_function(const xla_frame *frame) {
  const xla_scalar *number = find_attribute(frame, "function");
  int64_t left = number && number->dtype == XLA_S64 ? *(const int64_t *)number->value : -1;
  for (uint32_t i = 0; left >= 0 && i < aot_this_package.nsources; i++) {
    const aot_source *source = aot_this_package.sources[i];
    if (left < source->nfunctions) return &source->functions[left];
    left -= source->nfunctions;
  }
  return NULL;
}

static int set_xla_number(const xla_frame *frame, uint32_t index, aot_operand *operand) {
  char name[16];
  snprintf(name, sizeof name, "n%u", (unsigned)index);
  const xla_scalar *number = find_attribute(frame, name);
  if (!number || (number->dtype != XLA_S64 && number->dtype != XLA_F64)) return -1;
  operand->real[1] = 0;
  if (number->dtype == XLA_S64) memcpy(&operand->integer, number->value, 8);
  else memcpy(&operand->real[0], number->value, 8);
  return 0;
}

/* 0, or a code with its text in aot_last_error(). */
static int copy_input(const aot_native_call *call, uint64_t to, uint64_t from, int64_t bytes) {
  if (to == from || !bytes) return 0;
  if (call->on_cpu) {
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, (size_t)bytes);
    return 0;
  }
  int code = aot_driver_state();
  if (code) return code;
  code = aot_cu.cuMemcpyAsync(to, from, (size_t)bytes, call->stream);
  return code ? aot_set_driver_error(code, "cuMemcpyAsync") : 0;
}

static int not_its_buffers(const aot_function *function) {
  return aot_set_error(AOT_E_LIMIT, "%s.%s(): XLA's buffers are not those of the function", function->source->name, function->name);
}

/* 0, or a code with its text in aot_last_error(). */
static int set_xla_operands(const xla_frame *frame, const aot_native_call *call, aot_operand *args, aot_operand *results) {
  const aot_function *function = call->function;
  int64_t in = 0, out = 0;
  for (uint32_t k = 0; k < function->nresults; k++) {
    if (function->results[k].alias >= 0) continue;
    if (out == frame->results.count) return not_its_buffers(function);
    set_buffer(&results[k], frame->results.values[out++]);
  }
  for (uint32_t i = 0; i < function->nargs; i++) {
    const aot_value *value = &function->args[i];
    if (value->kind != AOT_ARRAY) {
      if (set_xla_number(frame, i, &args[i])) return not_its_buffers(function);
      continue;
    }
    if (in == frame->args.count || frame->args.types[in] != XLA_BUFFER) return not_its_buffers(function);
    const xla_buffer *buffer = frame->args.values[in++];
    set_buffer(&args[i], buffer);
    if (value->role == AOT_IN) continue;
    if (out == frame->results.count) return not_its_buffers(function);
    const xla_buffer *written = frame->results.values[out++];
    int code = copy_input(call, (uint64_t)(uintptr_t)written->data, args[i].address, bytes_of(buffer, value));
    if (code) return code;
    args[i].address = (uint64_t)(uintptr_t)written->data;
  }
  return in == frame->args.count && out == frame->results.count ? 0 : not_its_buffers(function);
}

static void *run_xla(const xla_frame *frame, aot_native_call *call, aot_operand *operands) {
  char message[AOT_MESSAGE_BYTES] = "";
  call->args = operands;
  call->results = operands + call->function->nargs;
  int code = set_xla_operands(frame, call, operands, call->results);
  if (code) snprintf(message, sizeof message, "%s", aot_last_error());
  else code = aot_native_run(call, message, sizeof message);
  if (!code) return NULL;
  return error_of(frame, code == AOT_E_LIMIT || code == AOT_E_SIZE ? XLA_INVALID_ARGUMENT : XLA_INTERNAL, message[0] ? message : aot_error_name(code));
}

/* XLA asks each handler for its version before anything else. */
static int tell_version(const xla_frame *frame) {
  for (xla_extension *each = frame->extensions; each; each = each->next) {
    if (each->type != XLA_METADATA) continue;
    xla_metadata *metadata = ((xla_metadata_extension *)each)->metadata;
    metadata->version.major = MAJOR;
    metadata->version.minor = MINOR;
    metadata->traits = 0;
    return 1;
  }
  return 0;
}

static void *handle(const xla_frame *frame, int on_cpu) {
  if (tell_version(frame)) return NULL;
  aot_native_call call = { .function = find_function(frame), .device = -1, .on_cpu = (uint8_t)on_cpu, .numbers_on_device = !on_cpu };
  if (frame->stage != XLA_EXECUTE) return NULL;
  if (!call.function) return error_of(frame, XLA_INVALID_ARGUMENT, "XLA asks for a function that the package does not have");
  if (!on_cpu) {
    xla_stream_arguments arguments = { .size = sizeof arguments, .context = frame->context };
    void *failed = frame->api->stream_get(&arguments);
    if (failed) return failed;
    call.stream = arguments.stream;
  }
  size_t count = (size_t)call.function->nargs + call.function->nresults;
  aot_operand *operands = calloc(count ? count : 1, sizeof *operands);
  if (!operands) return error_of(frame, XLA_INTERNAL, "no memory for the arguments");
  void *failed = run_xla(frame, &call, operands);
  free(operands);
  return failed;
}

void *aot_xla_cpu(const void *frame) { return handle(frame, 1); }
void *aot_xla_gpu(const void *frame) { return handle(frame, 0); }
