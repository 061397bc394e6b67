/* TMA descriptors, in two ways.
 *
 * nvgpu.tma.create.descriptor calls mgpuTensorMapEncodeTiledMemref, which returns the device address of a CUtensorMap. It belongs
 * to the call and is freed in stream order at its end (upstream leaks it).
 *
 * Our own kernels take descriptors by value: aot_rt_tensor_axis for each axis, then aot_rt_tensor_map, whose result stays valid for
 * the next launch of this thread. The last ones are kept for all threads, since most calls come with arrays seen before.
 *
 * A convolution's copies walk over the pixels of images ("im2col"): over all axes but the innermost, one row after the other. */
#include "rt.h"
#include <pthread.h>
#include <string.h>

enum { MAX_RANK = 5, MAX_BOX = 256, NTYPES = 13, L2_PROMOTION_128B = 2, ZEROS_OUTSIDE = 0 };
enum { MOST_PIXELS = 1024, LONGEST_STEP = 8 };                 /* of a walk over pixels */
static const int farthest[MAX_RANK + 1] = { 0, 0, 0, 32768, 128, 16 }; /* that it may end from an axis's end, by the number of axes */
enum { RECENT = 64, A_LAUNCH = 8 };                            /* descriptors kept in all; those that one launch may take */
static const char *const axis_order = "counted from the innermost";

/* By CUtensorMapDataType: u8 u16 u32 i32 u64 i64 f16 f32 f64 bf16 f32-ftz tf32 tf32-ftz. */
static const uint8_t element_bytes[NTYPES] = { 1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4 };
static const uint16_t swizzle_bytes[4] = { 0, 32, 64, 128 };

typedef struct {                                               /* the driver counts axes from the innermost, MLIR from the outermost */
  uint32_t rank, box[MAX_RANK], element_strides[MAX_RANK];
  uint64_t extents[MAX_RANK], strides[MAX_RANK];               /* strides in bytes; that of the innermost axis is implied */
  int32_t last[MAX_RANK];                                      /* of walks: where they end on an axis, from its end; 0 or less */
  uint32_t pixels;                                             /* that a copy takes on its walk; 0: it takes a box */
  char *address;
  int type, interleave, swizzle;
} tile;

static int check_axis(aot_frame *frame, const tile *t, uint32_t axis) {
  if (t->extents[axis] < 1 || t->extents[axis] > (1ull << 32))
    return aot_record(frame, AOT_E_LIMIT, "TMA descriptor: axis %u (%s) is %llu long, allowed are 1 to 2^32", axis, axis_order,
                      (unsigned long long)t->extents[axis]);
  if (t->box[axis] < 1 || t->box[axis] > MAX_BOX)
    return aot_record(frame, AOT_E_LIMIT, "TMA descriptor: the box is %u long on axis %u (%s), allowed are 1 to %d", t->box[axis], axis,
                      axis_order, MAX_BOX);
  if (t->pixels && (t->element_strides[axis] < 1 || t->element_strides[axis] > LONGEST_STEP || t->last[axis] < -farthest[t->rank]))
    return aot_record(frame, AOT_E_LIMIT, "TMA descriptor: a walk in steps of %u that ends at %d on axis %u (%s)", t->element_strides[axis],
                      t->last[axis], axis, axis_order);
  uint64_t step = t->interleave == 2 ? 32 : 16;
  if (axis && (t->strides[axis - 1] % step || t->strides[axis - 1] >= 1ull << 40))
    return aot_record(frame, AOT_E_LIMIT, "TMA descriptor: the stride of axis %u (%s) is %llu bytes; it must be a multiple of %llu below "
                                          "2^40", axis, axis_order, (unsigned long long)t->strides[axis - 1], (unsigned long long)step);
  return 0;
}

