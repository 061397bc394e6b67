/* memrefCopy: what memref.copy between layouts becomes in host code. Elements that lie together in both arrays are copied
 * together; where either array is device memory the copies go to the call's stream. */
#include "rt.h"
#include <string.h>

typedef struct {
  aot_frame *frame;
  int64_t rank, run;                                           /* axes that are walked; bytes copied at once */
  const int64_t *sizes, *from_strides, *to_strides;
  int64_t element_bytes;
  int on_device;
} copying;

static void copy_run(const copying *c, char *to, const char *from) {
  if (!c->on_device) {
    memmove(to, from, (size_t)c->run);
    return;
  }
  int code = aot_cu.cuMemcpyAsync((uintptr_t)to, (uintptr_t)from, (size_t)c->run, (CUstream)c->frame->stream);
  must(c->frame, aot_record_driver(c->frame, code, "cuMemcpyAsync of %lld bytes", (long long)c->run));
}

static void walk(const copying *c, int64_t axis, char *to, const char *from) {
  if (axis == c->rank) {
    copy_run(c, to, from);
    return;
  }
  for (int64_t i = 0; i < c->sizes[axis]; i++)
    walk(c, axis + 1, to + i * c->to_strides[axis] * c->element_bytes, from + i * c->from_strides[axis] * c->element_bytes);
}

/* The innermost axes that are dense in both arrays become one run. */
static void merge_dense(copying *c) {
  int64_t elements = 1;
  while (c->rank > 0) {
    int64_t axis = c->rank - 1;
    if (c->sizes[axis] != 1 && (c->from_strides[axis] != elements || c->to_strides[axis] != elements)) break;
    elements *= c->sizes[axis];
    c->rank--;
  }
  c->run = elements * c->element_bytes;
}

void memrefCopy(int64_t element_bytes, void *source, void *target) {
  const aot_unranked *from = source, *to = target;
  aot_frame *frame = aot_frame_here("memref.copy");
  int64_t rank = from->rank;
  for (int64_t i = 0; i < rank; i++)
    if (!from->array->dims[i]) return;
  int from_device = 0, to_device = 0;
  must(frame, aot_is_device_memory(frame, from->array->aligned, &from_device));
  must(frame, aot_is_device_memory(frame, to->array->aligned, &to_device));
  copying c = { .frame = frame, .rank = rank, .sizes = from->array->dims, .from_strides = from->array->dims + rank,
                .to_strides = to->array->dims + rank, .element_bytes = element_bytes, .on_device = from_device || to_device };
  merge_dense(&c);
  frame->worked |= (uint8_t)c.on_device;
  walk(&c, 0, (char *)to->array->aligned + to->array->offset * element_bytes,
       (const char *)from->array->aligned + from->array->offset * element_bytes);
  if (from_device != to_device) must(frame, aot_wait(frame, "it copies between host and device memory"));
}
