/* Driver calls that only the Python side makes. In: handles and addresses. Out: 0, or a code with its text in aot_last_error(). */
#include "py.h"
#include "rt.h"

int aot_stream_wait(void *waiting, void *on) {
  CUevent event;
  int code = aot_cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (code)
    return aot_set_driver_error(code, "cuEventCreate");
  const char *operation = "cuEventRecord";
  code = aot_cu.cuEventRecord(event, on);
  if (!code) {
    operation = "cuStreamWaitEvent";
    code = aot_cu.cuStreamWaitEvent(waiting, event, 0);
  }
  aot_cu.cuEventDestroy_v2(event);                             /* the driver keeps it until the wait is over */
  return code ? aot_set_driver_error(code, operation) : 0;
}

/* The legacy stream cannot be asked while another one is captured in its place: it takes no part in a capture itself. */
int aot_stream_captures(void *stream) {
  int status = CU_CAPTURE_NONE;
  return aot_cu.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status == CU_CAPTURE_ACTIVE;
}

int aot_pointer_device(uint64_t address, int32_t *device_type, int *device) {
  int code = aot_driver_state();
  if (code)
    return code;
  unsigned kind = 0, managed = 0;
  code = aot_cu.cuPointerGetAttribute(&kind, CU_POINTER_MEMORY_TYPE, address);
  if (code == CUDA_ERROR_INVALID_VALUE) {                      /* memory that the driver knows nothing about */
    *device_type = DL_CPU;
    return 0;
  }
  if (!code)
    code = aot_cu.cuPointerGetAttribute(&managed, CU_POINTER_IS_MANAGED, address);
  if (!code)
    code = aot_cu.cuPointerGetAttribute(device, CU_POINTER_DEVICE_ORDINAL, address);
  if (code)
    return aot_set_driver_error(code, "cuPointerGetAttribute");
  *device_type = managed ? DL_CUDA_MANAGED : kind == CU_MEMORY_HOST ? DL_CUDA_HOST : DL_CUDA;
  return 0;
}

int aot_copy_device(uint64_t to, uint64_t from, uint64_t bytes, void *stream) {
  int code = bytes ? aot_cu.cuMemcpyAsync(to, from, bytes, stream) : 0;
  return code ? aot_set_driver_error(code, "cuMemcpyAsync") : 0;
}

static int put_fact(PyObject *facts, const char *name, PyObject *value) {
  int status = value ? PyDict_SetItemString(facts, name, value) : -1;
  Py_XDECREF(value);
  return status;
}

/* What the driver says about one device, before any context exists: cuDevice* calls only. */
static int put_device(PyObject *facts, int ordinal) {
  CUdevice device;
  char name[256] = "";
  const char *operation = "cuDeviceGet";
  int major = 0, minor = 0, code = aot_cu.cuDeviceGet(&device, ordinal);
  if (!code) {
    operation = "cuDeviceGetName";
    code = aot_cu.cuDeviceGetName(name, sizeof name, device);
  }
  if (!code) {
    operation = "cuDeviceGetAttribute";
    code = aot_cu.cuDeviceGetAttribute(&major, CU_DEVICE_CAPABILITY_MAJOR, device);
  }
  if (!code)
    code = aot_cu.cuDeviceGetAttribute(&minor, CU_DEVICE_CAPABILITY_MINOR, device);
  if (code) {
    aot_set_driver_error(code, operation);
    return put_fact(facts, "error", aot_text(aot_last_error()));
  }
  return put_fact(facts, "name", aot_text(name)) || put_fact(facts, "capability", Py_BuildValue("(ii)", major, minor));
}

int aot_has_gpu_code(void) {
  for (uint32_t i = 0; i < aot_this_package.nsources; i++) {
    const aot_source *source = aot_this_package.sources[i];
    if (source->blob || source->nkernels)
      return 1;
    for (uint32_t k = 0; k < source->nfunctions; k++)
      if (source->functions[k].entry)
        return 1;
  }
  return 0;
}

/* Which image of each source is loaded on the device. */
static int put_loaded(PyObject *facts, int device) {
  PyObject *loaded = PyDict_New();
  for (uint32_t i = 0; loaded && i < aot_this_package.nsources; i++) {
    const aot_source *source = aot_this_package.sources[i];
    int image = source->blob ? aot_source_image(source, device) : AOT_IMAGE_NOT_LOADED;
    if (image != AOT_IMAGE_NOT_LOADED && put_fact(loaded, source->name, PyLong_FromLong(image)))
      Py_CLEAR(loaded);
  }
  return put_fact(facts, "loaded", loaded);
}

static int put_facts(PyObject *facts, int ordinal) {
  char message[AOT_MESSAGE_BYTES] = "";
  if (put_fact(facts, "cpu", PyUnicode_FromString(aot_cpu_variant_name(aot_cpu_variant()))) ||
      put_fact(facts, "threads", PyLong_FromLong(aot_cpu_threads())))
    return -1;
  if (!aot_has_gpu_code())                                         /* nothing to ask the driver */
    return 0;
  if (aot_driver(message, sizeof message))
    return put_fact(facts, "error", aot_text(message));
  int count = 0, version = 0, code = aot_cu.cuDeviceGetCount(&count);
  if (code)
    aot_set_driver_error(code, "cuDeviceGetCount");
  else if ((code = aot_cu.cuDriverGetVersion(&version)))
    aot_set_driver_error(code, "cuDriverGetVersion");
  else if (ordinal < 0)
    code = aot_current_device(&ordinal);
  if (code)
    return put_fact(facts, "error", aot_text(aot_last_error()));
  if (put_loaded(facts, ordinal) || put_fact(facts, "driver", PyLong_FromLong(version)) || put_fact(facts, "devices", PyLong_FromLong(count)) ||
      put_fact(facts, "device", PyLong_FromLong(ordinal)))
    return -1;
  return ordinal < count ? put_device(facts, ordinal) : 0;
}

int aot_device_number(PyObject *object, int *device) {
  static const char wanted[] = "device= takes a device's number from 0 on";
  PyObject *index = PyNumber_Index(object), *type = index ? NULL : aot_type_name(object);
  int over = 0;
  long long number = index ? PyLong_AsLongLongAndOverflow(index, &over) : 0;
  if (!index && type && PyErr_ExceptionMatches(PyExc_TypeError))
    PyErr_Format(PyExc_TypeError, "%s, got %U", wanted, type);
  else if (index && over)
    PyErr_SetString(PyExc_ValueError, wanted);
  else if (index && (number < 0 || number > INT32_MAX))
    PyErr_Format(PyExc_ValueError, "%s, got %lld", wanted, number);
  Py_XDECREF(index);
  Py_XDECREF(type);
  if (PyErr_Occurred())
    return -1;
  *device = (int)number;
  return 0;
}

PyObject *aot_probe(PyObject *self, PyObject *device) {
  (void)self;
  int ordinal = -1;
  if (device != Py_None && aot_device_number(device, &ordinal))
    return NULL;
  PyObject *facts = PyDict_New();
  if (facts && put_facts(facts, ordinal))
    Py_CLEAR(facts);
  return facts;
}
