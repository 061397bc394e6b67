/* DeviceArray: memory of a result that no framework allocated. In: pool memory. Out: an object that every framework can take.
 *
 * It offers __dlpack__ and __cuda_array_interface__, is contiguous, and frees its memory in the order of the stream that
 * made it. A consumer that works on another stream is waited for by that stream, not by the host. */
#include "py.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  PyObject_HEAD
  aot_device_memory memory;
  void *consumer;                                              /* stream of the last consumer on another stream, NULL: none */
  PyObject *stream_owner;
  dl_dtype dtype;
  int32_t rank;
  uint8_t storage;
  int64_t shape[AOT_MAX_RANK], strides[AOT_MAX_RANK];
} device_array;

PyTypeObject *aot_device_array_type;

static void give_back(const aot_device_memory *memory, void *consumer) {
  void *context, *restore;
  uint64_t id;
  /* At the end of the process the driver may be gone, and the memory with it: nothing to report then. */
  if (aot_context_enter(memory->device, &context, &id, &restore))
    return;
  if (consumer)
    aot_stream_wait(memory->stream, consumer);
  aot_pool_free(memory->address, memory->stream);
  aot_context_leave(restore);
}

PyObject *aot_device_array_new(const aot_device_memory *memory, const aot_value *value, const int64_t *shape, PyObject *stream_owner) {
  device_array *self = PyObject_New(device_array, aot_device_array_type);
  if (!self) {
    give_back(memory, NULL);
    return NULL;
  }
  self->memory = *memory;
  self->consumer = NULL;
  Py_XINCREF(stream_owner);
  self->stream_owner = stream_owner;
  self->dtype = (dl_dtype){value->dl_code, value->dl_bits, 1};
  self->rank = value->rank;
  self->storage = value->storage;
  int64_t dense = 1;
  for (int32_t i = value->rank - 1; i >= 0; i--) {
    self->shape[i] = shape[i];
    self->strides[i] = dense;
    dense *= shape[i];
  }
  return (PyObject *)self;
}

static void dealloc(PyObject *object) {
  device_array *self = (device_array *)object;
  PyTypeObject *type = Py_TYPE(object);
  give_back(&self->memory, self->consumer);
  Py_XDECREF(self->stream_owner);
  PyObject_Free(object);
  Py_DECREF(type);
}

static void describe(device_array *self, aot_view *view) {
  view->address = self->memory.address;
  view->shape = self->shape;
  view->strides = self->strides;
  view->device_type = DL_CUDA;
  view->device = self->memory.device;
  view->rank = self->rank;
  view->dtype = self->dtype;
}

int aot_device_array_view(PyObject *object, aot_view *view) {
  describe((device_array *)object, view);
  return 1;
}

void *aot_device_array_stream(PyObject *object) { return ((device_array *)object)->memory.stream; }

/* ------------------------------------------------------------------ __dlpack__ */

typedef struct { dl_managed managed; PyObject *array; } export_new;
typedef struct { dl_managed_old managed; PyObject *array; } export_old;

/* Consumers call it from any thread, with or without the interpreter lock. */
static void release(PyObject *array, void *memory) {
  if (Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(array);
    PyGILState_Release(state);
  }
  free(memory);
}

static void delete_new(dl_managed *managed) { release(((export_new *)managed)->array, managed); }
static void delete_old(dl_managed_old *managed) { release(((export_old *)managed)->array, managed); }

/* A consumed capsule has another name, and its tensor another owner. */
static void drop_new(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
    delete_new(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

static void drop_old(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor"))
    delete_old(PyCapsule_GetPointer(capsule, "dltensor"));
}

static void fill_tensor(device_array *self, dl_tensor *tensor) {
  *tensor = (dl_tensor){.data = (void *)(uintptr_t)self->memory.address, .device = {DL_CUDA, self->memory.device}, .rank = self->rank,
                        .dtype = self->dtype, .shape = self->shape, .strides = self->strides};
}

static PyObject *export_versioned(device_array *self) {
  export_new *made = malloc(sizeof *made);
  if (!made)
    return PyErr_NoMemory();
  *made = (export_new){.managed = {.version = {DL_MAJOR, DL_MINOR}, .context = made, .deleter = delete_new}, .array = Py_NewRef((PyObject *)self)};
  fill_tensor(self, &made->managed.tensor);
  PyObject *capsule = PyCapsule_New(&made->managed, "dltensor_versioned", drop_new);
  if (!capsule)
    delete_new(&made->managed);
  return capsule;
}

static PyObject *export_unversioned(device_array *self) {
  export_old *made = malloc(sizeof *made);
  if (!made)
    return PyErr_NoMemory();
  *made = (export_old){.managed = {.context = made, .deleter = delete_old}, .array = Py_NewRef((PyObject *)self)};
  fill_tensor(self, &made->managed.tensor);
  PyObject *capsule = PyCapsule_New(&made->managed, "dltensor", drop_old);
  if (!capsule)
    delete_old(&made->managed);
  return capsule;
}

/* DLPack's streams: None and 1 are the legacy default stream, 2 the per-thread one, -1 asks for no ordering. */
static int order_consumer(device_array *self, PyObject *stream) {
  long long number = !stream || stream == Py_None ? 1 : PyLong_AsLongLong(stream);
  if (PyErr_Occurred())
    return -1;
  uintptr_t consumer = (uintptr_t)number, mine = (uintptr_t)self->memory.stream;
  if (number == -1 || consumer == mine || (consumer <= 1 && mine <= 1))
    return 0;
  void *context, *restore;
  uint64_t id;
  int code = aot_context_enter(self->memory.device, &context, &id, &restore);
  if (!code) {
    code = aot_stream_wait((void *)consumer, self->memory.stream);
    aot_context_leave(restore);
  }
  self->consumer = (void *)consumer;
  return code ? aot_raise(code, aot_last_error()) : 0;
}

static int check_request(device_array *self, PyObject *device, PyObject *copy) {
  if (copy == Py_True) {
    PyErr_SetString(PyExc_BufferError, "a DeviceArray exports its own memory, no copies");
    return -1;
  }
  int type = DL_CUDA, id = self->memory.device;
  if (device != Py_None && !PyArg_ParseTuple(device, "ii", &type, &id))
    return -1;
  if (type == DL_CUDA && id == self->memory.device)
    return 0;
  PyErr_Format(PyExc_BufferError, "the array is on device (%d, %d), not on (%d, %d)", DL_CUDA, self->memory.device, type, id);
  return -1;
}

static PyObject *dlpack(PyObject *object, PyObject *args, PyObject *words) {
  static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  device_array *self = (device_array *)object;
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, words, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy))
    return NULL;
  int major = 0, minor = 0;
  if (version != Py_None && !PyArg_ParseTuple(version, "ii", &major, &minor))
    return NULL;
  if (check_request(self, device, copy) || order_consumer(self, stream))
    return NULL;
  return major >= 1 ? export_versioned(self) : export_unversioned(self);
}

