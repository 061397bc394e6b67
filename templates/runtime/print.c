/* What programs print through: upstream's printMemref*, print*, rtclock, with exactly upstream's text.
 *
 *   printMemrefF32 -> Unranked Memref base@ = 0x7f.. rank = 1 offset = 0 sizes = [2] strides = [1] data = 
 *                     [1,  2]
 *
 * An array in device memory is copied to the host first, after everything on the call's stream. Text goes through C's stdout,
 * which is flushed when the call ends. */
#define _GNU_SOURCE
#include "rt.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

float __extendhfsf2(float half);

typedef void print_element(const char *at);
typedef struct { print_element *print; int64_t bytes; } element;

static aot_frame *printing(const char *caller) {
  aot_frame *frame = aot_frame_here(caller);
  frame->printed = 1;
  return frame;
}

/* ------------------------------------------------------------------ elements */

static float half_bits(uint32_t bits) { float raw; memcpy(&raw, &bits, 4); return __extendhfsf2(raw); }
static float f16_at(const void *at) { uint16_t bits; memcpy(&bits, at, 2); return half_bits(bits); }
static float bf16_at(const void *at) {
  uint16_t bits;
  float value;
  memcpy(&bits, at, 2);
  uint32_t wide = (uint32_t)bits << 16;
  memcpy(&value, &wide, 4);
  return value;
}

#define ELEMENT(suffix, type, ...) \
  static void element_##suffix(const char *at) { type v[2]; memcpy(v, at, sizeof v[0] * NUMBERS); printf(__VA_ARGS__); }
#define NUMBERS 1
ELEMENT(I8, int8_t, "%d", v[0])
ELEMENT(I16, int16_t, "%d", v[0])
ELEMENT(I32, int32_t, "%" PRId32, v[0])
ELEMENT(I64, int64_t, "%" PRId64, v[0])
ELEMENT(Ind, uint64_t, "%" PRIu64, v[0])
ELEMENT(F32, float, "%g", (double)v[0])
ELEMENT(F64, double, "%g", v[0])
#undef NUMBERS
#define NUMBERS 2
ELEMENT(C32, float, "(%g,%g)", (double)v[0], (double)v[1])
ELEMENT(C64, double, "(%g,%g)", v[0], v[1])
#undef NUMBERS
static void element_F16(const char *at) { printf("%g", (double)f16_at(at)); }
static void element_BF16(const char *at) { printf("%g", (double)bf16_at(at)); }

/* ------------------------------------------------------------------ device memory */

int aot_is_device_memory(aot_frame *frame, const void *address, int *device) {
  int managed = 0, type = 0;
  *device = 0;
  if (frame->on_cpu || !aot_cu.cuPointerGetAttribute) return 0;   /* no driver in use: all memory is the host's */
  CUdeviceptr at = (uintptr_t)address;
  int code = aot_cu.cuPointerGetAttribute(&type, CU_POINTER_MEMORY_TYPE, at);
  if (code == CUDA_ERROR_INVALID_VALUE) return 0;              /* memory that the driver does not know */
  if (!code) code = aot_cu.cuPointerGetAttribute(&managed, CU_POINTER_IS_MANAGED, at);
  if (code) return aot_record_driver(frame, code, "cuPointerGetAttribute");
  *device = type == CU_MEMORY_DEVICE && !managed;
  /* host code is about to look at what kernels may be writing */
  return *device ? 0 : aot_wait(frame, "its host code looks at memory that host and device share");
}

/* Lowest and highest element that the array touches, from its offset; 0 elements: empty. */
static int64_t span(int64_t rank, const aot_descriptor *array, int64_t *lowest) {
  int64_t low = 0, high = 0;
  for (int64_t i = 0; i < rank; i++) {
    if (!array->dims[i]) return 0;
    int64_t reach = (array->dims[i] - 1) * array->dims[rank + i];
    if (reach < 0) low += reach;
    else high += reach;
  }
  *lowest = low;
  return high - low + 1;
}

/* Host memory with the array's elements, tracked by the frame. `first` is where the element with all indices 0 is. */
static char *bring_to_host(aot_frame *frame, int64_t rank, const aot_descriptor *array, int64_t bytes, const char **first) {
  int64_t lowest = 0, elements = span(rank, array, &lowest);
  char *copy = _mlir_memref_to_llvm_alloc((size_t)(elements * bytes));
  CUdeviceptr from = (uintptr_t)array->aligned + (CUdeviceptr)((array->offset + lowest) * bytes);
  must(frame, aot_wait(frame, "it prints device memory"));
  if (elements)
    must(frame, aot_record_driver(frame, aot_cu.cuMemcpyDtoHAsync_v2(copy, from, (size_t)(elements * bytes), (CUstream)frame->stream),
                                  "cuMemcpyDtoHAsync of %lld bytes", (long long)(elements * bytes)));
  must(frame, aot_wait(frame, "it prints device memory"));
  *first = copy - lowest * bytes;
  return copy;
}

/* ------------------------------------------------------------------ arrays */

