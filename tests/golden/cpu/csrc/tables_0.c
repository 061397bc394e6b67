/* Made by aot 0.1.0. Constants only: some of the sources that tables.c lists. */
#include "aot.h"

/* scale */
extern const unsigned char aot_blob_scale[];
extern const aot_source aot_source_scale;
static aot_state state_scale;
static const aot_kernel kernels_scale[] = {
  { .symbol = "kernels__scale", .name = "scale", .doc = "scale(x, n, *, grid=None, block=None, shared=None, cluster=None, cooperative=None, programmatic=None, priority=None, stream=None)\n--\n\nx: memref<?x8xbf16, strided<[?, 1], offset: ?>>, may be written\nn: index\nBlocks are of (32, 1, 1) threads.", .source = &aot_source_scale,
    .nparams = 2, .callable = 1, .bare = 0,
    .grid = { (const int64_t[]){ INT64_C(2), INT64_C(0), INT64_C(1), INT64_C(32), INT64_C(7), INT64_C(0) }, (const int64_t[]){ INT64_C(3), INT64_C(0), INT64_C(0) }, NULL }, .block = { (const int64_t[]){ INT64_C(1), INT64_C(32), INT64_C(0) }, NULL, NULL },
    .shared = (const int64_t[]){ INT64_C(2), INT64_C(1), INT64_C(1), INT64_C(3), INT64_C(4), INT64_C(1), INT64_C(2), INT64_C(5), INT64_C(0) }, .cluster = { 2, 1, 1 }, .how = { 0, 0, 0, 0 }, .required_block = { 32, 1, 1 },
    .params = (const aot_value[]){
    { .name = "x", .type = "memref<?x8xbf16, strided<[?, 1], offset: ?>>", .kind = AOT_ARRAY, .role = AOT_REF,
      .dl_code = AOT_DL_BFLOAT, .dl_bits = 16, .index = 0, .rank = 2, .alias = -1,
      .shape = (const int64_t[]){ AOT_DYNAMIC, INT64_C(8) }, .strides = (const int64_t[]){ AOT_DYNAMIC, INT64_C(1) }, .offset = AOT_DYNAMIC, .storage = 2 },
    { .name = "n", .type = "index", .kind = AOT_SCALAR, .role = AOT_IN,
      .dl_code = AOT_DL_INT, .dl_bits = 64, .index = 1, .rank = 0, .alias = -1,
      .shape = NULL, .strides = NULL, .offset = INT64_C(0), .storage = 8 },
  } },
};
static const aot_image images_scale[] = {
  { "sm_80", "sm_80", "cubin" },
  { "sm_90", "sm_90a", "cubin" },
};
const aot_source aot_source_scale = {
  .name = "scale", .blob = aot_blob_scale, .blob_bytes = 33,
  .kernels = kernels_scale, .nkernels = 1,
  .functions = NULL, .nfunctions = 0,
  .images = images_scale, .nimages = 2,
  .messages = NULL, .state = &state_scale,
};

