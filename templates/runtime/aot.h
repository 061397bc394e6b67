/* The contract between compiled host code, the generated constant tables and the runtime.
 *
 *   compiled host code (LLVM, from the source's MLIR)  --calls-->  aot_rt_*, mgpu*, print*   [rt_*.c, mgpu_*.c, print.c]
 *   tables.c (generated, constants only)               --describes-->  sources, functions, kernels, blobs
 *   py_*.c (CPython Limited API 3.10)                  --reads tables, checks arguments, calls entries
 *   CPU code (LLVM, of tensor-level functions)         --calls-->  aot_rt_parallel, aot_rt_result*, aot_rt_assert, aot_rt_refuse,
 *                                                                  memory of the host
 *
 * Nothing here is exported from the extension (version script); every symbol is hidden. */
#ifndef AOT_H
#define AOT_H
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

/* ------------------------------------------------------------------ constant tables (tables.c) */

enum { AOT_ARRAY, AOT_SCALAR };                                /* aot_value.kind */
enum { AOT_IN, AOT_DESTINATION, AOT_REF };                     /* aot_value.role, arrays only */

/* DLPack's codes of element types, also used for scalars. */
enum { AOT_DL_INT = 0, AOT_DL_UINT = 1, AOT_DL_FLOAT = 2, AOT_DL_BFLOAT = 4, AOT_DL_COMPLEX = 5, AOT_DL_BOOL = 6,
       AOT_DL_F8E3M4 = 7, AOT_DL_F8E4M3 = 8, AOT_DL_F8E4M3B11FNUZ = 9, AOT_DL_F8E4M3FN = 10, AOT_DL_F8E4M3FNUZ = 11,
       AOT_DL_F8E5M2 = 12, AOT_DL_F8E5M2FNUZ = 13, AOT_DL_F8E8M0FNU = 14, AOT_DL_PTR = 100 };

/* Of functions that every call runs: they lie together, where little has to be fetched again after a launch. */
#define AOT_HOT __attribute__((hot))
#define AOT_DYNAMIC INT64_MIN                                  /* an extent, stride or offset known only at the call */
#define AOT_MAX_RANK 16

typedef struct aot_value {                                     /* an argument, a result or a kernel parameter */
  const char *name;                                            /* argument name; "" for results */
  const char *type;                                            /* MLIR spelling for messages: "memref<?x128xf32>" */
  uint8_t kind, role;
  uint8_t dl_code, dl_bits;                                    /* element type or scalar type */
  uint8_t index;                                               /* 1: MLIR's index type */
  uint8_t rank;
  int16_t alias;                                               /* results: argument whose object is returned, else -1 */
  const int64_t *shape;                                        /* rank entries, AOT_DYNAMIC where not static */
  const int64_t *strides;                                      /* NULL: row-major contiguous; else rank entries, elements */
  int64_t offset;                                              /* elements; AOT_DYNAMIC: any */
  uint8_t storage;                                             /* bytes per element (or scalar) in memory */
} aot_value;

/* Function flags: what host code does besides launching on the caller's stream (aot/model.py has the words). */
enum { AOT_READS_DEVICE = 1, AOT_HOST_SYNC = 2, AOT_MESSAGES = 4, AOT_FORK = 8, AOT_SERIAL = 16 };

struct aot_source;
typedef void (*aot_entry)(void **slots);
/* slots[0..nargs-1]: for an array, a pointer to its MLIR descriptor {alloc, aligned, offset, sizes[rank], strides[rank]}
 * (8-byte fields); for a scalar, a pointer to its value (index, i64: 8 bytes; i1: 1 byte).
 * slots[nargs..nargs+nresults-1]: where results go; NULL for results with alias >= 0. Descriptors for arrays, values for scalars. */

/* Kinds of processors that CPU code is compiled for, from the oldest to the newest (aot/targets/cpuvariant.py). */
#if defined(__x86_64__)
enum { AOT_CPU_V2, AOT_CPU_V3, AOT_CPU_V4, AOT_CPU_VARIANTS };
#else
enum { AOT_CPU_GENERIC, AOT_CPU_VARIANTS };
#endif

