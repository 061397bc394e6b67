/* Memory and devices of launch-level host code: gpu.alloc, dealloc, memcpy, memset, host_register, set_default_device. */
#include "rt.h"

/* ------------------------------------------------------------------ gpu.alloc, gpu.dealloc */

static int managed_alloc(aot_frame *frame, uint64_t bytes, uint64_t *address) {
  CUdeviceptr made = 0;
  int code = aot_live_reserve(frame);
  if (code) return code;
  frame->worked = 1;
  code = aot_record_driver(frame, aot_cu.cuMemAllocManaged(&made, bytes ? bytes : 1, CU_MEM_ATTACH_GLOBAL),
                           "cuMemAllocManaged of %llu bytes", (unsigned long long)bytes);
  if (code) return code;
  aot_live_add(frame, made, bytes, AOT_MEM_MANAGED);
  *address = made;
  return 0;
}

void *mgpuMemAlloc(uint64_t bytes, void *stream, _Bool host_shared) {
  aot_frame *frame = aot_frame_here("gpu.alloc");
  uint64_t address = 0;
  if ((int64_t)bytes < 0) aot_fail(AOT_E_SIZE, "negative size: gpu.alloc of %lld bytes", (long long)bytes);
  must(frame, host_shared ? managed_alloc(frame, bytes, &address)
                          : aot_device_alloc(frame, (int64_t)bytes, aot_stream_or(frame, stream), &address));
  return (void *)(uintptr_t)address;
}

void mgpuMemFree(void *address, void *stream) {
  aot_frame *frame = aot_frame_here("gpu.dealloc");
  if (!address) return;
  int index = aot_live_find(frame, (uintptr_t)address);
  if (index < 0 || frame->live[index].host == AOT_MEM_HOST)
    aot_fail(AOT_E_INTERNAL, "gpu.dealloc in %s of memory that it did not allocate with gpu.alloc (%p)", frame->function->name, address);
  if (frame->live[index].host == AOT_MEM_MANAGED) {            /* its free is not stream ordered */
    must(frame, aot_wait_stream(frame, aot_stream_or(frame, stream), "it frees memory that host and device share"));
    must(frame, aot_host_release(frame, index));
    return;
  }
  int code = aot_device_free(frame, index, aot_stream_or(frame, stream));
  if (code) aot_fail(code, "%s", aot_last_error());
}

/* ------------------------------------------------------------------ gpu.memcpy, gpu.memset */

void mgpuMemcpy(void *target, void *source, size_t bytes, void *stream) {
  aot_frame *frame = aot_frame_here("gpu.memcpy");
  if (!bytes) return;
  frame->worked = 1;
  must(frame, aot_record_driver(frame, aot_cu.cuMemcpyAsync((uintptr_t)target, (uintptr_t)source, bytes, aot_stream_or(frame, stream)),
                                "cuMemcpyAsync of %zu bytes", bytes));
}

void mgpuMemset32(void *target, unsigned value, size_t count, void *stream) {
  aot_frame *frame = aot_frame_here("gpu.memset");
  if (!count) return;
  frame->worked = 1;
  must(frame, aot_record_driver(frame, aot_cu.cuMemsetD32Async((uintptr_t)target, value, count, aot_stream_or(frame, stream)),
                                "cuMemsetD32Async of %zu values", count));
}

void mgpuMemset16(void *target, unsigned short value, size_t count, void *stream) {
  aot_frame *frame = aot_frame_here("gpu.memset");
  if (!count) return;
  frame->worked = 1;
  must(frame, aot_record_driver(frame, aot_cu.cuMemsetD16Async((uintptr_t)target, value, count, aot_stream_or(frame, stream)),
                                "cuMemsetD16Async of %zu values", count));
}

/* ------------------------------------------------------------------ gpu.host_register */

typedef struct ranked { char *allocated, *aligned; int64_t offset, sizes_and_strides[]; } ranked;

/* Only a dense array is one range of memory. Returns its bytes, or fails. */
static uint64_t dense_bytes(aot_frame *frame, int64_t rank, const ranked *array, int64_t element_bytes) {
  const int64_t *sizes = array->sizes_and_strides, *strides = sizes + rank;
  int64_t elements = 1;
  for (int64_t i = 0; i < rank; i++)
    if (!sizes[i]) return 0;
  for (int64_t i = rank; i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != elements)
      aot_fail(AOT_E_UNSUPPORTED, "gpu.host_register in %s of an array that is not dense: axis %lld has stride %lld, not %lld",
               frame->function->name, (long long)i, (long long)strides[i], (long long)elements);
    elements *= sizes[i];
  }
  return (uint64_t)(elements * element_bytes);
}

