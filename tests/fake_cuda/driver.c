/* Plays compiled host code for the tests of the runtime core: a function whose body is a script.
 *
 *   test_call("alloc 400 | launch 0 2 1 1 64 1 1 | free $0", flags, device, stream, ...)
 *
 * Each command calls one function that compiled host code calls. Numbers are decimal; $n is what the nth command returned. */
#define _GNU_SOURCE
#include "c_call.h"
#include "ffi_xla.h"
#include "native.h"
#include "rt.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *mgpuModuleLoad(void *, size_t);
void *mgpuModuleGetFunction(void *, const char *);
void mgpuLaunchKernel(void *, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, int32_t, void *, void **, void **, size_t);
void mgpuLaunchClusterKernel(void *, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, int32_t,
                             void *, void **, void **);
void *mgpuStreamCreate(void); void mgpuStreamDestroy(void *); void mgpuStreamSynchronize(void *); void mgpuStreamWaitEvent(void *, void *);
void *mgpuEventCreate(void); void mgpuEventDestroy(void *); void mgpuEventSynchronize(void *); void mgpuEventRecord(void *, void *);
void *mgpuMemAlloc(uint64_t, void *, _Bool); void mgpuMemFree(void *, void *); void mgpuMemcpy(void *, void *, size_t, void *);
void mgpuMemset32(void *, unsigned, size_t, void *); void mgpuMemset16(void *, unsigned short, size_t, void *);
void mgpuMemHostRegisterMemRef(int64_t, void *, int64_t); void mgpuMemHostUnregisterMemRef(int64_t, void *, int64_t);
void mgpuSetDefaultDevice(int32_t);
void *mgpuTensorMapEncodeTiledMemref(int64_t, void *, int, int, int, int, int, int64_t *);
void *mlirAsyncRuntimeCreateToken(void); void mlirAsyncRuntimeAwaitToken(void *); void *mlirAsyncRuntimeCreateValue(int64_t);
void mlirAsyncRuntimeEmplaceToken(void *); void mlirAsyncRuntimeDropRef(void *, int64_t);
void mlirAsyncRuntimeAwaitTokenAndExecute(void *, void *, void (*)(void *));
void *mlirAsyncRuntimeCreateGroup(int64_t); int64_t mlirAsyncRuntimeAddTokenToGroup(void *, void *);
void mlirAsyncRuntimeAwaitAllInGroupAndExecute(void *, void *, void (*)(void *)); void mlirAsyncRuntimeAwaitAllInGroup(void *);
void mlirAsyncRuntimeSetTokenError(void *); _Bool mlirAsyncRuntimeIsTokenError(void *); _Bool mlirAsyncRuntimeIsGroupError(void *);
#define SHOWN(X) X(I8) X(I16) X(I32) X(I64) X(Ind) X(F16) X(BF16) X(F32) X(F64) X(C32) X(C64)
#define DECLARE_PRINT(t) void printMemref##t(int64_t, void *); void _mlir_ciface_printMemref##t(void *);
SHOWN(DECLARE_PRINT)
void printString(const char *); void printI64(int64_t); void printU64(uint64_t); void printF16(uint16_t); void printBF16(uint16_t);
void printF32(float); void printF64(double); void printOpen(void); void printClose(void); void printComma(void); void printNewline(void);
void memrefCopy(int64_t, void *, void *);

/* ------------------------------------------------------------------ tables, as the generator writes them */

static const unsigned char blob[16] __attribute__((aligned(16))) = "blob";
static const aot_image images[] = { { "sm_80", "sm_80", "cubin" }, { "sm_90", "sm_90a", "cubin" } };
static const char *const messages[] = { "sizes differ", "x ({}) and {} of {}{} {{}} in a{}.mlir, {}" };
static aot_state state, other_state;
extern aot_source source, other_source;
static const aot_kernel kernels[] = {
  { .symbol = "m__square", .name = "square", .source = &source, .callable = 1 },
  { .symbol = "m__fixed", .name = "fixed", .source = &source, .required_block = { 128, 1, 1 }, .how = { .programmatic = 1 } },
  { .symbol = "m__hopper_only", .name = "hopper_only", .source = &source, .needs = 90 << 8 | 'a' },
};
extern const aot_function natives[2];
aot_source source = { .name = "kernels", .blob = blob, .blob_bytes = sizeof blob, .kernels = kernels, .nkernels = 3, .functions = natives,
                            .nfunctions = 2, .images = images, .nimages = 2, .messages = messages, .state = &state };
