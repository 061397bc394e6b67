/* A C program on the static library of traced.mlir and typed.mlir, in host memory. Prints what differs; exit code 0 when nothing does. */
#include "traced_kernels.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) do { if (!(condition)) { printf("%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, traced_kernels_error()); return 1; } } while (0)

static traced_kernels_array array(void *data, int32_t rank, int64_t *shape, uint8_t code, uint8_t bits) {
  traced_kernels_array made = { .data = data, .device = { 1, 0 }, .rank = rank, .dtype = { code, bits, 1 }, .shape = shape };
  return made;
}

int main(void) {
  _Alignas(64) float x[6] = { 1, 2, 3, 4, 5, 6 }, y[6] = { 0 };
  int64_t six[1] = { 6 }, made[1] = { 0 }, five[1] = { 5 }, count_shape[1] = { 1 }, length = 0, count[1] = { 4 };
  traced_kernels_array in = array(x, 1, six, 2, 32), out = array(y, 1, six, 2, 32), result = array(NULL, 1, made, 2, 32);

  CHECK(traced_kernels_traced_scaled_into(&in, 2.5f, &out, NULL) == 0);
  CHECK(y[0] == 2.5f && y[5] == 15.0f);
  CHECK(traced_kernels_traced_two(&in, &result, &length, NULL) == 0);
  CHECK(length == 6 && made[0] == 6 && ((float *)result.data)[5] == 12.0f);
  CHECK(traced_kernels_free(&result, NULL) == 0 && !result.data);
  CHECK(traced_kernels_traced_two(&in, &out, &length, NULL) == 0 && y[2] == 6.0f);

  traced_kernels_array short_one = array(y, 1, five, 2, 32), counts = array(count, 1, count_shape, 0, 64), numbers = array(NULL, 1, made, 0, 64);
  CHECK(traced_kernels_traced_two(&in, &short_one, &length, NULL) != 0);
  CHECK(strstr(traced_kernels_error(), "result 1 is 6 long in dimension 0, its memory is for 5"));
  CHECK(traced_kernels_traced_counted(&counts, &numbers, NULL) == 0 && made[0] == 4 && ((int64_t *)numbers.data)[3] == 3);
  CHECK(traced_kernels_free(&numbers, NULL) == 0);
  CHECK(traced_kernels_traced_scaled_into(&in, 2.0f, &in, NULL) != 0);
  CHECK(strstr(traced_kernels_error(), "argument 3 'out', tensor<?xf32>: shares memory with another argument"));
  CHECK(traced_kernels_traced_two(&in, &in, &length, NULL) != 0 && strstr(traced_kernels_error(), "its memory is that of an argument"));
  CHECK(traced_kernels_traced_incremented(&out, NULL) == 0 && y[2] == 7.0f);
  int32_t whole[6] = { 1, 2, 3, 4, 5, 6 }, moved[6], by = 0;
  traced_kernels_array wholes = array(whole, 1, six, 0, 32), moves = array(moved, 1, six, 0, 32);
  CHECK(traced_kernels_typed_shifted(&wholes, -3, &moves, &by, NULL) == 0 && by == -3 && moved[0] == -2 && moved[5] == 3);
  in.dtype.bits = 64;
  CHECK(traced_kernels_traced_scaled_into(&in, 2.0f, &out, NULL) != 0 && strstr(traced_kernels_error(), "another element type"));
  in.dtype.bits = 32;
  in.device.type = 2;
  CHECK(traced_kernels_traced_scaled_into(&in, 2.0f, &out, NULL) != 0 && strstr(traced_kernels_error(), "or all in host memory"));
  puts("ok");
  return 0;
}
