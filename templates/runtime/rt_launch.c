/* Launching: limits checked with their numbers, empty grids skipped, clusters and other attributes through cuLaunchKernelEx. */
#include "rt.h"

static const int64_t grid_limit[3] = { INT32_MAX, 65535, 65535 }, block_limit[3] = { 1024, 1024, 64 };
enum { MAX_BLOCK_THREADS = 1024, MAX_CLUSTER = 16 };

#define EXTENTS(v) (long long)(v)[0], (long long)(v)[1], (long long)(v)[2]

static int out_of_limits(aot_frame *frame, const char *name, const char *what, const int64_t *extents, const int64_t *limits) {
  return aot_record(frame, AOT_E_LIMIT, "kernel %s: %s %lld x %lld x %lld is outside the limits %lld x %lld x %lld", name, what,
                    EXTENTS(extents), EXTENTS(limits));
}

static int check_grid(aot_frame *frame, const char *name, const int64_t *grid) {
  for (int i = 0; i < 3; i++)
    if (AOT_UNLIKELY(grid[i] < 0 || grid[i] > grid_limit[i])) return out_of_limits(frame, name, "grid", grid, grid_limit);
  return 0;
}

/* Nothing to do, and the driver refuses such a launch. Its block may be anything: sizes computed from an extent of 0. */
static int is_empty(const int64_t *grid) { return !grid[0] || !grid[1] || !grid[2]; }

static int check_block(aot_frame *frame, const aot_loaded_kernel *kernel, const int64_t *block) {
  for (int i = 0; i < 3; i++)
    if (AOT_UNLIKELY(block[i] < 1 || block[i] > block_limit[i])) return out_of_limits(frame, kernel->name, "block", block, block_limit);
  int64_t threads = block[0] * block[1] * block[2];
  int64_t most = kernel->max_threads < MAX_BLOCK_THREADS ? kernel->max_threads : MAX_BLOCK_THREADS;
  if (AOT_LIKELY(threads <= most)) return 0;
  return aot_record(frame, AOT_E_LIMIT, "kernel %s: a block of %lld x %lld x %lld has %lld threads, the limit is %lld%s", kernel->name,
                    EXTENTS(block), (long long)threads, (long long)most,
                    most < MAX_BLOCK_THREADS ? " for this kernel on this device (registers or its launch bounds)" : "");
}

static int check_shared(aot_frame *frame, const aot_loaded_kernel *kernel, int64_t shared) {
  if (AOT_LIKELY(shared >= 0 && shared <= kernel->max_dynamic_shared)) return 0;
  if (shared < 0) return aot_record(frame, AOT_E_SIZE, "negative size: kernel %s with %lld bytes of dynamic shared memory", kernel->name,
                                    (long long)shared);
  return aot_record(frame, AOT_E_LIMIT, "kernel %s: %lld bytes of dynamic and %d of static shared memory a block are more than the %d "
                                        "that device %d allows", kernel->name, (long long)shared, kernel->static_shared,
                    kernel->max_dynamic_shared + kernel->static_shared, frame->device);
}

static int check_cluster(aot_frame *frame, const char *name, const int64_t *cluster, const int64_t *grid) {
  for (int i = 0; i < 3; i++)
    if (cluster[i] < 1 || cluster[i] > MAX_CLUSTER || grid[i] % cluster[i])
      return aot_record(frame, AOT_E_LIMIT, "kernel %s: grid %lld x %lld x %lld cannot be divided into clusters of %lld x %lld x %lld "
                                            "(at most %d blocks)", name, EXTENTS(grid), EXTENTS(cluster), MAX_CLUSTER);
  if (cluster[0] * cluster[1] * cluster[2] <= MAX_CLUSTER) return 0;
  return aot_record(frame, AOT_E_LIMIT, "kernel %s: a cluster of %lld x %lld x %lld has more than %d blocks", name, EXTENTS(cluster),
                    MAX_CLUSTER);
}