typedef struct aot_function {
  const char *name, *doc;                                      /* doc: "f(x, y)\n--\n\n..." as CPython's __text_signature__ wants it */
  aot_entry entry;                                             /* launches on a GPU; NULL: the package was built without GPUs */
  const aot_entry *cpu;                                        /* AOT_CPU_VARIANTS entries, NULL where not built; NULL: no CPU code */
  const struct aot_source *source;
  const aot_value *args, *results;
  uint16_t nargs, nresults;
  uint32_t flags;
} aot_function;

/* Postfix programs over int64: launch defaults of kernels. Dims number all dimensions of the array parameters in order
 * (static ones too), symbols number the integer and index parameters in order. AOT_EXPR_CONST, _DIM and _SYM take the next word. */
enum { AOT_EXPR_END, AOT_EXPR_CONST, AOT_EXPR_DIM, AOT_EXPR_SYM, AOT_EXPR_ADD, AOT_EXPR_MUL, AOT_EXPR_FLOORDIV,
       AOT_EXPR_CEILDIV, AOT_EXPR_MOD };

/* How a kernel is launched, besides its sizes. */
typedef struct aot_how {
  uint8_t cooperative;                                         /* all its blocks run at the same time */
  uint8_t programmatic;                                        /* it may begin before the work ahead of it has ended */
  uint8_t prioritized;                                         /* `priority` instead of the stream's */
  int32_t priority;
} aot_how;

typedef struct aot_kernel {
  const char *symbol;                                          /* name inside the blob */
  const char *name, *doc;                                      /* user's name */
  const struct aot_source *source;
  const aot_value *params;                                     /* arrays expand to 3+2*rank driver parameters */
  uint16_t nparams;
  uint8_t callable;                                            /* exposed to Python */
  uint8_t bare;                                                /* arrays are passed as one pointer each (llvm.func kernels) */
  const int64_t *grid[3], *block[3], *shared;                  /* default programs; NULL: none */
  uint32_t cluster[3];                                         /* 0: none fixed */
  aot_how how;
  uint32_t required_block[3];                                  /* 0: any */
  uint16_t needs;                                              /* not in all images: which ones have it, as aot_rt_serves is asked; 0: all */
} aot_kernel;

typedef struct aot_image { const char *requested, *target, *kind; } aot_image;

struct aot_loaded;                                             /* one context's module and kernels (rt_module.c) */
typedef struct aot_state { struct aot_loaded *loaded; } aot_state;   /* mutable, one per source, starts as all zero */
typedef struct aot_source {
  const char *name;
  const unsigned char *blob;                                   /* NULL: nothing to load */
  size_t blob_bytes;
  const aot_kernel *kernels; uint32_t nkernels;
  const aot_function *functions; uint32_t nfunctions;
  const aot_image *images; uint32_t nimages;
  const char *const *messages;                                 /* texts of host assertions */
  struct aot_state *state;
} aot_source;

typedef struct aot_package {
  const char *name, *version;                                  /* import name: "mykernels" */
  const char *toolchain;                                       /* "ptxas 13.5, MLIR 22.1.8" for messages */
  int min_driver_cuda;                                         /* 13000 = CUDA 13.0: what the cubins need */
  const aot_source *const *sources; uint32_t nsources;
} aot_package;
extern const aot_package aot_this_package;

/* ------------------------------------------------------------------ one call (a frame on the C stack) */

typedef struct { void *alloc, *aligned; int64_t offset, dims[2 * AOT_MAX_RANK]; } aot_descriptor;   /* sizes[rank], strides[rank] */

/* aot_allocation.host: what the address is, which says how it is given back. A CUDA graph keeps AOT_MEM_GRAPH (rt_graph.c);
 * AOT_MEM_SPENT was that and is free for the same call's later work on its stream. */
enum { AOT_MEM_DEVICE, AOT_MEM_HOST, AOT_MEM_MANAGED, AOT_MEM_REGISTERED, AOT_MEM_GRAPH, AOT_MEM_SPENT };
typedef struct aot_allocation { uint64_t address, bytes; uint8_t host; } aot_allocation;

