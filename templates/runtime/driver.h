/* The CUDA driver as this runtime sees it: types, constants, and one table of entry points.
 *
 * libcuda is never linked: aot_driver() opens it at the first use (rt_driver.c) and fills `aot_cu`, so calls read
 * aot_cu.cuStreamSynchronize(stream). Names are those of the ABI, with the _v2 where cuda.h hides it behind a macro.
 * Declared here because a package is compiled where no CUDA toolkit is. */
#ifndef AOT_DRIVER_H
#define AOT_DRIVER_H
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUuserObject_st *CUuserObject;

typedef struct CUmemPoolProps {
  int allocType, handleTypes, locationType, locationId;
  void *win32SecurityAttributes;
  size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
} CUmemPoolProps;

typedef struct CUlaunchAttribute {
  int id;
  char pad[4];
  union { char bytes[64]; unsigned clusterDim[3]; int number; } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned numAttrs;
} CUlaunchConfig;

typedef struct CUtensorMap { uint64_t opaque[16]; } __attribute__((aligned(64))) CUtensorMap;

enum {                                                         /* CUresult */
  CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_NO_DEVICE = 100, CUDA_ERROR_INVALID_DEVICE = 101, CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201, CUDA_ERROR_NO_BINARY_FOR_GPU = 209, CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_INVALID_PTX = 218, CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222, CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500, CUDA_ERROR_ILLEGAL_ADDRESS = 700, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702, CUDA_ERROR_CONTEXT_IS_DESTROYED = 709, CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712, CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_ILLEGAL_INSTRUCTION = 715, CUDA_ERROR_MISALIGNED_ADDRESS = 716, CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
  CUDA_ERROR_INVALID_PC = 718, CUDA_ERROR_LAUNCH_FAILED = 719, CUDA_ERROR_NOT_PERMITTED = 800, CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
};

enum {                                                         /* attributes and options, by the functions that take them */
  CU_DEVICE_MAX_THREADS_PER_BLOCK = 1, CU_DEVICE_CAPABILITY_MAJOR = 75, CU_DEVICE_CAPABILITY_MINOR = 76,
  CU_DEVICE_MULTIPROCESSORS = 16, CU_DEVICE_REGISTERED_HOST_POINTERS = 91, CU_DEVICE_SHARED_PER_BLOCK_OPTIN = 97, CU_DEVICE_MEMORY_POOLS = 115,
  CU_FUNC_MAX_THREADS_PER_BLOCK = 0, CU_FUNC_SHARED_BYTES = 1, CU_FUNC_MAX_DYNAMIC_SHARED_BYTES = 8,
  CU_FUNC_NON_PORTABLE_CLUSTER = 14,
  CU_LAUNCH_COOPERATIVE = 2, CU_LAUNCH_CLUSTER_DIMENSION = 4, CU_LAUNCH_CLUSTER_POLICY = 5, CU_CLUSTER_POLICY_SPREAD = 1,
  CU_LAUNCH_PROGRAMMATIC = 6, CU_LAUNCH_PRIORITY = 8,
  CU_JIT_INFO_LOG_BUFFER = 3, CU_JIT_INFO_LOG_BYTES = 4, CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BYTES = 6,
  CU_JIT_OPTIMIZATION_LEVEL = 7,
  CU_CAPTURE_MODE_RELAXED = 2, CU_CAPTURE_NONE = 0, CU_CAPTURE_ACTIVE = 1,
  CU_USER_OBJECT_NO_DESTRUCTOR_SYNC = 1, CU_GRAPH_USER_OBJECT_MOVE = 1,
  CU_STREAM_NON_BLOCKING = 1, CU_EVENT_DISABLE_TIMING = 2, CU_MEM_ATTACH_GLOBAL = 1,
  CU_POOL_RELEASE_THRESHOLD = 4, CU_POOL_ALLOCATION_PINNED = 1, CU_POOL_LOCATION_DEVICE = 1,
  CU_POINTER_MEMORY_TYPE = 2, CU_POINTER_IS_MANAGED = 8, CU_POINTER_DEVICE_ORDINAL = 9,
  CU_MEMORY_HOST = 1, CU_MEMORY_DEVICE = 2,
};

/* X(name, first CUDA version, required, parameters). Every entry point returns CUresult. The ones that are not required
 * may be missing in an older driver: NULL then, and aot_driver_lacks() has the error. */