static int launch_plain(const aot_loaded_kernel *kernel, const aot_geometry *g, CUstream stream, void **params) {
  return aot_cu.cuLaunchKernel(kernel->function, (unsigned)g->grid[0], (unsigned)g->grid[1], (unsigned)g->grid[2],
                               (unsigned)g->block[0], (unsigned)g->block[1], (unsigned)g->block[2], (unsigned)g->shared, stream,
                               params, NULL);
}

/* The next kernel's blocks are handed out while the last ones of the kernel ahead still run; it waits for that itself. */
static int launch_early(const aot_loaded_kernel *kernel, const unsigned *sizes, unsigned shared, CUstream stream, void **params) {
  CUlaunchAttribute attribute = { .id = CU_LAUNCH_PROGRAMMATIC, .value.number = 1 };
  CUlaunchConfig config = { sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], shared, stream, &attribute, 1 };
  return aot_cu.cuLaunchKernelEx(&config, kernel->function, params, NULL);
}

/* A cluster of one block is what every launch has: no need of a driver or device that knows clusters. */
static int has_clusters(const int64_t *cluster) { return cluster[0] > 1 || cluster[1] > 1 || cluster[2] > 1 || cluster[0] < 0; }

static int has_attributes(const aot_how *how) { return how->cooperative || how->programmatic || how->prioritized; }

static CUlaunchAttribute attribute(int id, int number) { return (CUlaunchAttribute){ .id = id, .value.number = number }; }

static unsigned list_attributes(const aot_geometry *g, CUlaunchAttribute *attributes) {
  unsigned count = 0;
  if (has_clusters(g->cluster)) {
    attributes[count] = (CUlaunchAttribute){ .id = CU_LAUNCH_CLUSTER_DIMENSION };
    for (int i = 0; i < 3; i++) attributes[count].value.clusterDim[i] = (unsigned)g->cluster[i];
    attributes[++count] = attribute(CU_LAUNCH_CLUSTER_POLICY, CU_CLUSTER_POLICY_SPREAD);
    count++;
  }
  if (g->how.cooperative) attributes[count++] = attribute(CU_LAUNCH_COOPERATIVE, 1);
  if (g->how.programmatic) attributes[count++] = attribute(CU_LAUNCH_PROGRAMMATIC, 1);
  if (g->how.prioritized) attributes[count++] = attribute(CU_LAUNCH_PRIORITY, g->how.priority);
  return count;
}

static int launch_with_attributes(const aot_loaded_kernel *kernel, const aot_geometry *g, CUstream stream, void **params) {
  CUlaunchAttribute attributes[5];
  CUlaunchConfig config = { (unsigned)g->grid[0], (unsigned)g->grid[1], (unsigned)g->grid[2], (unsigned)g->block[0], (unsigned)g->block[1],
                            (unsigned)g->block[2], (unsigned)g->shared, stream, attributes, list_attributes(g, attributes) };
  if (g->cluster[0] * g->cluster[1] * g->cluster[2] > AOT_PORTABLE_CLUSTER) {
    int code = aot_cu.cuFuncSetAttribute(kernel->function, CU_FUNC_NON_PORTABLE_CLUSTER, 1);
    if (code) return code;
  }
  return aot_cu.cuLaunchKernelEx(&config, kernel->function, params, NULL);
}

static int failed(aot_frame *frame, int code, const aot_loaded_kernel *kernel, const aot_geometry *g) {
  int clusters = has_clusters(g->cluster);
  const char *call = clusters || has_attributes(&g->how) ? "cuLaunchKernelEx" : "cuLaunchKernel";
  if (!clusters)
    return aot_record_driver(frame, code, "%s of %s, grid %lld x %lld x %lld, block %lld x %lld x %lld, %lld bytes shared%s", call,
                             kernel->name, EXTENTS(g->grid), EXTENTS(g->block), (long long)g->shared,
                             g->how.cooperative ? " (cooperative: all blocks must fit on the device at the same time)" : "");
  return aot_record_driver(frame, code, "%s of %s, grid %lld x %lld x %lld, block %lld x %lld x %lld, cluster %lld x %lld x %lld, "
                                        "%lld bytes shared (clusters need compute capability 9.0 or later)", call, kernel->name,
                           EXTENTS(g->grid), EXTENTS(g->block), EXTENTS(g->cluster), (long long)g->shared);
}

