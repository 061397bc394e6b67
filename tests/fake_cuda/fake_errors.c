/* Names of the errors that tests make the fake return. */
#define _GNU_SOURCE
#include "fake.h"

static const struct { int code; const char *name; } error_names[] = {
#define NAME(name) { name, #name }
  NAME(CUDA_SUCCESS), NAME(CUDA_ERROR_INVALID_VALUE), NAME(CUDA_ERROR_OUT_OF_MEMORY), NAME(CUDA_ERROR_NOT_INITIALIZED),
  NAME(CUDA_ERROR_NO_DEVICE), NAME(CUDA_ERROR_INVALID_DEVICE), NAME(CUDA_ERROR_INVALID_IMAGE), NAME(CUDA_ERROR_INVALID_CONTEXT),
  NAME(CUDA_ERROR_NO_BINARY_FOR_GPU), NAME(CUDA_ERROR_INVALID_PTX), NAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
  NAME(CUDA_ERROR_INVALID_HANDLE), NAME(CUDA_ERROR_NOT_FOUND), NAME(CUDA_ERROR_ILLEGAL_ADDRESS), NAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
  NAME(CUDA_ERROR_CONTEXT_IS_DESTROYED), NAME(CUDA_ERROR_ASSERT), NAME(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
  NAME(CUDA_ERROR_LAUNCH_FAILED), NAME(CUDA_ERROR_NOT_PERMITTED), NAME(CUDA_ERROR_NOT_SUPPORTED), NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
  NAME(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
#undef NAME
};

CUresult cuGetErrorName(CUresult error, const char **name) {
  CALL("%d", error);
  for (size_t i = 0; i < sizeof error_names / sizeof error_names[0]; i++)
    if (error_names[i].code == error) { *name = error_names[i].name; return 0; }
  *name = NULL;
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult error, const char **text) { CALL("%d", error); *text = "text of the driver"; return 0; }