enum { AOT_LIVE_INLINE = 8, AOT_MESSAGE_BYTES = 2048 };

typedef struct aot_frame {                                     /* what every call touches comes first, and lies together */
  struct aot_frame *outer;                                     /* restored when the call ends: allocators can re-enter us */
  const aot_function *function;
  void *context;                                               /* CUcontext of the call */
  uint64_t context_id;                                         /* cuCtxGetId; handles are reused, ids are not */
  void *stream;                                                /* CUstream everything goes to */
  int device;
  int code;                                                    /* of the call's first error: CUresult, or < 0: AOT_E_* */
  /* what the call owns: freed in stream order when it fails, swept when it ends */
  aot_allocation *live; uint32_t nlive, live_capacity;
  /* chains of the call (AOT_FORK, mgpu_stream.c): forks[0..nforks) are its streams, ordered with `stream` by events */
  void **forks; uint32_t nforks;
  uint8_t worked;                                              /* something was enqueued: the device cannot change any more */
  uint8_t printed;                                             /* host code wrote to stdout: flushed when the call ends */
  uint8_t on_cpu;                                              /* a call of CPU code: there may be no driver (aot_run_cpu sets it) */
  void *events, *async;                                        /* events (mgpu_stream.c) and async values (async.c) it made */
  void *caller_context;                                        /* set while gpu.set_default_device has moved the call elsewhere */
  /* Memory for result k with `extents`: 0, or an error code with `message` set (AOT_E_PYTHON: a Python exception is set). Must not
   * longjmp. Who makes the call sets it: aot_result_memory (py_result.c) for Python. */
  int (*memory)(struct aot_frame *frame, int64_t k, int64_t bytes, uint64_t *address);
  void *python;                                                /* the caller's own state */
  jmp_buf unwind;                                              /* where a failing runtime call returns to */
  uint32_t nextents; int64_t extents[AOT_MAX_RANK];            /* of the result being asked for */
  char message[AOT_MESSAGE_BYTES];                             /* of the call's first error */
  aot_allocation live_inline[AOT_LIVE_INLINE];                 /* most calls own a few buffers: no malloc for them */
} aot_frame;

enum { AOT_E_ASSERT = -1, AOT_E_SIZE = -2, AOT_E_LIMIT = -3, AOT_E_INTERNAL = -4, AOT_E_PYTHON = -5 /* a Python exception is set */,
       AOT_E_NO_DRIVER = -6, AOT_E_NO_MEMORY = -7 /* host memory */, AOT_E_FORKED = -8 /* CUDA was used before a fork */,
       AOT_E_CAPTURE = -9 /* host code has to wait, but the stream is being captured */,
       AOT_E_UNSUPPORTED = -10 /* the driver or device lacks something; the message says what */ };

aot_frame *aot_current(void);                                  /* thread-local */
/* Makes the frame the thread's current one and empties what the core owns in it. The caller sets function, context,
 * context_id, stream, device and python (before or after); it need not clear the frame. */
void aot_push(aot_frame *frame);
void aot_pop(aot_frame *frame);
/* aot_push where nothing has to be found out: the context `context_id` is the one that this thread used last, for the frame's
 * device, and it is still current. 0: it is not, and nothing was done. */