static int check_inner(aot_frame *frame, const tile *t) {
  uint64_t bytes = (uint64_t)t->box[0] * element_bytes[t->type], align = t->interleave == 2 ? 32 : 16;
  if ((uintptr_t)t->address % align)
    return aot_record(frame, AOT_E_LIMIT, "TMA descriptor: the array starts at %p, which is not aligned to %llu bytes", (void *)t->address,
                      (unsigned long long)align);
  if (!t->interleave && bytes % 16)
    return aot_record(frame, AOT_E_LIMIT, "TMA descriptor: the box is %llu bytes long on axis 0 (%s); it must be a multiple of 16",
                      (unsigned long long)bytes, axis_order);
  if (t->pixels > MOST_PIXELS || (t->pixels && t->rank < 3))
    return aot_record(frame, AOT_E_LIMIT, "TMA descriptor: a walk over %u pixels of %u axes", t->pixels, t->rank);
  int swizzled = t->swizzle >= 1 && t->swizzle <= 3 && !t->interleave;
  if (swizzled && bytes > swizzle_bytes[t->swizzle])
    return aot_record(frame, AOT_E_LIMIT, "TMA descriptor: the box is %llu bytes long on axis 0 (%s), the %u-byte swizzle allows %u",
                      (unsigned long long)bytes, axis_order, swizzle_bytes[t->swizzle], swizzle_bytes[t->swizzle]);
  return 0;
}

static int check(aot_frame *frame, const tile *t) {
  int code = check_inner(frame, t);
  for (uint32_t axis = 0; !code && axis < t->rank; axis++) code = check_axis(frame, t, axis);
  return code;
}

static void describe_tile(tile *t, const aot_descriptor *array, const int64_t *box) {
  uint64_t bytes = element_bytes[t->type];
  t->address = (char *)array->aligned + array->offset * (int64_t)bytes;
  for (uint32_t axis = 0; axis < t->rank; axis++) {
    uint32_t outer = t->rank - 1 - axis;
    t->extents[axis] = (uint64_t)array->dims[outer];
    t->box[axis] = box[outer] < 0 || box[outer] > UINT32_MAX ? 0 : (uint32_t)box[outer];
    t->element_strides[axis] = 1;
    if (axis) t->strides[axis - 1] = (uint64_t)array->dims[t->rank + outer] * bytes;
  }
}

/* Outside of a capture the copy from this stack frame is staged by the driver before the call returns (pageable memory). A
 * captured copy would read the stack again at every replay, so there the words travel as the values of memset nodes. */
static int send(aot_frame *frame, uint64_t target, const CUtensorMap *map) {
  CUstream stream = (CUstream)frame->stream;
  int capturing = 0;
  int code = aot_capturing(frame, stream, &capturing);
  if (code) return code;
  if (!capturing)
    return aot_record_driver(frame, aot_cu.cuMemcpyHtoDAsync_v2(target, map, sizeof *map, stream), "cuMemcpyHtoDAsync of a TMA descriptor");
  uint32_t words[sizeof *map / 4];
  memcpy(words, map, sizeof words);
  for (size_t i = 0; !code && i < sizeof words / 4; i++)
    code = aot_record_driver(frame, aot_cu.cuMemsetD32Async(target + 4 * i, words[i], 1, stream), "cuMemsetD32Async of a TMA descriptor");
  return code;
}

static int encode_walk(aot_frame *frame, const tile *t, int l2_promotion, int out_of_bounds, CUtensorMap *map) {
  static const int first[MAX_RANK];
  if (!aot_cu.cuTensorMapEncodeIm2col) {
    char message[256];
    int code = aot_driver_lacks("cuTensorMapEncodeIm2col", message, sizeof message);
    return aot_record(frame, code, "%s", message);
  }
  return aot_record_driver(frame, aot_cu.cuTensorMapEncodeIm2col(map, t->type, t->rank, t->address, t->extents, t->strides, first,
                                                                 t->last + 1, t->box[0], t->pixels, t->element_strides, t->interleave,
                                                                 t->swizzle, l2_promotion, out_of_bounds),
                           "cuTensorMapEncodeIm2col (rank %u, element type %d, swizzle %d)", t->rank, t->type, t->swizzle);
}

static int encode(aot_frame *frame, const tile *t, int l2_promotion, int out_of_bounds, CUtensorMap *map) {
  if (t->pixels) return encode_walk(frame, t, l2_promotion, out_of_bounds, map);
  if (!aot_cu.cuTensorMapEncodeTiled) {
    char message[256];
    int code = aot_driver_lacks("cuTensorMapEncodeTiled", message, sizeof message);
    return aot_record(frame, code, "%s", message);
  }
  return aot_record_driver(frame, aot_cu.cuTensorMapEncodeTiled(map, t->type, t->rank, t->address, t->extents, t->strides, t->box,
                                                                t->element_strides, t->interleave, t->swizzle, l2_promotion, out_of_bounds),
                           "cuTensorMapEncodeTiled (rank %u, element type %d, interleave %d, swizzle %d)", t->rank, t->type, t->interleave,
                           t->swizzle);
}

