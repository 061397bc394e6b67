/* A C program on the static library of traced.mlir, with arrays on a GPU. Prints what differs; exit code 0 when nothing does. */
#include "traced_kernels.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) do { if (!(condition)) { printf("%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, traced_kernels_error()); return 1; } } while (0)
enum { N = 1000, CUDA = 2 };

static void *library;
static float host[N];

/* A function of the driver: what this program needs of it has at most three parameters, all of them words. */
static void driver(const char *name, uintptr_t a, uintptr_t b, uintptr_t c) {
  int (*entry)(uintptr_t, uintptr_t, uintptr_t) = (int (*)(uintptr_t, uintptr_t, uintptr_t))(uintptr_t)dlsym(library, name);
  int code = entry ? entry(a, b, c) : -1;
  if (code) {
    printf("%s: %d\n", name, code);
    exit(1);
  }
}

static traced_kernels_array array(uint64_t address, int64_t *shape) {
  traced_kernels_array made = { .data = (void *)(uintptr_t)address, .device = { CUDA, 0 }, .rank = 1, .dtype = { 2, 32, 1 }, .shape = shape };
  return made;
}

static const float *content(uint64_t address, void *stream) {
  memset(host, 0xff, sizeof host);
  driver("cuStreamSynchronize", (uintptr_t)stream, 0, 0);
  driver("cuMemcpyDtoH_v2", (uintptr_t)host, address, sizeof host);
  return host;
}

int main(void) {
  int64_t n[1] = { N }, made[1] = { 0 }, length = 0;
  uint64_t x = 0, y = 0;
  void *context = NULL, *stream = NULL;
  library = dlopen("libcuda.so.1", RTLD_NOW);
  driver("cuInit", 0, 0, 0);
  driver("cuDevicePrimaryCtxRetain", (uintptr_t)&context, 0, 0);
  driver("cuCtxSetCurrent", (uintptr_t)context, 0, 0);
  driver("cuMemAlloc_v2", (uintptr_t)&x, sizeof host, 0);
  driver("cuMemAlloc_v2", (uintptr_t)&y, sizeof host, 0);
  driver("cuStreamCreate", (uintptr_t)&stream, 1, 0);
  for (int i = 0; i < N; i++)
    host[i] = (float)i;
  driver("cuMemcpyHtoD_v2", x, (uintptr_t)host, sizeof host);
  traced_kernels_array in = array(x, n), out = array(y, n), result = array(0, made);

  CHECK(traced_kernels_traced_scaled_into(&in, 2.5f, &out, NULL) == 0);
  CHECK(content(y, NULL)[N - 1] == 2.5f * (N - 1));
  CHECK(traced_kernels_traced_two(&in, &result, &length, stream) == 0 && length == N && made[0] == N);
  CHECK(content((uintptr_t)result.data, stream)[N - 1] == 2.0f * (N - 1));
  CHECK(traced_kernels_free(&result, stream) == 0 && !result.data);
  for (int i = 0; i < 1000; i++)
    CHECK(traced_kernels_traced_incremented(&in, stream) == 0);
  CHECK(content(x, stream)[1] == 1001.0f);
  in.device.type = 1;
  CHECK(traced_kernels_traced_scaled_into(&in, 2.0f, &out, NULL) != 0 && strstr(traced_kernels_error(), "all in host memory"));
  puts("ok");
  return 0;
}
