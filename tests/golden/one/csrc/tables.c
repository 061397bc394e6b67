/* Made by aot 0.1.0. Constants only: what this package holds, as csrc/runtime/aot.h describes it. */
#include "aot.h"
extern const aot_source aot_source_softmax;

static const aot_source *const sources[] = { &aot_source_softmax, NULL };
const aot_package aot_this_package = {
  .name = "my_kernels", .version = "1.2.0", .toolchain = "ptxas 13.5.33, MLIR 22.1.8",
  .min_driver_cuda = 13000, .sources = sources, .nsources = 1,
};