/* softmax */
extern const unsigned char aot_blob_softmax[];
extern void aot_entry_softmax__forward(void **slots);
extern void aot_entry_softmax__inplace(void **slots);
#if defined(__aarch64__)
extern void aot_cpu_entry_softmax__forward__generic(void **slots);
static const aot_entry cpu_softmax__forward[AOT_CPU_VARIANTS] = { [AOT_CPU_GENERIC] = aot_cpu_entry_softmax__forward__generic, };
#elif defined(__x86_64__)
extern void aot_cpu_entry_softmax__forward__v2(void **slots);
extern void aot_cpu_entry_softmax__forward__v3(void **slots);
static const aot_entry cpu_softmax__forward[AOT_CPU_VARIANTS] = { [AOT_CPU_V2] = aot_cpu_entry_softmax__forward__v2, [AOT_CPU_V3] = aot_cpu_entry_softmax__forward__v3, };
#endif
#if defined(__aarch64__)
extern void aot_cpu_entry_softmax__inplace__generic(void **slots);
static const aot_entry cpu_softmax__inplace[AOT_CPU_VARIANTS] = { [AOT_CPU_GENERIC] = aot_cpu_entry_softmax__inplace__generic, };
#elif defined(__x86_64__)
extern void aot_cpu_entry_softmax__inplace__v2(void **slots);
extern void aot_cpu_entry_softmax__inplace__v3(void **slots);
static const aot_entry cpu_softmax__inplace[AOT_CPU_VARIANTS] = { [AOT_CPU_V2] = aot_cpu_entry_softmax__inplace__v2, [AOT_CPU_V3] = aot_cpu_entry_softmax__inplace__v3, };
#endif
extern const aot_source aot_source_softmax;
static aot_state state_softmax;
static const aot_function functions_softmax[] = {
  { .name = "forward", .doc = "forward(x, axis, *, stream=None, out=None)\n--\n\nSoftmax of each row, \"numerically stable\".\nRows may be empty: 0 x 128 \\ any.\n\nx: tensor<?x128xf32>\naxis: i32\nReturns tensor<?x128xf32>.\nWith arrays in host memory it runs on the CPU.", .entry = aot_entry_softmax__forward, .source = &aot_source_softmax,
    .nargs = 2, .nresults = 1, .flags = 0,
    .cpu = cpu_softmax__forward,
    .args = (const aot_value[]){
    { .name = "x", .type = "tensor<?x128xf32>", .kind = AOT_ARRAY, .role = AOT_IN,
      .dl_code = AOT_DL_FLOAT, .dl_bits = 32, .index = 0, .rank = 2, .alias = -1,
      .shape = (const int64_t[]){ AOT_DYNAMIC, INT64_C(128) }, .strides = NULL, .offset = INT64_C(0), .storage = 4 },
    { .name = "axis", .type = "i32", .kind = AOT_SCALAR, .role = AOT_IN,
      .dl_code = AOT_DL_INT, .dl_bits = 32, .index = 0, .rank = 0, .alias = -1,
      .shape = NULL, .strides = NULL, .offset = INT64_C(0), .storage = 4 },
  },
    .results = (const aot_value[]){
    { .name = "", .type = "tensor<?x128xf32>", .kind = AOT_ARRAY, .role = AOT_IN,
      .dl_code = AOT_DL_FLOAT, .dl_bits = 32, .index = 0, .rank = 2, .alias = -1,
      .shape = (const int64_t[]){ AOT_DYNAMIC, INT64_C(128) }, .strides = NULL, .offset = INT64_C(0), .storage = 4 },
  } },
  { .name = "inplace", .doc = "inplace(out, *, stream=None)\n--\n\nout: tensor<?x128xf32>, written and returned\nReturns out.\nWith arrays in host memory it runs on the CPU.", .entry = aot_entry_softmax__inplace, .source = &aot_source_softmax,
    .nargs = 1, .nresults = 1, .flags = 0,
    .cpu = cpu_softmax__inplace,
    .args = (const aot_value[]){
    { .name = "out", .type = "tensor<?x128xf32>", .kind = AOT_ARRAY, .role = AOT_DESTINATION,
      .dl_code = AOT_DL_FLOAT, .dl_bits = 32, .index = 0, .rank = 2, .alias = -1,
      .shape = (const int64_t[]){ AOT_DYNAMIC, INT64_C(128) }, .strides = NULL, .offset = INT64_C(0), .storage = 4 },
  },
    .results = (const aot_value[]){
    { .name = "", .type = "tensor<?x128xf32>", .kind = AOT_ARRAY, .role = AOT_IN,
      .dl_code = AOT_DL_FLOAT, .dl_bits = 32, .index = 0, .rank = 2, .alias = 0,
      .shape = (const int64_t[]){ AOT_DYNAMIC, INT64_C(128) }, .strides = NULL, .offset = INT64_C(0), .storage = 4 },
  } },
};
static const aot_kernel kernels_softmax[] = {
  { .symbol = "softmax__forward_kernel", .name = "forward_kernel", .doc = "forward_kernel(*, grid, block, shared=None, cluster=None, cooperative=None, programmatic=None, priority=None, stream=None)\n--\n\n", .source = &aot_source_softmax,
    .nparams = 0, .callable = 0, .bare = 0,
    .grid = { NULL, NULL, NULL }, .block = { NULL, NULL, NULL },
    .shared = NULL, .cluster = { 0, 0, 0 }, .how = { 0, 0, 0, 0 }, .required_block = { 0, 0, 0 },
    .params = NULL },
};
static const aot_image images_softmax[] = {
  { "sm_80", "sm_80", "cubin" },
  { "sm_90", "sm_90a", "cubin" },
};
static const char *const messages_softmax[] = {
  "bad ?? axis\n",
};
const aot_source aot_source_softmax = {
  .name = "softmax", .blob = aot_blob_softmax, .blob_bytes = 33,
  .kernels = kernels_softmax, .nkernels = 1,
  .functions = functions_softmax, .nfunctions = 2,
  .images = images_softmax, .nimages = 2,
  .messages = messages_softmax, .state = &state_softmax,
};
