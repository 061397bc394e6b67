/* Made by aot 0.1.0. Constants only: some of the sources that tables.c lists. */
#include "aot.h"

/* softmax */
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
  { .name = "forward", .doc = "forward(x, axis, *, out=None)\n--\n\nSoftmax of each row, \"numerically stable\".\nRows may be empty: 0 x 128 \\ any.\n\nx: tensor<?x128xf32>\naxis: i32\nReturns tensor<?x128xf32>.\nRuns on the CPU.", .entry = NULL, .source = &aot_source_softmax,
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
  { .name = "inplace", .doc = "inplace(out)\n--\n\nout: tensor<?x128xf32>, written and returned\nReturns out.\nRuns on the CPU.", .entry = NULL, .source = &aot_source_softmax,
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
static const char *const messages_softmax[] = {
  "bad ?? axis\n",
};
const aot_source aot_source_softmax = {
  .name = "softmax", .blob = NULL, .blob_bytes = 0,
  .kernels = NULL, .nkernels = 0,
  .functions = functions_softmax, .nfunctions = 2,
  .images = NULL, .nimages = 0,
  .messages = messages_softmax, .state = &state_softmax,
};