int aot_launch_loaded(aot_frame *frame, const aot_loaded_kernel *kernel, const aot_geometry *g, CUstream stream, void **params) {
  int clusters = has_clusters(g->cluster), special = clusters || has_attributes(&g->how);
  int code = check_grid(frame, kernel->name, g->grid);
  if (code || is_empty(g->grid)) return code;
  code = check_block(frame, kernel, g->block);
  if (!code) code = check_shared(frame, kernel, g->shared);
  if (!code && AOT_UNLIKELY(clusters)) code = check_cluster(frame, kernel->name, g->cluster, g->grid);
  if (code) return code;
  if (AOT_UNLIKELY(special) && !aot_cu.cuLaunchKernelEx) {
    char message[256];
    code = aot_driver_lacks("cuLaunchKernelEx", message, sizeof message);
    return aot_record(frame, code, "kernel %s uses %s: %s", kernel->name, clusters ? "clusters" : "launch attributes", message);
  }
  frame->worked = 1;
  code = special ? launch_with_attributes(kernel, g, stream, params) : launch_plain(kernel, g, stream, params);
  return AOT_LIKELY(!code) ? 0 : failed(frame, code, kernel, g);
}

static int check_required(aot_frame *frame, const aot_kernel *kernel, const int64_t *block) {
  const uint32_t *must_be = kernel->required_block;
  for (int i = 0; i < 3; i++)
    if (AOT_UNLIKELY(must_be[i] && must_be[i] != block[i]))
      return aot_record(frame, AOT_E_LIMIT, "kernel %s was compiled for blocks of %u x %u x %u threads, got %lld x %lld x %lld",
                        kernel->name, must_be[0], must_be[1], must_be[2], EXTENTS(block));
  return 0;
}

static int load_kernel(aot_frame *frame, const aot_source *source, uint32_t kernel) {
  char message[AOT_MESSAGE_BYTES];
  void *function;
  int code = aot_kernel_handle(source, kernel, frame->context_id, &function, message, sizeof message);
  return code ? aot_record(frame, code, "%s", message) : 0;
}

int aot_launch(aot_frame *frame, const aot_source *source, uint32_t kernel, const aot_geometry *geometry, void *stream, void **params) {
  if (AOT_UNLIKELY(is_empty(geometry->grid) && kernel < source->nkernels))
    return check_grid(frame, source->kernels[kernel].name, geometry->grid);
  const aot_loaded_kernel *loaded = aot_loaded_kernel_of(source, kernel, frame->context_id);
  if (AOT_UNLIKELY(!loaded || !loaded->function)) {
    int code = load_kernel(frame, source, kernel);
    if (code) return code;
    loaded = aot_loaded_kernel_of(source, kernel, frame->context_id);
  }
  int code = check_required(frame, &source->kernels[kernel], geometry->block);
  return code ? code : aot_launch_loaded(frame, loaded, geometry, aot_stream_or(frame, stream), params);
}

int32_t aot_rt_serves(int32_t needs) {
  aot_frame *frame = aot_frame_here("aot_rt_serves");
  const aot_source *source = frame->function->source;
  uint32_t kernel = 0;
  while (kernel < source->nkernels && source->kernels[kernel].needs != needs) kernel++;
  if (kernel == source->nkernels) return 0;
  const aot_loaded_kernel *loaded = aot_loaded_kernel_of(source, kernel, frame->context_id);
  if (AOT_UNLIKELY(!loaded)) {
    char message[AOT_MESSAGE_BYTES];
    int code = aot_module_load(source, frame->context_id, message, sizeof message);
    must(frame, code ? aot_record(frame, code, "%s", message) : 0);
    loaded = aot_loaded_kernel_of(source, kernel, frame->context_id);
  }
  return loaded->function != NULL;
}

