/* Between the exported functions for tvm-ffi and the runtime (ffi_tvm.c). */
#ifndef AOT_FFI_TVM_H
#define AOT_FFI_TVM_H
#include "aot.h"

typedef struct aot_tvm_any {                                   /* tvm-ffi's TVMFFIAny */
  int32_t type, padding;
  union { int64_t integer; double real; const void *pointer; } value;
} aot_tvm_any;

int aot_tvm_call(const aot_function *function, const aot_tvm_any *args, int32_t count, aot_tvm_any *result);

#endif
