/* Which stream a call goes to. In: stream=, and the first array argument. Out: two streams, ordered by events where they differ.
 *
 * stream= takes an int, an object with __cuda_stream__ (torch, CuPy, cuda.core, numba), or one with .cuda_stream or .ptr.
 * Without it: the current stream of the arrays' framework, from the exchange API; else the array's __cuda_array_interface__
 * stream; else CuPy's current stream if CuPy is loaded, since that is who hands out such arrays, and addresses; else the legacy
 * default stream. A function that gets no array has nothing to do with any framework: the legacy default stream. */
#include "py.h"

static int read_int(PyObject *number, const char *whose, void **stream) {
  unsigned long long value = PyLong_AsUnsignedLongLong(number);
  int large = PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError);
  if (large || (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError)))
    PyErr_Format(large ? PyExc_OverflowError : PyExc_TypeError, "%s must be a stream's address, an int of 64 bits that is not negative", whose);
  if (PyErr_Occurred())
    return -1;
  *stream = (void *)(uintptr_t)value;
  return 0;
}

/* __cuda_stream__() -> (0, handle); early versions of the protocol had a property. */
static int read_protocol(PyObject *found, void **stream) {
  PyObject *pair = PyCallable_Check(found) ? PyObject_CallFunctionObjArgs(found, NULL) : Py_NewRef(found);
  if (!pair)
    return -1;
  int status = -1;
  if (PyTuple_Check(pair) && PyTuple_Size(pair) == 2)
    status = read_int(PyTuple_GetItem(pair, 1), "__cuda_stream__'s handle", stream);
  else
    PyErr_SetString(PyExc_TypeError, "__cuda_stream__ must give (version, handle)");
  Py_DECREF(pair);
  return status;
}

int aot_stream_read(PyObject *object, void **stream) {
  if (PyLong_Check(object) && !PyBool_Check(object))
    return read_int(object, "stream=", stream);
  PyObject *found = aot_optional(object, AOT_NAME_CUDA_STREAM);
  if (found) {
    int status = read_protocol(found, stream);
    Py_DECREF(found);
    return status;
  }
  static const int names[] = {AOT_NAME_TORCH_STREAM, AOT_NAME_PTR};
  for (int i = 0; i < 2 && !found && !PyErr_Occurred(); i++)
    found = aot_optional(object, names[i]);
  if (found) {
    int status = read_int(found, "the number in stream=", stream);
    Py_DECREF(found);
    return status;
  }
  if (PyErr_Occurred())
    return -1;
  PyObject *type = aot_type_name(object);
  if (type)
    PyErr_Format(PyExc_TypeError, "stream= takes an int, an object with __cuda_stream__ or a torch stream, got %U", type);
  Py_XDECREF(type);
  return -1;
}

/* 1 found, 0 not, -1 error. */
static int from_cuda_interface(PyObject *array, void **stream) {
  PyObject *dict = PyObject_GetAttr(array, aot_names[AOT_NAME_CUDA_INTERFACE]);
  if (!dict) {
    /* The property may refuse (a host array, an element type it has no name for); only the stream was wanted. */
    if (!PyErr_ExceptionMatches(PyExc_Exception))
      return -1;
    PyErr_Clear();
    return 0;
  }
  PyObject *found = PyDict_Check(dict) ? aot_item(dict, aot_names[AOT_NAME_STREAM]) : NULL;
  int status = found && found != Py_None ? (read_int(found, "__cuda_array_interface__: 'stream'", stream) ? -1 : 1) : 0;
  Py_XDECREF(found);
  Py_DECREF(dict);
  return status;
}

