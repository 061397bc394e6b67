/* CPU code as the compiler would make it, by hand: entries of some functions of the source `demo` in arrays of the host. Compiled
 * once per variant: VARIANT is its name, NUMBER its position. */
#include "entries.h"
#include <math.h>
#include <string.h>

#define PASTE(name, variant) aot_cpu_entry_demo__##name##__##variant
#define PASTED(name, variant) PASTE(name, variant)
#define ENTRY(name) void PASTED(name, VARIANT)(void **slots)

void aot_rt_parallel(void (*body)(int64_t begin, int64_t end, void *context), void *context, int64_t count, int64_t grain);
void *_mlir_memref_to_llvm_alloc(uint64_t size);

typedef struct { const float *in; float *out; } pair;
static void twice(int64_t begin, int64_t end, void *context) {
  const pair *p = context;
  for (int64_t i = begin; i < end; i++) p->out[i] = 2 * p->in[i];
}

ENTRY(twice) {
  memref *x = slots[0];
  pair p = {floats(x), result(slots, 1, 0, 1, x->dims, 4)};
  aot_rt_parallel(twice, &p, x->dims[0], 1024);
}

/* out becomes the square of x's transpose, so order matters */
ENTRY(square) {
  float *x = floats(slots[0]), *out = floats(slots[1]);
  for (int i = 0; i < 16; i++) out[i] = x[i % 4 * 4 + i / 4] * x[i % 4 * 4 + i / 4];
}

ENTRY(several) {
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

ENTRY(strided) {
  memref *x = slots[0];
  float sum = 0;
  for (int64_t i = 0; i < x->dims[0]; i++)
    for (int64_t j = 0; j < x->dims[1]; j++) sum += floats(x)[i * x->dims[2] + j * x->dims[3]];
  *(float *)slots[1] = sum;
}

/* make(n): the variant's number, then 1, 2, 3... */
ENTRY(make) {
  int64_t n = *(int64_t *)slots[0];
  int32_t *out = result(slots, 1, 0, 1, &n, 4);
  for (int64_t i = 0; i < n; i++) out[i] = i ? (int32_t)i : NUMBER;
}

ENTRY(point) { *(float *)result(slots, 1, 0, 0, 0, 4) = -*floats(slots[0]); }

ENTRY(failing) {
  memref *x = slots[0];
  result(slots, 1, 0, 1, x->dims, 4);
  memset(_mlir_memref_to_llvm_alloc(64), 1, 64);
  aot_rt_assert(x->dims[0] % 2 == 0, 1);
}

ENTRY(types) { (void)slots; }

ENTRY(codes) { (void)slots; }

/* small(x: tensor<?xbf16>) -> tensor<?xbf16>: the same */
ENTRY(small) {
  memref *x = slots[0];
  memcpy(result(slots, 1, 0, 1, x->dims, 2), x->aligned + 2 * x->offset, (uint64_t)(2 * x->dims[0]));
}