/* Kernels are handed the host's own address, which not every device can use. */
static void check_host_pointers(aot_frame *frame) {
  int usable = 0;
  must(frame, aot_record_driver(frame, aot_cu.cuDeviceGetAttribute(&usable, CU_DEVICE_REGISTERED_HOST_POINTERS, frame->device),
                                "cuDeviceGetAttribute"));
  if (!usable) aot_fail(AOT_E_UNSUPPORTED, "gpu.host_register: device %d cannot use host addresses in kernels", frame->device);
}

static int find_registered(const aot_frame *frame, uint64_t address) {
  for (uint32_t i = frame->nlive; i-- > 0;)
    if (frame->live[i].host == AOT_MEM_REGISTERED && frame->live[i].address == address) return (int)i;
  return -1;
}

void mgpuMemHostRegister(void *address, uint64_t bytes) {
  aot_frame *frame = aot_frame_here("gpu.host_register");
  if (!bytes) return;
  must(frame, aot_live_reserve(frame));
  check_host_pointers(frame);
  frame->worked = 1;
  int code = aot_cu.cuMemHostRegister_v2(address, bytes, 0);
  if (code == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
    aot_fail(code, "gpu.host_register in %s: memory at %p (%llu bytes) or a part of it is registered already", frame->function->name,
             address, (unsigned long long)bytes);
  must(frame, aot_record_driver(frame, code, "cuMemHostRegister of %llu bytes", (unsigned long long)bytes));
  aot_live_add(frame, (uintptr_t)address, bytes, AOT_MEM_REGISTERED);
}

void mgpuMemHostUnregister(void *address) {
  aot_frame *frame = aot_frame_here("gpu.host_unregister");
  int index = find_registered(frame, (uintptr_t)address);
  if (index < 0)
    aot_fail(AOT_E_INTERNAL, "gpu.host_unregister in %s of memory that it did not register (%p)", frame->function->name, address);
  must(frame, aot_wait(frame, "it unregisters memory that a kernel may use"));
  must(frame, aot_host_release(frame, index));
}

void mgpuMemHostRegisterMemRef(int64_t rank, void *descriptor, int64_t element_bytes) {
  const ranked *array = descriptor;
  mgpuMemHostRegister(array->aligned + array->offset * element_bytes,
                      dense_bytes(aot_frame_here("gpu.host_register"), rank, array, element_bytes));
}

void mgpuMemHostUnregisterMemRef(int64_t rank, void *descriptor, int64_t element_bytes) {
  const ranked *array = descriptor;
  if (dense_bytes(aot_frame_here("gpu.host_unregister"), rank, array, element_bytes))
    mgpuMemHostUnregister(array->aligned + array->offset * element_bytes);
}

/* ------------------------------------------------------------------ gpu.set_default_device */

static int has_arrays(const aot_function *function) {
  for (uint16_t i = 0; i < function->nargs; i++)
    if (function->args[i].kind == AOT_ARRAY) return 1;
  return 0;
}

/* Why the call may not move: arrays and streams belong to a device, and so does work that is under way. */
static const char *bound_to_device(const aot_frame *frame) {
  if (has_arrays(frame->function)) return "its array arguments are there";
  if (frame->stream) return "its stream is there";
  return frame->worked ? "it has used that device already" : NULL;
}

/* The call goes on on the default stream of the device's primary context; aot_run gives the caller's context back. */
static void move_to(aot_frame *frame, int device) {
  const char *bound = bound_to_device(frame);
  if (bound) aot_fail(AOT_E_UNSUPPORTED, "gpu.set_default_device %d in %s, which runs on device %d: %s", device, frame->function->name,
                      frame->device, bound);
  void *context = NULL, *restore = NULL;
  uint64_t id = 0;
  int code = aot_context_enter(device, &context, &id, &restore);
  if (code) aot_fail(code, "%s", aot_last_error());
  if (!frame->caller_context) frame->caller_context = frame->context;
  frame->context = context;
  frame->context_id = id;
  frame->device = device;
}

/* Later calls without array arguments start on the device, and this one moves to it. Upstream keeps one context for the whole
 * process and so ignores every device but the first that is used; obeying, or saying why not, is what the op asks for. */
void mgpuSetDefaultDevice(int32_t device) {
  aot_frame *frame = aot_frame_here("gpu.set_default_device");
  int code = aot_default_device_check(device);
  if (code) aot_fail(code, "%s", aot_last_error());
  if (device != frame->device) move_to(frame, device);
  aot_default_device_set(device);
}