/* CuPy's get_current_stream, looked up once and kept. Borrowed; NULL without an error: CuPy is not loaded. */
static PyObject *cupy_function(void) {
  static PyObject *known;
  PyObject *found = __atomic_load_n(&known, __ATOMIC_ACQUIRE), *none = NULL;
  if (found)
    return found;
  PyObject *module = aot_imported(AOT_NAME_CUPY), *cuda = module ? aot_optional(module, AOT_NAME_CUDA) : NULL;
  found = cuda ? aot_optional(cuda, AOT_NAME_CURRENT_STREAM) : NULL;
  Py_XDECREF(module);
  Py_XDECREF(cuda);
  if (found && !__atomic_compare_exchange_n(&known, &none, found, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    Py_DECREF(found);
    found = none;                                              /* another thread was quicker */
  }
  return found;
}

/* New reference; NULL without an error: CuPy is not loaded. */
static PyObject *cupy_stream(void) {
  PyObject *function = cupy_function();
  return function ? PyObject_CallNoArgs(function) : NULL;
}

static int from_cupy(void **stream) {
  PyObject *current = cupy_stream();
  PyObject *handle = current ? PyObject_GetAttr(current, aot_names[AOT_NAME_PTR]) : NULL;
  int status = PyErr_Occurred() ? -1 : 0;
  if (handle)
    status = read_int(handle, "CuPy's current stream", stream) ? -1 : 1;
  Py_XDECREF(current);
  Py_XDECREF(handle);
  return status;
}

static int is_alone(const aot_call *call) { return !call->first_object && call->callable->function; }

static int find_home(aot_call *call) {
  call->home = NULL;
  PyObject *array = call->first_object;
  if (is_alone(call))
    return 0;
  if (array) {
    const dl_exchange *exchange = call->first_kind.exchange;
    if (exchange && exchange->current_stream) {
      if (!exchange->current_stream(DL_CUDA, call->device < 0 ? 0 : call->device, &call->home))
        return 1;
      if (!PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, "the array's framework did not tell its current stream");
      return -1;
    }
    if (call->first_kind.ours) {
      call->home = aot_own_array_stream(array);
      return 1;
    }
    int found = from_cuda_interface(array, &call->home);
    if (found)
      return found;
  }
  return from_cupy(&call->home);
}

/* Memory of a result is freed in the order of its stream, so the stream must live as long. Streams of torch and JAX are never
 * destroyed; CuPy's are, when their last reference goes. */
PyObject *aot_stream_owner(const aot_call *call) {
  if (call->stream_option)
    return Py_NewRef(call->stream_option);
  return is_alone(call) ? NULL : cupy_stream();
}

int aot_stream_choose(aot_call *call) {
  int found = find_home(call);
  if (found < 0)
    return -1;
  call->home_known = (uint8_t)found;
  call->stream = call->home;
  return call->stream_option ? aot_stream_read(call->stream_option, &call->stream) : 0;
}

/* 0 and 1 both name the legacy default stream. */
static int differ(const aot_call *call) {
  uintptr_t stream = (uintptr_t)call->stream, home = (uintptr_t)call->home;
  return call->home_known && stream != home && (stream > 1 || home > 1);
}

static int check_device(const aot_call *call) {
  int device;
  int code = aot_stream_device(call->stream, &device);
  if (code)
    return aot_raise(code, aot_last_error());
  if (device < 0 || device == call->device)
    return 0;
  PyErr_Format(PyExc_ValueError, "%s.%s(): stream= is of device %d, but the call runs on device %d", call->callable->source->name,
               call->callable->name, device, call->device);
  return -1;
}

int aot_stream_before(aot_call *call) {
  if (!call->stream_option)
    return 0;
  if (check_device(call))
    return -1;
  if (!differ(call))
    return 0;
  /* A graph cannot depend on work outside it. The other way round, the capture forks to `stream` and joins it again. */
  if (aot_stream_captures(call->stream) && !aot_stream_captures(call->home)) {
    call->home_known = 0;
    return 0;
  }
  int code = aot_stream_wait(call->stream, call->home);
  return code ? aot_raise(code, aot_last_error()) : 0;
}

int aot_stream_after(const aot_call *call) {
  if (!call->stream_option || !differ(call))
    return 0;
  return aot_stream_wait(call->home, call->stream);
}