int aot_push_familiar(aot_frame *frame, uint64_t context_id);
/* Keeps the first error of the call and returns `code` (no jump): for C functions that compiled code does not call. */
int aot_record(aot_frame *frame, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Records the first error and longjmps to frame->unwind. Called only from C functions that compiled host code calls directly
 * (or their static helpers): never across a framework's C++ or Python frames. */
_Noreturn void aot_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ------------------------------------------------------------------ what compiled host code calls (rt_*.c, mgpu_*.c, print.c) */

/* Launches kernel number `kernel` of the source on `stream` (NULL: the call's stream). Grid in blocks, also with clusters;
 * cluster sizes 0 when there is none. A zero grid extent skips the launch. `wait`: a synchronous launch of launch-level code. */
void aot_rt_launch(const aot_source *source, int32_t kernel, int64_t gx, int64_t gy, int64_t gz, int64_t bx, int64_t by, int64_t bz,
                   int64_t cx, int64_t cy, int64_t cz, int32_t shared, void *stream, void **params, int32_t wait);
/* Device memory of this call (tensor level): stream-ordered from our pool. `out` is memref<?xi8>'s descriptor. */
typedef struct { void *alloc, *aligned; int64_t offset, size, stride; } aot_bytes;
void _mlir_ciface_aot_rt_alloc(aot_bytes *out, int64_t bytes);
void aot_rt_free(int64_t address);
/* Result k of the function: first its extents, axis by axis, then the memory. */
void aot_rt_result_extent(int64_t k, int64_t axis, int64_t extent);
void _mlir_ciface_aot_rt_result(aot_bytes *out, int64_t k, int64_t bytes);
/* Host reads of device memory: the only places where tensor-level host code waits. */
int8_t aot_rt_load_i8(int64_t address);
int16_t aot_rt_load_i16(int64_t address);
int32_t aot_rt_load_i32(int64_t address);
int64_t aot_rt_load_i64(int64_t address);
/* Bytes of shared memory that a block may have on the call's device: host code chooses schedules by it. */
int64_t aot_rt_shared_limit(void);
/* Multiprocessors of the call's device. */
int64_t aot_rt_multiprocessors(void);
/* A TMA descriptor (CUtensorMap) for a kernel that takes it by value: its axes from the innermost on (extent, stride in bytes, box),
 * then the array's address, CUtensorMapDataType and CUtensorMapSwizzle. Elements outside are zeros. Valid for this thread's next launch,
 * which may take eight of them. Host code asks only where address and strides are multiples of 16 and no extent is 0. */
void aot_rt_tensor_axis(int64_t extent, int64_t stride, int64_t box);
/* Of a descriptor whose copies walk over so many pixels, through all axes but the innermost. On the axis named last (not the
 * outermost) the walk goes in steps, and ends so many elements before the axis does: what a convolution's filter reaches over. */
void aot_rt_tensor_walk(int64_t step, int64_t reach);
void aot_rt_tensor_pixels(int64_t pixels);
void *aot_rt_tensor_map(int64_t address, int32_t type, int32_t swizzle);
/* 1 if the image that the driver took holds the source's kernels with this aot_kernel.needs, else 0: host code launches others then. */
int32_t aot_rt_serves(int32_t needs);
/* cf.assert in host code; `message` indexes source->messages. The source is that of the frame's function. */
void aot_rt_assert(_Bool ok, int32_t message);
/* The call's numbers or extents are wrong, as source->messages[message] says: each {} in it is the next of the numbers. */
_Noreturn void aot_rt_refuse(int32_t message, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e);
/* CPU code of tensor-level functions (part of a call on arrays of the CPU). Entries are aot_cpu_entry_<source>__<function>__<variant>,
 * aot_entry with the same slots as the GPU's. Such code calls nothing but: memory (_mlir_memref_to_llvm_*, of the host, and
 * aot_rt_result_extent + _mlir_ciface_aot_rt_result, which give host memory here, aligned for the element type at least),
 * aot_rt_assert, aot_rt_refuse, print*, memcpy/memset/memmove, the C math library, the conversions of rt_half.c, and:
 * aot_rt_parallel. Bodies that it runs cannot fail: they call nothing but memcpy/memset/memmove, the C math library and the
 * conversions of rt_half.c, and never aot_rt_parallel again. They need up to 512 KiB of stack. Results do not depend on how
 * iterations are split: they are independent of each other. */
/* CPU code's loops: body(begin, end, context) for parts that cover [0, count) once, on several threads; returns when all of them
 * are done. Each part but the last is a multiple of `grain` long, and begins at one; up to `grain` iterations are not worth a
 * second thread. Bodies call neither the runtime nor anything that can fail: only the thread of the call can end it. */
void aot_rt_parallel(void (*body)(int64_t begin, int64_t end, void *context), void *context, int64_t count, int64_t grain);
/* Host memory of launch-level functions and of CPU code: names that finalize-memref-to-llvm{use-generic-functions} emits. Tracked, swept. */
void *_mlir_memref_to_llvm_alloc(size_t bytes);
void *_mlir_memref_to_llvm_aligned_alloc(size_t alignment, size_t bytes);
void _mlir_memref_to_llvm_free(void *address);
/* plus mgpu* (mgpu_*.c), mlirAsyncRuntime* (async.c), printMemref*, print* (print.c): upstream's names and signatures. */

/* ------------------------------------------------------------------ runtime core, used by the Python side (rt_*.c) */

/* Opens libcuda (RTLD_LOCAL) and cuInit once; 0, or an error with text in `message` (AOT_E_NO_DRIVER: no driver on this machine). */
int aot_driver(char *message, size_t size);
/* Makes sure a context of `device` is current: the current one if it is of that device, else the device's primary context
 * (the previous context is put in *restore and must be given back with aot_context_leave). */
int aot_context_enter(int device, void **context, uint64_t *id, void **restore);
void aot_context_leave(void *restore);
/* Loads the source's blob in the current context, fetches and loads all its functions; thread-safe, once per context id. */
int aot_module_load(const aot_source *source, uint64_t context_id, char *message, size_t size);
/* Which of source->images the driver took when it was last loaded on the device: the image's position, or one of these. */
enum { AOT_IMAGE_UNKNOWN = -1 /* not made by us */, AOT_IMAGE_NOT_LOADED = -2 };
int aot_source_image(const aot_source *source, int device);
/* Kernel handle in the frame's context; loads the module when needed. 0 or an error recorded like aot_module_load's. */
int aot_kernel_handle(const aot_source *source, uint32_t kernel, uint64_t context_id, void **function, char *message, size_t size);
/* Memory from our pool of the device, stream ordered; the pool serves all contexts of the device. Falls back to cuMemAlloc where
 * a device has no pools. A context of the device must be current (freeing on the legacy stream needs one, too). */
int aot_pool_alloc(int device, void *stream, int64_t bytes, uint64_t *address);
int aot_pool_free(uint64_t address, void *stream);
int aot_pool_trim(int device);                                 /* gives cached memory back to the driver */
/* Runs the function's entry with a frame already pushed: setjmp, entry, message sync, sweep. 0, or frame->code. */
int aot_run(aot_frame *frame, void **slots);
/* aot_push_familiar, aot_run and aot_pop for a function without flags: 1 when it ran, and frame->code tells how it ended. */
int aot_run_familiar(aot_frame *frame, uint64_t context_id, void **slots);
/* The same for an entry of CPU code: the frame's context and stream are not used, and the driver is never called. */
int aot_run_cpu(aot_frame *frame, aot_entry entry, void **slots);
/* The function's newest CPU code that this processor can run; NULL: it has none, or the processor is older than all of them. */
aot_entry aot_cpu_entry(const aot_function *function);
int aot_cpu_variant(void);                                     /* of AOT_CPU_*; -1: this processor is older than all of them */
const char *aot_cpu_variant_name(int variant);                 /* "v3"; "none" for -1 */
int aot_cpu_threads(void);                                     /* that a call of CPU code may use, the caller's included */
/* Launches kernel number `kernel` from C (the Python side's kernel calls): like aot_rt_launch, but an error is recorded in the
 * frame and returned. The frame must be pushed; no aot_run is needed. */
typedef struct aot_geometry { int64_t grid[3], block[3], cluster[3], shared; aot_how how; } aot_geometry;   /* cluster 0: none; shared in bytes */
int aot_launch(aot_frame *frame, const aot_source *source, uint32_t kernel, const aot_geometry *geometry, void *stream, void **params);
/* CUresult -> "CUDA_ERROR_...", AOT_E_* -> a word of ours; never NULL. */
const char *aot_error_name(int code);
/* Text of this thread's last failure of a function that returns a code and takes no message buffer (aot_context_enter, aot_pool_*). */
const char *aot_last_error(void);
/* Device for calls without array arguments: that of the current context, else 0 until gpu.set_default_device is run on this thread. */
int aot_current_device(int *device);
int aot_stream_device(void *stream, int *device);              /* device -1: the driver cannot tell */

#endif
