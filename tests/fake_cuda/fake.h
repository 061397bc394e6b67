/* Inside of the fake libcuda: what its files share. Tests steer it through the fake_* functions (exported) or through
 * FAKE_CUDA_LOG=file, FAKE_CUDA_SET=key=value,... and FAKE_CUDA_FAIL=function:nth:code,... in the environment. */
#ifndef FAKE_H
#define FAKE_H
#include "driver.h"

#define DECLARE(name, since, required, parameters) CUresult name parameters;
AOT_DRIVER_ENTRIES(DECLARE)                                    /* definitions that differ from the runtime's table do not compile */
#undef DECLARE

enum { FAKE_POOLED = 1, FAKE_PLAIN = 2, FAKE_MANAGED = 3, FAKE_REGISTERED = 4 };

typedef struct { long devices, driver, capability, optin_shared, pools, max_threads, static_shared, memory, registered_host, image; } fake_settings;
extern fake_settings fake;

struct CUctx_st { unsigned long long id; int device, alive, primary; };
struct CUstream_st { int id, capture; CUcontext context; int alive; CUgraph graph; };
struct CUevent_st { int id, alive; };
struct CUmemPoolHandle_st { int id, device; uint64_t threshold; };
struct CUmod_st { int id; CUcontext context; const void *image; };
struct CUfunc_st { char name[128]; CUmodule module; int dynamic_shared, loaded; };

/* Writes the call into the log and counts it; non-zero where a test asked for this call to fail. */
int fake_call(const char *function, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define CALL(...) do { int asked_ = fake_call(__func__, __VA_ARGS__); if (asked_) return asked_; } while (0)

const char *fake_stream_name(CUstream stream);                 /* "s3"; "s0" is the legacy stream */
const char *fake_address_name(CUdeviceptr address);            /* "m2", "m2+16", "host" */
int fake_is_constant(CUdeviceptr address);                     /* of a module: device memory that nobody allocated */
CUcontext fake_current(void);
int fake_stream_captures(CUstream stream);
int fake_any_capture(void);
int fake_prohibited(void);                                     /* the error of what may not be done beside a capture, unless relaxed */
CUgraph fake_graph_new(void);
int fake_in_destructor(void);                                  /* of a user object, which may not call CUDA */
int fake_ready(void);                                          /* 0, or the error of a call before cuInit or without a context */

#endif
