/* Arrays for callpath.py: a Python type with DLPack's C exchange API, as torch.Tensor has it, on memory that nothing reads.
 *
 * In: Array(length), of f32 on device 0. Out: what a call asks of a framework, with next to no instructions of its own. Also
 * measure_begin() and measure_end(name), which tell callgrind what to count. */
#include <Python.h>
#include <stdlib.h>
#include <valgrind/callgrind.h>
#include "dlpack.h"

typedef struct { PyObject_HEAD int64_t shape[1], strides[1]; dl_tensor tensor; } array;
static PyTypeObject *array_type;

static array *array_new(int64_t length) {
  static uintptr_t address = 0x700000000000;
  array *self = PyObject_New(array, array_type);
  if (!self)
    return NULL;
  self->shape[0] = length;
  self->strides[0] = 1;
  self->tensor = (dl_tensor){.data = (void *)address, .device = {DL_CUDA, 0}, .rank = 1, .dtype = {2, 32, 1}, .shape = self->shape, .strides = self->strides};
  address += 4096;
  return self;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *words) {
  long long length;
  (void)type, (void)words;
  return PyArg_ParseTuple(args, "L", &length) ? (PyObject *)array_new(length) : NULL;
}

static void dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyObject *never(PyObject *self, PyObject *unused) {
  (void)self, (void)unused;
  Py_RETURN_FALSE;
}

static int tensor_from_object(void *object, dl_tensor *out) {
  *out = ((array *)object)->tensor;
  return 0;
}

static int current_stream(int32_t type, int32_t device, void **out) {
  (void)type, (void)device;
  *out = NULL;
  return 0;
}

static void keep(dl_managed *managed) { (void)managed; }

/* The object is made here; the managed tensor only carries it to object_from_managed. */
static int allocate(dl_tensor *prototype, dl_managed **out, void *context, void (*set_error)(void *, const char *, const char *)) {
  static dl_managed managed;
  (void)set_error, (void)context;
  array *made = array_new(prototype->shape[0]);
  if (!made)
    return -1;
  managed = (dl_managed){.version = {DL_MAJOR, DL_MINOR}, .context = made, .deleter = keep, .tensor = made->tensor};
  *out = &managed;
  return 0;
}

static int object_from_managed(dl_managed *managed, void **out) {
  *out = managed->context;
  return 0;
}

static int managed_from_object(void *object, dl_managed **out) {
  (void)object, (void)out;
  return -1;
}

static dl_exchange exchange = {{{DL_MAJOR, DL_MINOR}, NULL}, allocate, managed_from_object, object_from_managed, tensor_from_object, current_stream};

static PyObject *measure_begin(PyObject *self, PyObject *unused) {
  (void)self, (void)unused;
  CALLGRIND_ZERO_STATS;
  CALLGRIND_TOGGLE_COLLECT;
  Py_RETURN_NONE;
}

static PyObject *measure_end(PyObject *self, PyObject *name) {
  (void)self;
  CALLGRIND_TOGGLE_COLLECT;
  const char *text = PyUnicode_AsUTF8(name);
  if (!text)
    return NULL;
  CALLGRIND_DUMP_STATS_AT(text);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"is_neg", never, METH_NOARGS, NULL}, {"is_conj", never, METH_NOARGS, NULL}, {0}};
static PyMethodDef functions[] = {{"measure_begin", measure_begin, METH_NOARGS, NULL}, {"measure_end", measure_end, METH_O, NULL}, {0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "callpath_arrays", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit_callpath_arrays(void) {
  PyType_Slot slots[] = {{Py_tp_new, make}, {Py_tp_dealloc, dealloc}, {Py_tp_methods, methods}, {0, NULL}};
  PyType_Spec spec = {"callpath_arrays.Array", sizeof(array), 0, Py_TPFLAGS_DEFAULT, slots};
  PyObject *module = PyModule_Create(&definition), *table = PyCapsule_New(&exchange, "dlpack_exchange_api", NULL);
  array_type = (PyTypeObject *)PyType_FromSpec(&spec);
  if (!module || !table || !array_type || PyObject_SetAttrString((PyObject *)array_type, "__dlpack_c_exchange_api__", table) ||
      PyModule_AddObjectRef(module, "Array", (PyObject *)array_type))
    return NULL;
  Py_DECREF(table);
  return module;
}
