/* What the files of the runtime core share with each other, and with py_driver.c (the contract with everybody else is aot.h).
 *
 * Two kinds of functions, told apart by how they fail:
 *   int f(aot_frame *, ...)    records the first error in the frame (aot_record) and returns its code
 *   must(frame, f(frame, ...)) is what functions that compiled code calls directly wrap around them: it jumps to the end of the call */
#ifndef AOT_RT_H
#define AOT_RT_H
#include "aot.h"
#include "driver.h"

#define AOT_LIKELY(x) __builtin_expect(!!(x), 1)
#define AOT_UNLIKELY(x) __builtin_expect(!!(x), 0)

enum { AOT_MAX_DEVICES = 64 };
typedef struct { int64_t rank; aot_descriptor *array; } aot_unranked;   /* a memref of any rank, as compiled code passes it */

/* rt_driver.c */
int aot_driver_state(void);                                    /* 0: open, and not in a forked child; else aot_driver's error */
int aot_driver_lacks(const char *entry, char *message, size_t size);   /* AOT_E_UNSUPPORTED, with the CUDA version that has it */
int aot_driver_version(void);                                  /* 13000 = CUDA 13.0; 0 when it cannot be asked */
/* "cuX failed: CUDA_ERROR_... (n), text" and, for errors that end the context, what that means. Returns code. */
int aot_explain(char *message, size_t size, int code, const char *operation);

/* rt_context.c */
typedef struct aot_thread {                                    /* what a thread remembers: one address to compute in a call */
  aot_frame *frame;                                            /* its innermost call */
  uint64_t context_id;                                         /* the context that it used last, and the device of that */
  CUcontext context;
  int device;
} aot_thread;
extern _Thread_local aot_thread aot_this_thread;
int aot_set_error(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));   /* for aot_last_error */
int aot_set_driver_error(int code, const char *operation);
char *aot_error_buffer(void);                                  /* AOT_MESSAGE_BYTES, this thread's */
int aot_default_device_check(int device);                      /* 0, or a code: there is no such device */
void aot_default_device_set(int device);                       /* one that was checked */

/* rt_module.c */
typedef struct aot_loaded_kernel {
  CUfunction function;                                         /* NULL: not in the image that the driver took */
  const char *name;                                            /* for messages */
  const uint32_t *required_block;                              /* NULL: any */
  int special;                                                 /* the kernel's own attributes want cuLaunchKernelEx, beside: */
  int early;                                                   /* it waits itself for the work ahead of it, and may begin before */
  int max_threads, static_shared, max_dynamic_shared;
} aot_loaded_kernel;
/* One image loaded into the current context; `origin` is what messages call it, `source` may be NULL (mgpuModuleLoad). */
int aot_image_load(const void *image, const char *origin, const aot_source *source, int jit_level, CUmodule *module,
                   char *message, size_t size);
enum { AOT_PORTABLE_CLUSTER = 8 };                              /* blocks: the most without asking for more */
int aot_image_kernel(CUmodule module, const char *symbol, aot_loaded_kernel *kernel, char *message, size_t size);
const aot_loaded_kernel *aot_loaded_kernel_of(const aot_source *source, uint32_t kernel, uint64_t context_id);   /* NULL: not loaded */
int aot_capture_relax(int *mode);                              /* relaxed capture mode for this thread; put back with the same call */

/* rt_call.c */
_Noreturn void aot_unwind(aot_frame *frame);                   /* jumps to the end of the call; an error is recorded already */
int aot_record_driver(aot_frame *frame, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int aot_wait(aot_frame *frame, const char *why);               /* waits for the call's stream; refused while it is captured */
int aot_wait_stream(aot_frame *frame, CUstream stream, const char *why);
int aot_capturing(aot_frame *frame, CUstream stream, int *capturing);
aot_frame *aot_frame_here(const char *caller);                 /* the current frame; without one the process cannot go on */
static inline void must(aot_frame *frame, int code) { if (AOT_UNLIKELY(code != 0)) aot_unwind(frame); }
static inline CUstream aot_stream_or(const aot_frame *frame, void *stream) { return (CUstream)(stream ? stream : frame->stream); }

/* rt_memory.c: what the call owns */
int aot_live_reserve(aot_frame *frame);                        /* room for one more, so that adding cannot fail */
void aot_live_add(aot_frame *frame, uint64_t address, uint64_t bytes, uint8_t kind);
int aot_live_find(const aot_frame *frame, uint64_t address);   /* index, or -1 */
void aot_live_remove(aot_frame *frame, int index);
void aot_live_sweep(aot_frame *frame);                         /* gives back all of it in stream order; errors are recorded */
int aot_device_alloc(aot_frame *frame, int64_t bytes, void *stream, uint64_t *address);   /* tracked */
int aot_device_free(aot_frame *frame, int index, void *stream);   /* entry of kind DEVICE or GRAPH; an error is for aot_last_error */
int aot_explain_alloc(int code, const char *operation, int64_t bytes, int device);   /* of memory that was not given; returns code */
int aot_host_release(aot_frame *frame, int index);             /* unregisters, frees: entry of kind other than DEVICE */

/* rt_graph.c: memory of captured calls */
enum { AOT_GRAPH_BYTES = 64 << 10 };                           /* more than that is allocated and freed by the graph's nodes */
uint64_t aot_graph_size(int64_t bytes);                        /* what is taken for so many; 0: a graph keeps none of that size */
/* Memory that the graph keeps, if the stream is being captured; else, and where it is too large or the driver too old, address 0. */
int aot_graph_alloc(const aot_frame *frame, int64_t bytes, void *stream, uint64_t *address);
int aot_graph_trim(int device, void *context);                 /* frees what no graph has any more; the context is current again after it */

/* rt_launch.c */
int aot_launch_loaded(aot_frame *frame, const aot_loaded_kernel *kernel, const aot_geometry *geometry, CUstream stream, void **params);

/* mgpu_stream.c */
void aot_chains_join(aot_frame *frame);                        /* the caller's stream after all chains of the call */
void aot_chains_release(aot_frame *frame);                     /* streams and events go back to their pool */
int aot_chains_after_caller(aot_frame *frame);                 /* all chains after what is on the caller's stream now */

/* async.c */
void aot_async_sweep(aot_frame *frame);

/* print.c */
int aot_is_device_memory(aot_frame *frame, const void *address, int *device);

#endif
