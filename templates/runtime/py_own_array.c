/* DeviceArray and HostArray: memory of a result that no framework allocated. In: memory of our pool, or of the host. Out: an
 * object that every framework can take.
 *
 * Both offer __dlpack__ and are contiguous. A DeviceArray also has __cuda_array_interface__, and frees its memory in the order of
 * the stream that made it; consumers that work on other streams are waited for by that stream (py_export.c), not by the host. A
 * HostArray has __array_interface__. */
#include "py.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *aot_device_array_type, *aot_host_array_type;

static void give_back(const aot_memory *memory) {
  if (memory->device < 0) {
    free((void *)(uintptr_t)memory->address);
    return;
  }
  void *context, *restore;
  uint64_t id;
  /* At the end of the process the driver may be gone, and the memory with it: nothing to report then. */
  if (aot_context_enter(memory->device, &context, &id, &restore))
    return;
  aot_pool_free(memory->address, memory->stream);
  aot_context_leave(restore);
}

PyObject *aot_own_array_new(const aot_memory *memory, const aot_value *value, const int64_t *shape, PyObject *stream_owner) {
  aot_own_array *self = PyObject_New(aot_own_array, memory->device < 0 ? aot_host_array_type : aot_device_array_type);
  if (!self) {
    give_back(memory);
    return NULL;
  }
  self->memory = *memory;
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
  aot_own_array *self = (aot_own_array *)object;
  PyTypeObject *type = Py_TYPE(object);
  give_back(&self->memory);
  Py_XDECREF(self->stream_owner);
  PyObject_Free(object);
  Py_DECREF(type);
}

static void describe(aot_own_array *self, aot_view *view) {
  view->address = self->memory.address;
  view->shape = self->shape;
  view->strides = self->strides;
  view->device_type = self->memory.device < 0 ? DL_CPU : DL_CUDA;
  view->device = self->memory.device < 0 ? 0 : self->memory.device;
  view->rank = self->rank;
  view->dtype = self->dtype;
}

int aot_own_array_view(PyObject *object, aot_view *view) {
  describe((aot_own_array *)object, view);
  return 1;
}

void *aot_own_array_stream(PyObject *object) { return ((aot_own_array *)object)->memory.stream; }

/* ------------------------------------------------------------------ attributes */

PyObject *aot_int_tuple(const int64_t *entries, int32_t rank) {
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
  return aot_int_tuple(((aot_own_array *)object)->shape, ((aot_own_array *)object)->rank);
}

static PyObject *get_dtype(PyObject *object, void *unused) {
  (void)unused;
  char text[48];
  return PyUnicode_FromString(aot_dtype_name(((aot_own_array *)object)->dtype, text, sizeof text));
}

static PyObject *get_device(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromLong(((aot_own_array *)object)->memory.device);
}

static PyObject *get_stream(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromVoidPtr(((aot_own_array *)object)->memory.stream);
}

/* 0, or -1: the interface has no name for the element type. */
static int typestr(const aot_own_array *self, const char *interface, char text[16]) {
  static const char letters[] = {[AOT_DL_INT] = 'i', [AOT_DL_UINT] = 'u', [AOT_DL_FLOAT] = 'f', [AOT_DL_COMPLEX] = 'c', [AOT_DL_BOOL] = 'b'};
  char letter = self->dtype.code < sizeof letters ? letters[self->dtype.code] : 0;
  if (!letter)
    PyErr_Format(PyExc_AttributeError, "%s has no name for this element type: use __dlpack__", interface);
  snprintf(text, 16, "%c%c%d", self->storage == 1 ? '|' : '<', letter, self->storage);
  return letter ? 0 : -1;
}

static PyObject *get_cuda_interface(PyObject *object, void *unused) {
  (void)unused;
  aot_own_array *self = (aot_own_array *)object;
  char type[16];
  if (typestr(self, "__cuda_array_interface__", type))
    return NULL;
  /* Version 3: the consumer orders itself after `stream`; 0 is not allowed, 1 is the legacy default stream. */
  unsigned long long stream = self->memory.stream ? (uintptr_t)self->memory.stream : 1;
  return Py_BuildValue("{sNsss(KO)sOsKsi}", "shape", aot_int_tuple(self->shape, self->rank), "typestr", type, "data",
                       (unsigned long long)self->memory.address, Py_False, "strides", Py_None, "stream", stream, "version", 3);
}

static PyObject *get_array_interface(PyObject *object, void *unused) {
  (void)unused;
  aot_own_array *self = (aot_own_array *)object;
  char type[16];
  if (typestr(self, "__array_interface__", type))
    return NULL;
  return Py_BuildValue("{sNsss(KO)sOsi}", "shape", aot_int_tuple(self->shape, self->rank), "typestr", type, "data",
                       (unsigned long long)self->memory.address, Py_False, "strides", Py_None, "version", 3);
}

static PyObject *repr(PyObject *object) {
  aot_view view;
  char text[320];
  describe((aot_own_array *)object, &view);
  aot_view_text(&view, text, sizeof text);
  if (view.device_type == DL_CPU)
    return PyUnicode_FromFormat("<%s.HostArray: %s>", aot_this_package.name, text);
  return PyUnicode_FromFormat("<%s.DeviceArray: %s on device %d>", aot_this_package.name, text, view.device);
}

static PyMethodDef methods[] = {
  {"__dlpack__", (PyCFunction)(void (*)(void))aot_own_array_dlpack, METH_VARARGS | METH_KEYWORDS, "Exports the array's memory (DLPack)."},
  {"__dlpack_device__", aot_own_array_dlpack_device, METH_NOARGS, "DLPack's device: (type, index)."},
  {0},
};

static PyGetSetDef device_attributes[] = {
  {"shape", get_shape, NULL, "Extents.", NULL},
  {"dtype", get_dtype, NULL, "Name of the element type.", NULL},
  {"device", get_device, NULL, "Index of the GPU.", NULL},
  {"stream", get_stream, NULL, "Stream that made it, as a number.", NULL},
  {"__cuda_array_interface__", get_cuda_interface, NULL, "CUDA Array Interface, version 3.", NULL},
  {0},
};

static PyGetSetDef host_attributes[] = {
  {"shape", get_shape, NULL, "Extents.", NULL},
  {"dtype", get_dtype, NULL, "Name of the element type.", NULL},
  {"__array_interface__", get_array_interface, NULL, "numpy's array interface, version 3.", NULL},
  {0},
};

static int add_type(PyObject *module, PyTypeObject **type, const char *name, char *full, PyGetSetDef *attributes, const char *doc) {
  PyType_Slot slots[] = {{Py_tp_dealloc, (void *)dealloc}, {Py_tp_repr, (void *)repr}, {Py_tp_methods, methods},
                         {Py_tp_getset, attributes}, {Py_tp_doc, (void *)doc}, {0, NULL}};
  if (!*type) {
    snprintf(full, 256, "%s.%s", aot_this_package.name, name);
    PyType_Spec spec = {full, sizeof(aot_own_array), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    *type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!*type)
      return -1;
  }
  return PyModule_AddObjectRef(module, name, (PyObject *)*type);
}

int aot_own_array_setup(PyObject *module) {
  static char device_name[256], host_name[256];                /* older Pythons keep the pointer */
  return add_type(module, &aot_device_array_type, "DeviceArray", device_name, device_attributes,
                  "A result in GPU memory that no framework asked for: hand it to one with from_dlpack.") ||
         add_type(module, &aot_host_array_type, "HostArray", host_name, host_attributes,
                  "A result in host memory that no framework asked for: hand it to one with from_dlpack.") ? -1 : 0;
}
