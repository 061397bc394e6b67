/* Host code as the compiler would make it, by hand: entries of the test package's source `demo`. Device memory is the fake
 * driver's, which the host can read and write, so functions compute here what kernels would. */
#include "entries.h"
#include <math.h>
#include <string.h>

void _mlir_ciface_aot_rt_alloc(bytes *out, int64_t size);
int32_t aot_rt_load_i32(int64_t address);
void aot_rt_launch(const void *source, int32_t kernel, int64_t gx, int64_t gy, int64_t gz, int64_t bx, int64_t by, int64_t bz, int64_t cx,
                   int64_t cy, int64_t cz, int32_t shared, void *stream, void **params, int32_t wait);
extern const char aot_source_demo[] __attribute__((visibility("hidden")));

static void launch(int32_t kernel, int64_t blocks) {
  void *params[64] = {0};
  aot_rt_launch(aot_source_demo, kernel, blocks, 1, 1, 128, 1, 1, 0, 0, 0, 0, 0, params, 0);
}

/* twice(x: tensor<?xf32>) -> tensor<?xf32> */
void aot_entry_demo__twice(void **slots) {
  memref *x = slots[0];
  float *out = result(slots, 1, 0, 1, x->dims, 4);
  launch(0, (x->dims[0] + 127) / 128);
  for (int64_t i = 0; i < x->dims[0]; i++) out[i] = 2 * floats(x)[i];
}

/* square(x: tensor<4x4xf32>, out: tensor<4x4xf32> destination) -> out: writes the transpose of x, so order matters */
void aot_entry_demo__square(void **slots) {
  float *x = floats(slots[0]), *out = floats(slots[1]);
  for (int i = 0; i < 16; i++) out[i] = x[i % 4 * 4 + i / 4] * x[i % 4 * 4 + i / 4];
}

/* mirror(r: memref<4xf32>, x: tensor<4xf32>, out: tensor<4xf32> destination, more: tensor<4xf32> destination) -> out, more */
void aot_entry_demo__mirror(void **slots) {
  float *x = floats(slots[1]), *out = floats(slots[2]), *more = floats(slots[3]);
  for (int i = 0; i < 4; i++) more[i] = -x[i];
  for (int i = 0; i < 4; i++) out[i] = x[3 - i];
}

/* several(x: memref<?x4xf32>) -> tensor<4x?xf32>, f32, index, x */
void aot_entry_demo__several(void **slots) {
  memref *x = slots[0];
  int64_t extents[] = {4, x->dims[0]};
  float *out = result(slots, 1, 0, 2, extents, 4), sum = 0;
  for (int64_t i = 0; i < 4 * x->dims[0]; i++) {
    sum += floats(x)[i];
    out[i % 4 * x->dims[0] + i / 4] = floats(x)[i];
  }
  *(float *)slots[2] = sum;
  *(int64_t *)slots[3] = x->dims[0];
}

/* strided(x: memref<?x?xf32, strided<[?, 1], offset: ?>>) -> f32: the sum */
void aot_entry_demo__strided(void **slots) {
  memref *x = slots[0];
  float sum = 0;
  for (int64_t i = 0; i < x->dims[0]; i++)
    for (int64_t j = 0; j < x->dims[1]; j++) sum += floats(x)[i * x->dims[2] + j * x->dims[3]];
  *(float *)slots[1] = sum;
}

/* shifted(x: memref<4xf32, strided<[1], offset: 8>>) -> f32: its first element, at the compiled-in offset */
void aot_entry_demo__shifted(void **slots) { *(float *)slots[1] = ((float *)((memref *)slots[0])->aligned)[8]; }

/* numbers(i1, i3, i8, i32, i64, index, ui8, ui64, f16, bf16, f32, f64, complex<f32>, complex<f64>) -> the same */
void aot_entry_demo__numbers(void **slots) {
  static const int sizes[] = {1, 1, 1, 4, 8, 8, 1, 8, 2, 2, 4, 8, 8, 16};
  for (int i = 0; i < 14; i++) memcpy(slots[14 + i], slots[i], sizes[i]);
}

/* make(n: index) -> tensor<?xi32> */
void aot_entry_demo__make(void **slots) {
  int64_t n = *(int64_t *)slots[0];
  int32_t *out = (int32_t *)result(slots, 1, 0, 1, &n, 4);
  for (int64_t i = 0; i < n; i++) out[i] = (int32_t)i;
}

/* point(x: tensor<f32>) -> tensor<f32> */
void aot_entry_demo__point(void **slots) { *(float *)result(slots, 1, 0, 0, 0, 4) = -*floats(slots[0]); }

/* swap(x: memref<?xf32>, y: memref<?xf32>) -> y, x */
void aot_entry_demo__swap(void **slots) { (void)slots; }

/* failing(x: tensor<?xf32>) -> tensor<?xf32>: an assertion, or a refusal, after a result and a buffer were made */
void aot_entry_demo__failing(void **slots) {
  memref *x = slots[0];
  bytes buffer;
  result(slots, 1, 0, 1, x->dims, 4);
  _mlir_ciface_aot_rt_alloc(&buffer, 64);
  aot_rt_assert(x->dims[0] != 5, 0);
  if (x->dims[0] == 9) aot_rt_refuse(2, x->dims[0], -4, 0, 0, 0);
  aot_rt_assert(x->dims[0] % 2 == 0, 1);
}

/* waiting(x: tensor<?xi32>) -> tensor<?xi32>: reads a length from the device */
void aot_entry_demo__waiting(void **slots) {
  memref *x = slots[0];
  int64_t n = aot_rt_load_i32((int64_t)x->aligned);
  int32_t *out = (int32_t *)result(slots, 1, 0, 1, &n, 4);
  for (int64_t i = 0; i < n; i++) out[i] = 7;
}

/* types(bf16, i1, f8E4M3FN, complex<f32>, i64, index: tensor<2x...> each) */
void aot_entry_demo__types(void **slots) { (void)slots; }

/* codes(i4, f4E2M1FN: tensor<2x...> each) -> tensor<2xi4>; only refused calls */
void aot_entry_demo__codes(void **slots) { (void)slots; }

/* many(64 arrays tensor<?x?xf32>) -> f32: the sum of their first elements */
void aot_entry_demo__many(void **slots) {
  float sum = 0;
  for (int i = 0; i < 64; i++) sum += *floats(slots[i]);
  *(float *)slots[64] = sum;
}

/* halves(x: tensor<?xf32>) -> tensor<?xf32>, tensor<?xf32> */
void aot_entry_demo__halves(void **slots) {
  memref *x = slots[0];
  int64_t n = x->dims[0] / 2, rest = x->dims[0] - n;
  float *low = result(slots, 1, 0, 1, &n, 4), *high = result(slots, 2, 1, 1, &rest, 4);
  memmove(low, floats(x), (size_t)n * 4);
  memmove(high, floats(x) + n, (size_t)rest * 4);
}
