/* Where a call runs. In: where its arrays lie. Out: AOT_PLACE_*, or an exception that names both sides.
 *
 * Arrays on a GPU go to the function's kernels, arrays in host memory to its CPU code; all arrays of a call lie in one place.
 * Without arrays the GPU is taken, unless the function has CPU code only. */
#include "py.h"

int aot_place_of(const aot_view *view) {
  if (view->device_type == DL_CUDA || view->device_type == DL_CUDA_MANAGED)
    return AOT_PLACE_GPU;
  return view->device_type == DL_CPU || view->device_type == DL_CUDA_HOST ? AOT_PLACE_CPU : AOT_PLACE_UNKNOWN;
}

static int runs_on_cpu(const aot_callable *callable) { return callable->function && aot_cpu_entry(callable->function); }

static int runs_on_gpu(const aot_callable *callable) { return !callable->function || callable->function->entry; }

/* Why arrays in host memory are no use, for functions: empty for kernels. */
static const char *why_not_cpu(const aot_callable *callable) {
  if (!callable->function)
    return "";
  if (callable->function->cpu)
    return "; the function has CPU code, but for newer processors (x86-64-v2)";
  return "; the function has no CPU code: tensor-level functions get it when the package is built with `--archs ...,host`";
}

static int refuse(const aot_call *call, uint32_t index, const aot_view *view) {
  PyObject *type = aot_type_name(call->args[index]);
  if (!type)
    return -1;
  int place = aot_place_of(view);
  if (place == AOT_PLACE_UNKNOWN)
    aot_wrong(call, index, PyExc_TypeError, ", got a %U on a device that is neither a CUDA GPU nor the CPU (DLPack's type %d)", type,
              (int)view->device_type);
  else if (place == AOT_PLACE_CPU)
    aot_wrong(call, index, PyExc_TypeError,
              " on a GPU, got a %U in host memory: move it first (torch: x.cuda(); CuPy: cupy.asarray(x); JAX: jax.device_put(x))%s", type,
              why_not_cpu(call->callable));
  else
    aot_wrong(call, index, PyExc_TypeError, " in host memory, got a %U on a GPU: the package was built with `--archs host` only", type);
  Py_DECREF(type);
  return -1;
}

static int refuse_mix(const aot_call *call, uint32_t index) {
  static const char *const words[] = {[AOT_PLACE_GPU] = "on a GPU", [AOT_PLACE_CPU] = "in host memory"};
  PyObject *type = aot_type_name(call->args[index]);
  if (!type)
    return -1;
  const char *here = words[call->place], *there = words[call->place == AOT_PLACE_GPU ? AOT_PLACE_CPU : AOT_PLACE_GPU];
  aot_wrong(call, index, PyExc_TypeError, " %s like argument %d '%s', got a %U %s", here, call->place_argument + 1,
            call->callable->args[call->place_argument].name, type, there);
  Py_DECREF(type);
  return -1;
}

int aot_place_take(aot_call *call, uint32_t index, const aot_view *view) {
  int place = aot_place_of(view);
  if (place == call->place && place != AOT_PLACE_UNKNOWN)
    return 0;
  if (place == AOT_PLACE_UNKNOWN || !(place == AOT_PLACE_CPU ? runs_on_cpu(call->callable) : runs_on_gpu(call->callable)))
    return refuse(call, index, view);
  if (call->place != AOT_PLACE_UNKNOWN)
    return refuse_mix(call, index);
  call->place = (uint8_t)place;
  call->place_argument = (int32_t)index;
  return 0;
}

int aot_place_settle(aot_call *call) {
  if (call->place != AOT_PLACE_CPU)
    return aot_stream_choose(call);
  if (!call->stream_option)
    return 0;
  PyErr_Format(PyExc_TypeError, "%s.%s() stream=: the call runs on the CPU, which has no streams", call->callable->source->name,
               call->callable->name);
  return -1;
}

int aot_place_without_arrays(aot_call *call) {
  if (runs_on_gpu(call->callable)) {
    call->place = AOT_PLACE_GPU;
    return 0;
  }
  call->place = AOT_PLACE_CPU;
  if (runs_on_cpu(call->callable))
    return aot_place_settle(call);
  PyErr_Format(PyExc_RuntimeError, "%s.%s() has CPU code, but for newer processors (x86-64-v2)", call->callable->source->name,
               call->callable->name);
  return -1;
}