static void print_list(const int64_t *values, int64_t count) {
  for (int64_t i = 0; i < count; i++) printf(i ? ", %" PRId64 : "%" PRId64, values[i]);
}

static void print_heading(int64_t rank, const aot_descriptor *array) {
  printf(array->aligned ? "Unranked Memref base@ = %p" : "Unranked Memref base@ = 0", array->aligned);
  printf(" rank = %" PRId64 " offset = %" PRId64 " sizes = [", rank, array->offset);
  print_list(array->dims, rank);
  printf("] strides = [");
  print_list(array->dims + rank, rank);
  printf("]");
}

/* Upstream's layout: the first element opens the bracket whether or not it exists, one line per row of the innermost axis. */
static void print_axis(const element *type, const char *at, int64_t axis, int64_t rank, const int64_t *sizes, const int64_t *strides) {
  if (axis == rank) {
    type->print(at);
    return;
  }
  int64_t step = strides[axis] * type->bytes;
  printf("[");
  for (int64_t i = 0; i < sizes[axis] || i == 0; i++) {
    if (i) printf(axis + 1 < rank ? ", \n%*s" : ", %*s", (int)axis + 1, "");
    print_axis(type, at + i * step, axis + 1, rank, sizes, strides);
  }
  printf("]");
}

static int has_no_elements(int64_t rank, const aot_descriptor *array) {
  for (int64_t i = 0; i < rank; i++)
    if (!array->dims[i]) return 1;
  return 0;
}

/* Upstream reads the first element even of an empty array, which is out of bounds; ours prints the brackets around nothing. */
static void print_nothing(int64_t rank) {
  for (int64_t i = 0; i < rank; i++) printf("[");
  for (int64_t i = 0; i < rank; i++) printf("]");
}

static void print_array(element type, int64_t rank, const aot_descriptor *array) {
  aot_frame *frame = printing("printMemref");
  int device = 0;
  must(frame, aot_is_device_memory(frame, array->aligned, &device));
  const char *start = (const char *)array->aligned + array->offset * type.bytes;
  char *copy = device ? bring_to_host(frame, rank, array, type.bytes, &start) : NULL;
  print_heading(rank, array);
  printf(" data = \n");
  if (rank == 0) printf("[");
  if (has_no_elements(rank, array)) print_nothing(rank);
  else print_axis(&type, start, 0, rank, array->dims, array->dims + rank);
  printf(rank ? "\n" : "]\n");
  if (copy) _mlir_memref_to_llvm_free(copy);
}

#define PRINT_MEMREF(suffix, size) \
  void printMemref##suffix(int64_t rank, void *array); \
  void _mlir_ciface_printMemref##suffix(aot_unranked *array); \
  void _mlir_ciface_printMemrefShape##suffix(aot_unranked *array); \
  void printMemref##suffix(int64_t rank, void *array) { print_array((element){ element_##suffix, size }, rank, array); } \
  void _mlir_ciface_printMemref##suffix(aot_unranked *array) { printMemref##suffix(array->rank, array->array); } \
  void _mlir_ciface_printMemrefShape##suffix(aot_unranked *array) { \
    printing("printMemrefShape"); \
    print_heading(array->rank, array->array); \
    printf("\n"); \
  }
PRINT_MEMREF(I8, 1)
PRINT_MEMREF(I16, 2)
PRINT_MEMREF(I32, 4)
PRINT_MEMREF(I64, 8)
PRINT_MEMREF(Ind, 8)
PRINT_MEMREF(F16, 2)
PRINT_MEMREF(BF16, 2)
PRINT_MEMREF(F32, 4)
PRINT_MEMREF(F64, 8)
PRINT_MEMREF(C32, 8)
PRINT_MEMREF(C64, 16)

/* ------------------------------------------------------------------ scalars and text (vector.print) */

void printI64(int64_t value) { printing("printI64"); printf("%" PRId64, value); }
void printU64(uint64_t value) { printing("printU64"); printf("%" PRIu64, value); }
void printF16(uint16_t bits) { printing("printF16"); printf("%g", (double)half_bits(bits)); }
void printBF16(uint16_t bits) { printing("printBF16"); printf("%g", (double)bf16_at(&bits)); }
void printF32(float value) { printing("printF32"); printf("%g", (double)value); }
void printF64(double value) { printing("printF64"); printf("%g", value); }
void printString(const char *text) { printing("printString"); fputs(text, stdout); }
void printCString(char *text) { printString(text); }
void printOpen(void) { printString("( "); }
void printClose(void) { printString(" )"); }
void printComma(void) { printString(", "); }
void printNewline(void) { printString("\n"); }
void printFlops(double flops) { fprintf(stderr, "%f GFLOPS\n", flops / 1e9); }

static struct timespec wall_clock(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return t; }
double rtclock(void) { struct timespec t = wall_clock(); return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec; }
double _mlir_ciface_rtclock(void) { return rtclock(); }
int64_t nanoTime(void) { struct timespec t = wall_clock(); return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }
int64_t _mlir_ciface_nanoTime(void) { return nanoTime(); }