aot_source other_source = { .name = "other", .blob = blob, .blob_bytes = sizeof blob, .kernels = kernels, .nkernels = 1,
                                  .images = images, .nimages = 2, .state = &other_state };
static const aot_source *const sources[] = { &source, &other_source };
const aot_package aot_this_package = { .name = "pack", .version = "1.0", .toolchain = "ptxas 13.5, MLIR 22.1.8", .min_driver_cuda = 13000,
                                       .sources = sources, .nsources = 2 };
static void *registered_module;
void test_use_image(void *image) {                             /* a real one, for a real driver */
  source.blob = other_source.blob = image;
  registered_module = mgpuModuleLoad(image, 0);
}
__attribute__((constructor)) static void like_static_code(void) { registered_module = mgpuModuleLoad((void *)blob, sizeof blob); }

/* ------------------------------------------------------------------ commands */

typedef struct { int64_t result[64]; int n; uint64_t results[8]; int nresults, fail_result; } run;
static _Thread_local run *now;

static int64_t words_of(void *p) { return (int64_t)(intptr_t)p; }
static void *at(int64_t v) { return (void *)(intptr_t)v; }

static int64_t do_alloc(const int64_t *a) { aot_bytes out; _mlir_ciface_aot_rt_alloc(&out, a[0]); return words_of(out.aligned); }
static int64_t do_free(const int64_t *a) { aot_rt_free(a[0]); return 0; }
static int64_t do_result(const int64_t *a) {
  aot_bytes out;
  aot_rt_result_extent(a[0], 0, a[1]);
  _mlir_ciface_aot_rt_result(&out, a[0], a[1]);
  return words_of(out.aligned);
}
/* kernel, grid, block, shared, cluster, stream, wait, and two parameters of the kernel */
static int64_t do_launch(const int64_t *a) {
  void *params[] = { (void *)&a[13], (void *)&a[14] };
  aot_rt_launch(&source, (int32_t)a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[8], a[9], a[10], (int32_t)a[7], at(a[11]), params, (int32_t)a[12]);
  return 0;
}
static int64_t do_other(const int64_t *a) {
  (void)a;
  aot_rt_launch(&other_source, 0, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0, NULL, NULL, 0);
  return 0;
}
static int64_t do_load8(const int64_t *a) { return aot_rt_load_i8(a[0]); }
static int64_t do_load16(const int64_t *a) { return aot_rt_load_i16(a[0]); }
static int64_t do_load32(const int64_t *a) { return aot_rt_load_i32(a[0]); }
static int64_t do_load64(const int64_t *a) { return aot_rt_load_i64(a[0]); }
/* extent, stride, box */
static int64_t do_axis(const int64_t *a) { aot_rt_tensor_axis(a[0], a[1], a[2]); return 0; }
/* step, reach */
static int64_t do_walk(const int64_t *a) { aot_rt_tensor_walk(a[0], a[1]); return 0; }
static int64_t do_pixels(const int64_t *a) { aot_rt_tensor_pixels(a[0]); return 0; }
/* address, type, swizzle */
static int64_t do_map(const int64_t *a) { return words_of(aot_rt_tensor_map(a[0], (int32_t)a[1], (int32_t)a[2])); }
/* map, word of it */
static int64_t do_word(const int64_t *a) { return ((const int64_t *)at(a[0]))[a[1]]; }
static int64_t do_serves(const int64_t *a) { return aot_rt_serves((int32_t)a[0]); }
static int64_t do_assert(const int64_t *a) { aot_rt_assert(a[0] != 0, (int32_t)a[1]); return 0; }
/* message, five numbers */
static int64_t do_refuse(const int64_t *a) { aot_rt_refuse((int32_t)a[0], a[1], a[2], a[3], a[4], a[5]); }
static int64_t do_host(const int64_t *a) {
  return words_of(a[1] ? _mlir_memref_to_llvm_aligned_alloc((size_t)a[1], (size_t)a[0]) : _mlir_memref_to_llvm_alloc((size_t)a[0]));
}
static int64_t do_hostfree(const int64_t *a) { _mlir_memref_to_llvm_free(at(a[0])); return 0; }
static int64_t do_stream(const int64_t *a) { (void)a; return words_of(mgpuStreamCreate()); }
static int64_t do_sync(const int64_t *a) { mgpuStreamSynchronize(at(a[0])); return 0; }
static int64_t do_destroy(const int64_t *a) { mgpuStreamDestroy(at(a[0])); return 0; }
static int64_t do_event(const int64_t *a) { (void)a; return words_of(mgpuEventCreate()); }
static int64_t do_record(const int64_t *a) { mgpuEventRecord(at(a[0]), at(a[1])); return 0; }
static int64_t do_waitevent(const int64_t *a) { mgpuStreamWaitEvent(at(a[0]), at(a[1])); return 0; }
static int64_t do_eventsync(const int64_t *a) { mgpuEventSynchronize(at(a[0])); return 0; }
static int64_t do_eventdestroy(const int64_t *a) { mgpuEventDestroy(at(a[0])); return 0; }
static int64_t do_gpualloc(const int64_t *a) { return words_of(mgpuMemAlloc((uint64_t)a[0], at(a[1]), a[2] != 0)); }
static int64_t do_gpufree(const int64_t *a) { mgpuMemFree(at(a[0]), at(a[1])); return 0; }
static int64_t do_memcpy(const int64_t *a) { mgpuMemcpy(at(a[0]), at(a[1]), (size_t)a[2], at(a[3])); return 0; }
static int64_t do_memset32(const int64_t *a) { mgpuMemset32(at(a[0]), (unsigned)a[1], (size_t)a[2], NULL); return 0; }
static int64_t do_memset16(const int64_t *a) { mgpuMemset16(at(a[0]), (unsigned short)a[1], (size_t)a[2], NULL); return 0; }
/* address, rows, columns, row stride */
static int64_t do_register(const int64_t *a) {
  int64_t d[] = { a[0], a[0], 0, a[1], a[2], a[3], 1 };
  mgpuMemHostRegisterMemRef(2, d, 4);
  return 0;
}
static int64_t do_unregister(const int64_t *a) {
  int64_t d[] = { a[0], a[0], 0, a[1], a[2], a[3], 1 };
  mgpuMemHostUnregisterMemRef(2, d, 4);
  return 0;
}
static int64_t do_device(const int64_t *a) { mgpuSetDefaultDevice((int32_t)a[0]); return 0; }
/* address, offset, rows, columns, row stride, box rows, box columns, swizzle, rank, type */
static int64_t do_tma(const int64_t *a) {
  int64_t d[] = { a[0], a[0], a[1], a[2], a[3], a[4], 1 }, box[] = { a[5], a[6] };
  return words_of(mgpuTensorMapEncodeTiledMemref(a[8] ? a[8] : 2, d, (int)a[9], 0, (int)a[7], 2, 0, box));
}
static int64_t do_lowered(const int64_t *a) {
  mgpuLaunchKernel(mgpuModuleGetFunction(registered_module, "lowered"), a[0], 1, 1, 32, 1, 1, 0, at(a[1]), NULL, NULL, 0);
  return 0;
}
static int64_t do_loweredcluster(const int64_t *a) {
  mgpuLaunchClusterKernel(mgpuModuleGetFunction(registered_module, "lowered"), a[0], 1, 1, a[1], 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
  return 0;
}
static int64_t do_print(const int64_t *a) { int64_t d[] = { a[0], a[0], 0, a[1], 1 }; printMemrefF32(1, d); return 0; }
/* type (in SHOWN's order), address, offset, rank, then sizes and strides */
static int64_t do_show(const int64_t *a) {
#define PRINT(t) printMemref##t,
#define PRINT_C(t) _mlir_ciface_printMemref##t,
  static void (*const print[])(int64_t, void *) = { SHOWN(PRINT) };
  static void (*const print_c[])(void *) = { SHOWN(PRINT_C) };
  int64_t d[16] = { a[1], a[1], a[2] };
  memcpy(d + 3, a + 4, (size_t)a[3] * 16);
  struct { int64_t rank; void *descriptor; } unranked = { a[3], d };
  print[a[0]](a[3], d);
  print_c[a[0]](&unranked);
  return 0;
}
static int64_t do_vector(const int64_t *a) {                   /* what vector.print calls */
  printOpen(); printI64(a[0]); printComma(); printU64((uint64_t)a[0]); printComma(); printF32(0.1f); printComma(); printF64(1e-7);
  printComma(); printF16(0x3c00); printComma(); printBF16(0x4049); printClose(); printNewline();
  return 0;
}
static int64_t do_say(const int64_t *a) { (void)a; printString("said\n"); return 0; }
/* from, to, rows, columns, from's row stride, to's row stride */
static int64_t do_copy(const int64_t *a) {
  int64_t from[] = { a[0], a[0], 0, a[2], a[3], a[4], 1 }, to[] = { a[1], a[1], 0, a[2], a[3], a[5], 1 };
  struct { int64_t rank; void *d; } f = { 2, from }, t = { 2, to };
  memrefCopy(4, &f, &t);
  return 0;
}
static int64_t do_poke(const int64_t *a) { *(int32_t *)at(a[0]) = (int32_t)a[1]; return 0; }
static int64_t do_poke16(const int64_t *a) { *(uint16_t *)at(a[0] + a[1]) = (uint16_t)a[2]; return 0; }
static int64_t do_peek(const int64_t *a) { return *(int32_t *)at(a[0]); }
static int64_t do_token(const int64_t *a) { (void)a; return words_of(mlirAsyncRuntimeCreateToken()); }
static int64_t do_value(const int64_t *a) { return words_of(mlirAsyncRuntimeCreateValue(a[0])); }
static int64_t do_emplace(const int64_t *a) { mlirAsyncRuntimeEmplaceToken(at(a[0])); return 0; }
static int64_t do_tokenerror(const int64_t *a) { mlirAsyncRuntimeSetTokenError(at(a[0])); return 0; }
static int64_t do_iserror(const int64_t *a) { return a[1] ? mlirAsyncRuntimeIsGroupError(at(a[0])) : mlirAsyncRuntimeIsTokenError(at(a[0])); }
static int64_t do_drop(const int64_t *a) { mlirAsyncRuntimeDropRef(at(a[0]), 1); return 0; }
static int64_t do_await(const int64_t *a) { mlirAsyncRuntimeAwaitToken(at(a[0])); return 0; }
static int64_t do_group(const int64_t *a) { return words_of(mlirAsyncRuntimeCreateGroup(a[0])); }
static int64_t do_join(const int64_t *a) { return mlirAsyncRuntimeAddTokenToGroup(at(a[0]), at(a[1])); }
static int64_t do_awaitgroup(const int64_t *a) { mlirAsyncRuntimeAwaitAllInGroup(at(a[0])); return 0; }
static void mark(void *where) { ++*(int32_t *)where; }
static int64_t do_then(const int64_t *a) {                     /* "coroutine" that counts in host memory */
  if (a[2]) mlirAsyncRuntimeAwaitAllInGroupAndExecute(at(a[0]), at(a[1]), mark);
  else mlirAsyncRuntimeAwaitTokenAndExecute(at(a[0]), at(a[1]), mark);
  return 0;
}
static void stumble(void *unused) { (void)unused; aot_fail(AOT_E_INTERNAL, "a coroutine fails"); }
static int64_t do_thenfails(const int64_t *a) { mlirAsyncRuntimeAwaitTokenAndExecute(at(a[0]), NULL, stumble); return 0; }
static void drop_one(void *waited_for) { mlirAsyncRuntimeDropRef(waited_for, 1); }
static int64_t do_thendrops(const int64_t *a) { mlirAsyncRuntimeAwaitAllInGroupAndExecute(at(a[0]), at(a[0]), drop_one); return 0; }
static int64_t do_failresult(const int64_t *a) { now->fail_result = (int)a[0]; return 0; }
static int64_t do_oops(const int64_t *a) { aot_fail(AOT_E_INTERNAL, "oops %lld", (long long)a[0]); }

static const struct { const char *name; int64_t (*run)(const int64_t *); } commands[] = {
#define C(name) { #name, do_##name }
  C(alloc), C(free), C(result), C(launch), C(other), C(load8), C(load16), C(load32), C(load64), C(assert), C(refuse), C(serves), C(axis), C(walk), C(pixels), C(map), C(word), C(host), C(hostfree), C(stream), C(sync), C(destroy), C(event),
  C(record), C(waitevent), C(eventsync), C(eventdestroy), C(gpualloc), C(gpufree), C(memcpy), C(memset32), C(memset16), C(register),
  C(unregister), C(device), C(tma), C(lowered), C(loweredcluster), C(print), C(show), C(vector), C(say), C(copy), C(poke), C(poke16), C(peek), C(token), C(value), C(emplace),
  C(tokenerror), C(iserror), C(drop), C(await), C(group), C(join), C(awaitgroup), C(then), C(thenfails), C(thendrops), C(failresult), C(oops),
#undef C
};

static int64_t perform(char *line) {
  int64_t arguments[16] = { 0 };
  char *rest = NULL, *name = strtok_r(line, " ", &rest);
  int n = 0;
  for (char *word; n < 16 && (word = strtok_r(NULL, " ", &rest)); n++)
    arguments[n] = word[0] == '$' ? now->result[atoi(word + 1)] : strtoll(word, NULL, 0);
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
    if (name && !strcmp(commands[i].name, name)) return commands[i].run(arguments);
  aot_fail(AOT_E_INTERNAL, "test script: no command '%s'", name ? name : "");
}

static void scripted(void **slots) {
  char script[4096];
  snprintf(script, sizeof script, "%s", (const char *)slots[0]);
  char *rest = NULL;
  for (char *line = strtok_r(script, "|", &rest); line; line = strtok_r(NULL, "|", &rest)) {
    int64_t value = perform(line);
    now->result[now->n++ & 63] = value;
  }
}

static int result_memory(aot_frame *frame, int64_t k, int64_t bytes, uint64_t *address) {
  if (now->fail_result) {
    snprintf(frame->message, sizeof frame->message, "no memory for result %d", (int)k);
    return now->fail_result;
  }
  int code = aot_pool_alloc(frame->device, frame->stream, bytes, address);
  if (!code) now->results[now->nresults++] = *address;
  else snprintf(frame->message, sizeof frame->message, "%s", aot_last_error());
  return code;
}

/* ------------------------------------------------------------------ what the tests call */

static const aot_value array_argument = { .name = "x", .type = "memref<?xf32>", .kind = AOT_ARRAY, .rank = 1 };

static int run_frame(aot_frame *frame, const char *script, run *state_of_run) {
  run *outer = now;
  now = state_of_run;
  frame->memory = result_memory;
  aot_push(frame);
  int code = aot_run(frame, (void *[]){ (void *)script });
  for (int i = 0; i < now->nresults; i++) aot_pool_free(now->results[i], frame->stream);
  aot_pop(frame);
  now = outer;
  return code;
}

/* flags: AOT_* of the function, plus 1 << 16 for a function with an array argument. */
int test_call(const char *script, unsigned flags, int device, void *stream, int64_t *values, char *message, size_t size) {
  aot_function function = { .name = "f", .entry = scripted, .source = &source, .args = &array_argument, .nargs = flags >> 16 & 1,
                            .flags = flags & 0xffff };
  aot_frame frame;
  run state_of_run = { .n = 0 };
  void *restore;
  memset(&frame, 0xAA, sizeof frame);                          /* nothing may depend on a cleared frame */
  int code = aot_context_enter(device, &frame.context, &frame.context_id, &restore);
  if (code) { snprintf(message, size, "%s", aot_last_error()); return code; }
  frame.function = &function;
  frame.stream = stream;
  frame.device = device;
  code = run_frame(&frame, script, &state_of_run);
  snprintf(message, size, "%s", frame.message);
  memcpy(values, state_of_run.result, sizeof state_of_run.result);
  aot_context_leave(restore);
  return code;
}

/* A kernel called from Python: no function, no aot_run. */
int test_kernel(unsigned kernel, const int64_t *geometry, void *stream, char *message, size_t size) {
  aot_frame frame;
  void *restore;
  memset(&frame, 0xAA, sizeof frame);
  int code = aot_context_enter(0, &frame.context, &frame.context_id, &restore);
  if (code) { snprintf(message, size, "%s", aot_last_error()); return code; }
  frame.function = NULL;
  frame.stream = stream;
  frame.device = 0;
  aot_push(&frame);
  aot_geometry g = { .how = { 0 } };
  memcpy(&g, geometry, offsetof(aot_geometry, how));
  code = aot_launch(&frame, &source, kernel, &g, NULL, NULL);
  snprintf(message, size, "%s", frame.message);
  aot_pop(&frame);
  aot_context_leave(restore);
  return code;
}

/* ------------------------------------------------------------------ calls from C and from XLA */

static void twins_entry(void **slots) {                        /* twins(x: tensor<?xf32>) -> two arrays of its size */
  int64_t length = ((aot_descriptor *)slots[0])->dims[0];
  for (int k = 0; k < 2; k++) {
    aot_bytes out;
    aot_rt_result_extent(k, 0, length);
    _mlir_ciface_aot_rt_result(&out, k, 4 * length);
    *(aot_bytes *)slots[1 + k] = (aot_bytes){ out.alloc, out.aligned, 0, length, 1 };
  }
}
static void filled_entry(void **slots) { (void)slots; }        /* filled(x, out: destination) -> out: does nothing to it */

static const int64_t any_extent[] = { AOT_DYNAMIC };
#define F32_ARRAY .type = "tensor<?xf32>", .dl_code = AOT_DL_FLOAT, .dl_bits = 32, .storage = 4, .rank = 1, .shape = any_extent
static const aot_value native_args[] = { { .name = "x", .alias = -1, F32_ARRAY }, { .name = "out", .role = AOT_DESTINATION, .alias = -1, F32_ARRAY } };
static const aot_value twin_results[] = { { .name = "", .alias = -1, F32_ARRAY }, { .name = "", .alias = -1, F32_ARRAY } };
static const aot_value filled_results[] = { { .name = "", .alias = 1, F32_ARRAY } };
const aot_function natives[2] = {
  { .name = "twins", .entry = twins_entry, .source = &source, .args = native_args, .results = twin_results, .nargs = 1, .nresults = 2 },
  { .name = "filled", .entry = filled_entry, .source = &source, .args = native_args, .results = filled_results, .nargs = 2, .nresults = 1 },
};

static dl_tensor vector(int device, void *data, int64_t *length) {
  return (dl_tensor){ .data = data, .device = { DL_CUDA, device }, .rank = 1, .dtype = { AOT_DL_FLOAT, 32, 1 }, .shape = length };
}

/* twins, from C: `devices` of x and of its results, whose addresses go to `made`. */
int test_twins(const int *devices, void *x, int64_t length, void *stream, void **made, char *message, size_t size) {
  int64_t extents[3] = { length };
  dl_tensor in = vector(devices[0], x, extents), first = vector(devices[1], NULL, extents + 1), second = vector(devices[1], NULL, extents + 2);
  int code = aot_c_call(&natives[0], (const void *const[]){ &in }, (void *const[]){ &first, &second }, stream);
  snprintf(message, size, "%s", code ? aot_c_error() : "");
  made[0] = first.data;
  made[1] = second.data;
  return code;
}

int test_give_back(int device, void *data, void *stream) {
  int64_t length = 0;
  dl_tensor array = vector(device, data, &length);
  int code = aot_c_free(&array, stream);
  return code ? code : array.data != NULL;
}

static char *xla_message;
static size_t xla_size;
static void *take_error(xla_error_arguments *arguments) {
  snprintf(xla_message, xla_size, "%d: %s", arguments->code, arguments->message);
  return xla_message;
}
static void *give_stream(xla_stream_arguments *arguments) {
  arguments->stream = arguments->context;
  return NULL;
}

/* filled, from XLA: `out` goes in at one address and comes back at another. 0, or 1 and a message. */
int test_filled(void *x, void *out_in, void *out, int64_t length, void *stream, char *message, size_t size) {
  static const char name[] = "function";
  xla_api api = { .size = sizeof api, .error_create = take_error, .stream_get = give_stream };
  int64_t number = 1;
  xla_scalar scalar = { XLA_S64, &number };
  xla_span span = { name, sizeof name - 1 };
  xla_buffer buffers[3];
  void *addresses[] = { x, out_in, out };
  for (int i = 0; i < 3; i++) buffers[i] = (xla_buffer){ .size = sizeof buffers[i], .dtype = 11, .data = addresses[i], .rank = 1, .dims = &length };
  xla_frame frame = { .size = sizeof frame, .api = &api, .context = stream, .stage = XLA_EXECUTE,
                      .args = { .count = 2, .types = (int[]){ XLA_BUFFER, XLA_BUFFER }, .values = (void *[]){ &buffers[0], &buffers[1] } },
                      .results = { .count = 1, .types = (int[]){ XLA_BUFFER }, .values = (void *[]){ &buffers[2] } },
                      .attributes = { .count = 1, .types = (int[]){ XLA_SCALAR }, .names = (xla_span *[]){ &span }, .values = (void *[]){ &scalar } } };
  xla_message = message;
  xla_size = size;
  message[0] = 0;
  return aot_xla_gpu(&frame) != NULL;
}

int test_preload(int device, char *message, size_t size) {
  void *context, *restore;
  uint64_t id;
  int code = aot_context_enter(device, &context, &id, &restore);
  if (code) { snprintf(message, size, "%s", aot_last_error()); return code; }
  code = aot_module_load(&source, id, message, size);
  aot_context_leave(restore);
  return code;
}
