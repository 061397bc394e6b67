/* What entries that are written by hand have in common: host code (host.c) and CPU code (cpu.c) of the source `demo`. */
#include <stdint.h>

typedef struct { char *alloc, *aligned; int64_t offset, size, stride; } bytes;
typedef struct { char *alloc, *aligned; int64_t offset, dims[]; } memref;
void _mlir_ciface_aot_rt_result(bytes *out, int64_t k, int64_t size);
void aot_rt_result_extent(int64_t k, int64_t axis, int64_t extent);
void aot_rt_assert(_Bool ok, int32_t message);
_Noreturn void aot_rt_refuse(int32_t message, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e);

static inline float *floats(memref *x) { return (float *)x->aligned + x->offset; }

static inline void *result(void **slots, int slot, int k, int rank, const int64_t *extents, int64_t element) {
  memref *out = slots[slot];
  int64_t size = element;
  bytes made;
  for (int i = 0; i < rank; i++) {
    aot_rt_result_extent(k, i, extents[i]);
    size *= extents[i];
  }
  _mlir_ciface_aot_rt_result(&made, k, size);
  out->alloc = out->aligned = made.aligned;
  out->offset = 0;
  for (int64_t i = rank - 1, dense = 1; i >= 0; dense *= extents[i--]) {
    out->dims[i] = extents[i];
    out->dims[rank + i] = dense;
  }
  return made.aligned;
}
