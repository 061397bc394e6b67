/* Calls without Python: what XLA, tvm-ffi and C programs have in common (native.c). */
#ifndef AOT_NATIVE_H
#define AOT_NATIVE_H
#include "aot.h"
#include "dlpack.h"

typedef struct aot_operand {                                   /* an argument or a result */
  uint64_t address;                                            /* of an array's first element, or of a number that is written */
  const int64_t *shape, *strides;                              /* elements; strides NULL: row-major */
  int32_t rank;
  uint8_t code, bits;                                          /* DLPack's element type */
  int64_t integer;                                             /* a number that goes in, by its type */
  double real[2];
  int64_t made[AOT_MAX_RANK];                                  /* extents of a result that the call allocated */
  uint8_t owned;                                               /* it did: whoever made the call gives the memory back */
} aot_operand;

typedef struct aot_native_call {
  const aot_function *function;
  const aot_operand *args;                                     /* one per argument */
  aot_operand *results;                                        /* one per result; those that are arguments are not looked at */
  void *stream;
  int32_t device;                                              /* of the arrays; -1: that of the stream, or the current one */
  uint8_t on_cpu;
  uint8_t numbers_on_device;                                   /* where results that are numbers are written */
  uint8_t allocates;                                           /* results with address 0 get memory: from the pool, or of posix_memalign;
                                                                  a call that fails has given it back */
} aot_native_call;

void aot_operand_is(aot_operand *operand, const dl_tensor *array);   /* what DLPack says of an array */
/* 0, or a code with its text in `message`. Nothing is waited for that the function does not wait for itself. */
int aot_native_run(aot_native_call *call, char *message, size_t size);

/* ffi_xla.c: handlers of XLA, which gives them its call frames. */
void *aot_xla_cpu(const void *frame);
void *aot_xla_gpu(const void *frame);

#endif