/* A launch that passes all checks of its sizes: all others go the long way, which finds out what is wrong, or what is special. */
static inline int is_ordinary(const aot_loaded_kernel *kernel, int64_t gx, int64_t gy, int64_t gz, int64_t bx, int64_t by, int64_t bz,
                              int64_t shared) {
  const uint32_t *must_be = kernel->required_block;
  return !kernel->special && (uint64_t)gx - 1 < INT32_MAX && (uint64_t)gy - 1 < 65535 && (uint64_t)gz - 1 < 65535 &&
         (uint64_t)bx - 1 < 1024 && (uint64_t)by - 1 < 1024 && (uint64_t)bz - 1 < 64 && bx * by * bz <= kernel->max_threads && shared >= 0 &&
         shared <= kernel->max_dynamic_shared &&
         (!must_be || ((!must_be[0] || must_be[0] == bx) && (!must_be[1] || must_be[1] == by) && (!must_be[2] || must_be[2] == bz)));
}

/* Everything but an ordinary launch that succeeds; `code` is what the driver said to one. Sizes by value: they stay in registers. */
__attribute__((noinline)) static void launch_any(aot_frame *frame, const aot_source *source, uint32_t kernel, aot_geometry geometry,
                                                 void *stream, void **params, int code) {
  const aot_loaded_kernel *loaded = aot_loaded_kernel_of(source, kernel, frame->context_id);
  if (kernel < source->nkernels) geometry.how = source->kernels[kernel].how;
  geometry.how.programmatic = loaded && loaded->early;
  if (code) code = failed(frame, code, loaded, &geometry);
  else code = aot_launch(frame, source, kernel, &geometry, stream, params);
  must(frame, code);
}

AOT_HOT void aot_rt_launch(const aot_source *source, int32_t kernel, int64_t gx, int64_t gy, int64_t gz, int64_t bx, int64_t by, int64_t bz,
                   int64_t cx, int64_t cy, int64_t cz, int32_t shared, void *stream, void **params, int32_t wait) {
  aot_frame *frame = aot_this_thread.frame;
  if (AOT_UNLIKELY(!frame)) frame = aot_frame_here("aot_rt_launch");
  const aot_loaded_kernel *loaded = aot_loaded_kernel_of(source, (uint32_t)kernel, frame->context_id);
  int ordinary = loaded && loaded->function && (uint64_t)(cx | cy | cz) <= 1 && is_ordinary(loaded, gx, gy, gz, bx, by, bz, shared), code = 0;
  if (AOT_LIKELY(ordinary)) {
    frame->worked = 1;
    const unsigned sizes[6] = { (unsigned)gx, (unsigned)gy, (unsigned)gz, (unsigned)bx, (unsigned)by, (unsigned)bz };
    CUstream to = aot_stream_or(frame, stream);
    code = loaded->early ? launch_early(loaded, sizes, (unsigned)shared, to, params)
                         : aot_cu.cuLaunchKernel(loaded->function, sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5],
                                                 (unsigned)shared, to, params, NULL);
  }
  if (AOT_UNLIKELY(!ordinary || code))
    launch_any(frame, source, (uint32_t)kernel, (aot_geometry){ { gx, gy, gz }, { bx, by, bz }, { cx, cy, cz }, shared, { 0 } }, stream, params, code);
  if (wait && (frame->function->flags & AOT_HOST_SYNC))
    must(frame, aot_wait_stream(frame, aot_stream_or(frame, stream), "its host code waits for a kernel"));
}