#define AOT_DRIVER_ENTRIES(X) \
  X(cuInit, 2000, 1, (unsigned flags)) \
  X(cuDriverGetVersion, 2020, 1, (int *version)) \
  X(cuGetErrorName, 6000, 1, (CUresult error, const char **name)) \
  X(cuGetErrorString, 6000, 1, (CUresult error, const char **text)) \
  X(cuDeviceGet, 2000, 1, (CUdevice *device, int ordinal)) \
  X(cuDeviceGetCount, 2000, 1, (int *count)) \
  X(cuDeviceGetName, 2000, 1, (char *name, int size, CUdevice device)) \
  X(cuDeviceGetAttribute, 2000, 1, (int *value, int attribute, CUdevice device)) \
  X(cuDevicePrimaryCtxRetain, 7000, 1, (CUcontext *context, CUdevice device)) \
  X(cuCtxGetCurrent, 4000, 1, (CUcontext *context)) \
  X(cuCtxSetCurrent, 4000, 1, (CUcontext context)) \
  X(cuCtxGetDevice, 2000, 1, (CUdevice *device)) \
  X(cuCtxGetId, 12000, 0, (CUcontext context, unsigned long long *id)) \
  X(cuThreadExchangeStreamCaptureMode, 10010, 1, (int *mode)) \
  X(cuModuleLoadDataEx, 2010, 1, (CUmodule *module, const void *image, unsigned count, int *options, void **values)) \
  X(cuModuleGetFunction, 2000, 1, (CUfunction *function, CUmodule module, const char *name)) \
  X(cuModuleGetGlobal_v2, 3020, 1, (CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)) \
  X(cuFuncLoad, 12040, 0, (CUfunction function)) \
  X(cuFuncGetAttribute, 2020, 1, (int *value, int attribute, CUfunction function)) \
  X(cuFuncSetAttribute, 9000, 1, (CUfunction function, int attribute, int value)) \
  X(cuLaunchKernel, 4000, 1, (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
                              unsigned shared, CUstream stream, void **params, void **extra)) \
  X(cuLaunchKernelEx, 11080, 0, (const CUlaunchConfig *config, CUfunction function, void **params, void **extra)) \
  X(cuStreamCreate, 2000, 1, (CUstream *stream, unsigned flags)) \
  X(cuStreamDestroy_v2, 4000, 1, (CUstream stream)) \
  X(cuStreamSynchronize, 2000, 1, (CUstream stream)) \
  X(cuStreamWaitEvent, 3020, 1, (CUstream stream, CUevent event, unsigned flags)) \
  X(cuStreamIsCapturing, 10000, 1, (CUstream stream, int *status)) \
  X(cuStreamGetCaptureInfo_v2, 11030, 0, (CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, \
                                          size_t *count)) \
  X(cuStreamGetCtx, 9020, 1, (CUstream stream, CUcontext *context)) \
  X(cuEventCreate, 2000, 1, (CUevent *event, unsigned flags)) \
  X(cuEventDestroy_v2, 4000, 1, (CUevent event)) \
  X(cuEventRecord, 2000, 1, (CUevent event, CUstream stream)) \
  X(cuEventSynchronize, 2000, 1, (CUevent event)) \
  X(cuMemGetInfo_v2, 3020, 1, (size_t *free_bytes, size_t *total_bytes)) \
  X(cuMemAlloc_v2, 3020, 1, (CUdeviceptr *address, size_t bytes)) \
  X(cuMemFree_v2, 3020, 1, (CUdeviceptr address)) \
  X(cuMemAllocManaged, 6000, 1, (CUdeviceptr *address, size_t bytes, unsigned flags)) \
  X(cuMemHostRegister_v2, 6050, 1, (void *address, size_t bytes, unsigned flags)) \
  X(cuMemHostUnregister, 4000, 1, (void *address)) \
  X(cuMemPoolCreate, 11020, 0, (CUmemoryPool *pool, const CUmemPoolProps *props)) \
  X(cuMemPoolSetAttribute, 11020, 0, (CUmemoryPool pool, int attribute, void *value)) \
  X(cuMemPoolTrimTo, 11020, 0, (CUmemoryPool pool, size_t keep)) \
  X(cuMemAllocFromPoolAsync, 11020, 0, (CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)) \
  X(cuMemFreeAsync, 11020, 0, (CUdeviceptr address, CUstream stream)) \
  X(cuUserObjectCreate, 11030, 0, (CUuserObject *object, void *data, void (*destroy)(void *data), unsigned references, unsigned flags)) \
  X(cuUserObjectRelease, 11030, 0, (CUuserObject object, unsigned references)) \
  X(cuGraphRetainUserObject, 11030, 0, (CUgraph graph, CUuserObject object, unsigned references, unsigned flags)) \
  X(cuMemcpyAsync, 4000, 1, (CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream)) \
  X(cuMemcpyDtoHAsync_v2, 3020, 1, (void *target, CUdeviceptr source, size_t bytes, CUstream stream)) \
  X(cuMemcpyHtoDAsync_v2, 3020, 1, (CUdeviceptr target, const void *source, size_t bytes, CUstream stream)) \
  X(cuMemsetD8Async, 3020, 1, (CUdeviceptr target, unsigned char value, size_t count, CUstream stream)) \
  X(cuMemsetD16Async, 3020, 1, (CUdeviceptr target, unsigned short value, size_t count, CUstream stream)) \
  X(cuMemsetD32Async, 3020, 1, (CUdeviceptr target, unsigned value, size_t count, CUstream stream)) \
  X(cuPointerGetAttribute, 4000, 1, (void *value, int attribute, CUdeviceptr address)) \
  X(cuTensorMapEncodeTiled, 12000, 0, (CUtensorMap *map, int type, uint32_t rank, void *address, const uint64_t *extents, \
                                       const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides, \
                                       int interleave, int swizzle, int l2_promotion, int out_of_bounds)) \
  X(cuTensorMapEncodeIm2col, 12000, 0, (CUtensorMap *map, int type, uint32_t rank, void *address, const uint64_t *extents, \
                                        const uint64_t *strides, const int *first, const int *last, uint32_t channels, uint32_t pixels, \
                                        const uint32_t *element_strides, int interleave, int swizzle, int l2_promotion, int out_of_bounds))

#define AOT_DRIVER_FIELD(name, since, required, parameters) CUresult (*name) parameters;
typedef struct aot_driver_table { AOT_DRIVER_ENTRIES(AOT_DRIVER_FIELD) } aot_driver_table;
#undef AOT_DRIVER_FIELD

extern aot_driver_table aot_cu;                                /* all NULL until aot_driver() has returned 0 */

#endif