static PyObject *dlpack_device(PyObject *object, PyObject *unused) {
  (void)unused;
  return Py_BuildValue("(ii)", DL_CUDA, ((device_array *)object)->memory.device);
}

/* ------------------------------------------------------------------ attributes */

static PyObject *int_tuple(const int64_t *entries, int32_t rank) {
  PyObject *tuple = PyTuple_New(rank);
  for (int32_t i = 0; tuple && i < rank; i++) {
    PyObject *entry = PyLong_FromLongLong(entries[i]);
    if (!entry || PyTuple_SetItem(tuple, i, entry))
      Py_CLEAR(tuple);
  }
  return tuple;
}

static PyObject *get_shape(PyObject *object, void *unused) {
  (void)unused;
  return int_tuple(((device_array *)object)->shape, ((device_array *)object)->rank);
}

static PyObject *get_dtype(PyObject *object, void *unused) {
  (void)unused;
  char text[48];
  return PyUnicode_FromString(aot_dtype_name(((device_array *)object)->dtype, text, sizeof text));
}

static PyObject *get_device(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromLong(((device_array *)object)->memory.device);
}

static PyObject *get_stream(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromVoidPtr(((device_array *)object)->memory.stream);
}

static PyObject *get_cuda_interface(PyObject *object, void *unused) {
  (void)unused;
  device_array *self = (device_array *)object;
  static const char letters[] = {[AOT_DL_INT] = 'i', [AOT_DL_UINT] = 'u', [AOT_DL_FLOAT] = 'f', [AOT_DL_COMPLEX] = 'c', [AOT_DL_BOOL] = 'b'};
  char letter = self->dtype.code < sizeof letters ? letters[self->dtype.code] : 0, typestr[16];
  if (!letter) {
    PyErr_SetString(PyExc_AttributeError, "__cuda_array_interface__ has no name for this element type: use __dlpack__");
    return NULL;
  }
  snprintf(typestr, sizeof typestr, "%c%c%d", self->storage == 1 ? '|' : '<', letter, self->storage);
  /* Version 3: the consumer orders itself after `stream`; 0 is not allowed, 1 is the legacy default stream. */
  unsigned long long stream = self->memory.stream ? (uintptr_t)self->memory.stream : 1;
  return Py_BuildValue("{sNsss(KO)sOsKsi}", "shape", int_tuple(self->shape, self->rank), "typestr", typestr, "data",
                       (unsigned long long)self->memory.address, Py_False, "strides", Py_None, "stream", stream, "version", 3);
}

static PyObject *repr(PyObject *object) {
  aot_view view;
  char text[320];
  describe((device_array *)object, &view);
  aot_view_text(&view, text, sizeof text);
  return PyUnicode_FromFormat("<%s.DeviceArray: %s on device %d>", aot_this_package.name, text, view.device);
}

static PyMethodDef methods[] = {
  {"__dlpack__", (PyCFunction)(void (*)(void))dlpack, METH_VARARGS | METH_KEYWORDS, "Exports the array's memory (DLPack)."},
  {"__dlpack_device__", dlpack_device, METH_NOARGS, "DLPack's device: (2, index)."},
  {0},
};

static PyGetSetDef attributes[] = {
  {"shape", get_shape, NULL, "Extents.", NULL},
  {"dtype", get_dtype, NULL, "Name of the element type.", NULL},
  {"device", get_device, NULL, "Index of the GPU.", NULL},
  {"stream", get_stream, NULL, "Stream that made it, as a number.", NULL},
  {"__cuda_array_interface__", get_cuda_interface, NULL, "CUDA Array Interface, version 3.", NULL},
  {0},
};

int aot_device_array_setup(PyObject *module) {
  static char name[256];
  PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)dealloc}, {Py_tp_repr, (void *)repr}, {Py_tp_methods, methods}, {Py_tp_getset, attributes},
    {Py_tp_doc, "A result in GPU memory that no framework asked for: hand it to one with from_dlpack."}, {0, NULL}};
  if (!aot_device_array_type) {
    snprintf(name, sizeof name, "%s.DeviceArray", aot_this_package.name);
    PyType_Spec spec = {name, sizeof(device_array), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    aot_device_array_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!aot_device_array_type)
      return -1;
  }
  return PyModule_AddObjectRef(module, "DeviceArray", (PyObject *)aot_device_array_type);
}