void *mgpuTensorMapEncodeTiledMemref(int64_t rank, void *descriptor, int type, int interleave, int swizzle, int l2_promotion,
                                     int out_of_bounds, int64_t *box) {
  aot_frame *frame = aot_frame_here("nvgpu.tma.create.descriptor");
  if (rank < 1 || rank > MAX_RANK) aot_fail(AOT_E_LIMIT, "TMA descriptor: rank %lld is not between 1 and %d", (long long)rank, MAX_RANK);
  if (type < 0 || type >= NTYPES) aot_fail(AOT_E_INTERNAL, "TMA descriptor: unknown element type %d", type);
  tile t = { .rank = (uint32_t)rank, .type = type, .interleave = interleave, .swizzle = swizzle };
  CUtensorMap map;
  uint64_t address = 0;
  describe_tile(&t, descriptor, box);
  must(frame, check(frame, &t));
  must(frame, encode(frame, &t, l2_promotion, out_of_bounds, &map));
  must(frame, aot_device_alloc(frame, sizeof map, frame->stream, &address));
  must(frame, send(frame, address, &map));
  must(frame, aot_chains_after_caller(frame));
  return (void *)(uintptr_t)address;
}

/* ------------------------------------------------------------------ by value */

typedef struct { tile tile; uint64_t context_id; CUtensorMap map; } kept_map;
static kept_map recent[RECENT];                                /* by hash; all zero where nothing is kept */
static pthread_mutex_t recent_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local tile described;                           /* by aot_rt_tensor_axis, so far */
static _Thread_local CUtensorMap given[A_LAUNCH];
static _Thread_local unsigned turn;

static kept_map *place(const tile *t, uint64_t context_id) {
  const unsigned char *bytes = (const unsigned char *)t;
  uint64_t hash = context_id, word;
  for (size_t i = 0; i + sizeof word <= sizeof *t; i += sizeof word) {
    memcpy(&word, bytes + i, sizeof word);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return &recent[hash % RECENT];
}

static int encoded(aot_frame *frame, const tile *t, CUtensorMap *map) {
  kept_map *mine = place(t, frame->context_id);
  pthread_mutex_lock(&recent_lock);
  int known = mine->context_id == frame->context_id && !memcmp(&mine->tile, t, sizeof *t);
  if (known) *map = mine->map;
  pthread_mutex_unlock(&recent_lock);
  if (known) return 0;
  int code = check(frame, t);
  if (!code) code = encode(frame, t, L2_PROMOTION_128B, ZEROS_OUTSIDE, map);
  if (code) return code;
  pthread_mutex_lock(&recent_lock);
  mine->tile = *t;
  mine->context_id = frame->context_id;
  mine->map = *map;
  pthread_mutex_unlock(&recent_lock);
  return 0;
}

void aot_rt_tensor_axis(int64_t extent, int64_t stride, int64_t box) {
  tile *t = &described;
  if (t->rank == MAX_RANK) {
    t->rank = 0;
    aot_fail(AOT_E_INTERNAL, "TMA descriptor: more than %d axes", MAX_RANK);
  }
  t->extents[t->rank] = (uint64_t)extent;
  t->box[t->rank] = (uint32_t)box;
  t->element_strides[t->rank] = 1;
  if (t->rank) t->strides[t->rank - 1] = (uint64_t)stride;
  t->rank++;
}

void aot_rt_tensor_walk(int64_t step, int64_t reach) {
  tile *t = &described;
  if (!t->rank) aot_fail(AOT_E_INTERNAL, "TMA descriptor: a walk without an axis");
  t->element_strides[t->rank - 1] = (uint32_t)step;
  t->last[t->rank - 1] = (int32_t)-reach;
}

void aot_rt_tensor_pixels(int64_t pixels) { described.pixels = (uint32_t)pixels; }

void *aot_rt_tensor_map(int64_t address, int32_t type, int32_t swizzle) {
  aot_frame *frame = aot_frame_here("aot_rt_tensor_map");
  tile t;
  memcpy(&t, &described, sizeof t);                            /* padding, too: it is part of what is compared */
  memset(&described, 0, sizeof described);
  t.address = (char *)(intptr_t)address;
  t.type = type;
  t.swizzle = swizzle;
  CUtensorMap *map = &given[turn++ % A_LAUNCH];
  must(frame, encoded(frame, &t, map));
  return map;
}
