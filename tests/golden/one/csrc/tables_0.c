/* Made by aot 0.1.0. Constants only: some of the sources that tables.c lists. */
#include "aot.h"

/* softmax */
extern const unsigned char aot_blob_softmax[];
extern void aot_entry_softmax__forward(void **slots);
extern void aot_entry_softmax__inplace(void **slots);
extern const aot_source aot_source_softmax;
static aot_state state_softmax;
static const aot_function functions_softmax[] = {
  { .name = "forward", .doc = "forward(x, axis, *, stream=None, out=None)\n--\n\nSoftmax of each row, \"numerically stable\".\nRows may be empty: 0 x 128 \\ any.\n\nx: tensor<?x128xf32>\naxis: i32\nReturns tensor<?x128xf32>.", .entry = aot_entry_softmax__forward, .source = &aot_source_softmax,
    .nargs = 2, .nresults = 1, .flags = 0,
    .cpu = NULL,
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
  { .name = "inplace", .doc = "inplace(out, *, stream=None)\n--\n\nout: tensor<?x128xf32>, written and returned\nReturns out.", .entry = aot_entry_softmax__inplace, .source = &aot_source_softmax,
    .nargs = 1, .nresults = 1, .flags = 0,
    .cpu = NULL,
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
