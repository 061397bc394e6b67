/* What calls are compared with. In: a kernel's handle and its parameters. Out: seconds.
 *
 *   bare_launch   a C loop of cuLaunchKernel and nothing else
 *   __tvm_ffi_*   the same launch behind tvm-ffi's C ABI: kernel and block count are fixed, tensors and floats are the parameters
 *
 * Compiled by call.py with the machine's C compiler; tvm-ffi's entry points are declared here, so that its headers need not be there. */
#include <stdint.h>
#include <time.h>

typedef int (*launch_function)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                               void *stream, void **params, void **extra);

static launch_function launch;
static void *kernel, *(*current_stream)(int32_t device_type, int32_t device);

void bare_setup(void *cuLaunchKernel, void *function, void *stream_getter) {
  launch = (launch_function)(uintptr_t)cuLaunchKernel;
  kernel = function;
  current_stream = (void *(*)(int32_t, int32_t))(uintptr_t)stream_getter;
}

double bare_launch(void *function, void *stream, void **params, int count) {
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < count; i++)
    if (launch(function, 1, 1, 1, 256, 1, 1, 0, stream, params, 0))
      return -1;
  clock_gettime(CLOCK_MONOTONIC, &end);
  return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}

/* ------------------------------------------------------------------ tvm-ffi */

enum { FLOAT = 3, TENSOR_POINTER = 7, TENSOR_OBJECT = 70, OBJECT_HEADER = 24, CUDA = 2, MOST = 16 };
typedef struct { int32_t type, padding; union { int64_t integer; double number; char *pointer; } value; } any;
typedef struct { void *data; int32_t device_type, device; } tensor;   /* the fields of DLTensor that a launch needs */

int __tvm_ffi_launch(void *self, const any *args, int32_t count, any *result) {
  void *addresses[MOST], *params[MOST];
  float numbers[MOST];
  int32_t device = 0;
  (void)self;
  if (count > MOST)
    return -1;
  for (int32_t i = 0; i < count; i++) {
    if (args[i].type == FLOAT) {
      numbers[i] = (float)args[i].value.number;
      params[i] = &numbers[i];
      continue;
    }
    if (args[i].type != TENSOR_POINTER && args[i].type != TENSOR_OBJECT)
      return -1;
    const tensor *array = (const tensor *)(args[i].value.pointer + (args[i].type == TENSOR_OBJECT ? OBJECT_HEADER : 0));
    addresses[i] = array->data;
    params[i] = &addresses[i];
    device = array->device;
  }
  result->type = 0;
  result->value.integer = 0;
  return launch(kernel, 1, 1, 1, 256, 1, 1, 0, current_stream(CUDA, device), params, 0) ? -1 : 0;
}
