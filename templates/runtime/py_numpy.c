/* numpy's arrays, without numpy's headers. In: an array. Out: aot_view; and new arrays for results.
 *
 * Arrays of a known element type are read from their fields, and made by numpy's C API: both are fixed by the ABI version, which
 * is asked first. All others go through __array_struct__: one attribute, a C struct. (__dlpack__ refuses read-only arrays and the
 * element types of ml_dtypes; the buffer protocol is not in the Limited API of 3.10.) Types of ml_dtypes go by their name. */
#include "py.h"
#include <pthread.h>
#include <string.h>

typedef struct {                                               /* numpy's PyArrayInterface */
  int two, rank;
  char kind;
  int size, flags;
  intptr_t *shape, *strides;                                   /* strides in bytes */
  void *data;
} array_struct;

typedef struct {                                               /* numpy's PyArrayObject_fields: the start of every array */
  PyObject_HEAD
  char *data;
  int rank;
  intptr_t *shape, *strides;
  PyObject *base, *dtype;
  int flags;
} array_fields;

enum { NATIVE = 0x200, WRITEABLE = 0x400 };

int aot_is_numpy(PyTypeObject *type) {
  PyObject *module = aot_imported(AOT_NAME_NUMPY), *array = module ? aot_optional(module, AOT_NAME_NDARRAY) : NULL;
  int is = array && PyType_Check(array) && PyType_IsSubtype(type, (PyTypeObject *)array);
  Py_XDECREF(module);
  Py_XDECREF(array);
  PyErr_Clear();
  return is;
}

/* ------------------------------------------------------------------ numpy itself */

static PyObject *find_numpy(void) {
  PyObject *numpy = aot_imported(AOT_NAME_NUMPY);
  if (numpy)
    return numpy;
  numpy = PyImport_Import(aot_names[AOT_NAME_NUMPY]);
  if (!numpy && PyErr_ExceptionMatches(PyExc_ImportError))
    PyErr_Clear();
  return numpy;
}

/* numpy's C API is a table of functions. NULL: a numpy of another ABI, or one that does not show the table. */
enum { API_ABI_VERSION = 0, API_EMPTY = 184 };                  /* positions */
enum { ABI_1 = 0x01000009, ABI_2 = 0x02000000 };
typedef unsigned (*abi_version)(void);
typedef PyObject *(*maker)(int rank, const intptr_t *shape, PyObject *stolen_dtype, int fortran);

static void *const *find_api(void) {
  static const char *const modules[] = {"numpy._core._multiarray_umath", "numpy.core._multiarray_umath"};
  void *const *api = NULL;
  for (size_t i = 0; i < sizeof modules / sizeof *modules && !api; i++) {
    PyObject *module = PyImport_ImportModule(modules[i]), *capsule = module ? PyObject_GetAttrString(module, "_ARRAY_API") : NULL;
    api = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(capsule);
    PyErr_Clear();
  }
  unsigned version = api ? ((abi_version)api[API_ABI_VERSION])() : 0;
  return version == ABI_1 || version == ABI_2 ? api : NULL;
}

static void *const *numpy_api(void) {
  static void *const *api;
  static int asked;                                            /* several threads may ask at once: they hear the same */
  if (__atomic_load_n(&asked, __ATOMIC_ACQUIRE))
    return api;
  void *const *found = find_api();
  __atomic_store_n(&api, found, __ATOMIC_RELAXED);
  __atomic_store_n(&asked, 1, __ATOMIC_RELEASE);
  return found;
}

/* New reference; numpy has the name itself, or ml_dtypes has it. */
static PyObject *find_dtype(PyObject *numpy, dl_dtype dtype) {
  char name[48];
  dl_dtype unused;
  aot_dtype_name(dtype, name, sizeof name);
  if (!aot_dtype_named(name, &unused))
    return PyObject_CallMethod(numpy, "dtype", "s", name);
  PyObject *module = aot_imported(AOT_NAME_ML_DTYPES), *type = module ? PyObject_GetAttrString(module, name) : NULL;
  Py_XDECREF(module);
  PyErr_Clear();
  if (!type) {
    PyErr_Format(PyExc_TypeError, "numpy has no %s for a result: import ml_dtypes first, or pass out=", name);
    return NULL;
  }
  PyObject *found = PyObject_CallMethod(numpy, "dtype", "O", type);
  Py_DECREF(type);
  return found;
}

/* numpy's dtype objects are immutable and live as long as numpy: those in use are kept, one for each element type. */
enum { KEPT = 64 };
typedef struct { dl_dtype dtype; PyObject *object; } kept_dtype;
static kept_dtype kept[KEPT];                                  /* the first `nkept` of them never change: no lock for reading */
static unsigned nkept;

static const kept_dtype *kept_for(const PyObject *object) {
  unsigned count = __atomic_load_n(&nkept, __ATOMIC_ACQUIRE);
  for (unsigned i = 0; i < count; i++)
    if (kept[i].object == object)
      return &kept[i];
  return NULL;
}

/* Borrowed, or NULL. */
static PyObject *kept_object(dl_dtype dtype) {
  unsigned count = __atomic_load_n(&nkept, __ATOMIC_ACQUIRE);
  for (unsigned i = 0; i < count; i++)
    if (kept[i].dtype.code == dtype.code && kept[i].dtype.bits == dtype.bits)
      return kept[i].object;
  return NULL;
}

/* New reference. */
static PyObject *known_dtype(PyObject *numpy, dl_dtype dtype) {
  static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;  /* nothing of Python's is called while it is held */
  PyObject *found = kept_object(dtype);
  if (found)
    return Py_NewRef(found);
  found = find_dtype(numpy, dtype);
  if (!found)
    return NULL;
  pthread_mutex_lock(&keeping);
  if (nkept < KEPT && !kept_object(dtype)) {
    kept[nkept] = (kept_dtype){dtype, Py_NewRef(found)};
    __atomic_store_n(&nkept, nkept + 1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&keeping);
  return found;
}

/* ------------------------------------------------------------------ reading */

/* Element types that have no letter: numpy shows those of ml_dtypes by name only. */
static int read_named(PyObject *object, dl_dtype *dtype) {
  PyObject *type = PyObject_GetAttr(object, aot_names[AOT_NAME_DTYPE]), *name = type ? PyObject_GetAttr(type, aot_names[AOT_NAME_NAME]) : NULL;
  const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  dl_dtype found;
  if (text && aot_dtype_named(text, &found))
    *dtype = found;
  Py_XDECREF(type);
  Py_XDECREF(name);
  return PyErr_Occurred() ? -1 : 0;
}

static int read_dtype(PyObject *object, const array_struct *array, dl_dtype *dtype) {
  static const struct { char letter; uint8_t code; } codes[] = {
    {'i', AOT_DL_INT}, {'u', AOT_DL_UINT}, {'f', AOT_DL_FLOAT}, {'c', AOT_DL_COMPLEX}, {'b', AOT_DL_BOOL}};
  if (!(array->flags & NATIVE)) {
    PyErr_SetString(PyExc_TypeError, "its elements have the byte order of another machine");
    return -1;
  }
  *dtype = (dl_dtype){AOT_UNKNOWN_CODE, (uint8_t)(array->size < 32 ? 8 * array->size : 255), 1};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i].letter == array->kind && (array->kind != 'f' || array->size > 1))
      dtype->code = codes[i].code;
  if (dtype->code != AOT_UNKNOWN_CODE || array->size > 2)
    return 0;
  dl_dtype named;
  named = *dtype;
  if (read_named(object, &named))
    return -1;
  if (named.bits == dtype->bits)
    dtype->code = named.code;
  return 0;
}

static int read_strides(const intptr_t *strides, int64_t size, aot_view *view) {
  int64_t *steps = view->dims, dense = 1;
  view->strides = NULL;
  if (view->rank > AOT_MAX_RANK)                               /* the rank is wrong, whatever the layout */
    return 0;
  for (int i = view->rank - 1; i >= 0; i--) {
    if (view->shape[i] > 1 && strides[i] % size) {
      PyErr_SetString(PyExc_ValueError, "its strides are no multiples of the element's size");
      return -1;
    }
    steps[i] = view->shape[i] > 1 ? strides[i] / size : dense;
    dense *= view->shape[i];
  }
  view->strides = steps;
  return 0;
}

static int read_array(PyObject *object, aot_view *view) {
  const array_struct *array = PyCapsule_GetPointer(view->holder, NULL);
  if (!array)
    return -1;
  if (array->two != 2 || array->size < 1) {
    PyErr_SetString(PyExc_TypeError, "it has elements without a size");
    return -1;
  }
  view->address = (uint64_t)(uintptr_t)array->data;
  view->shape = (const int64_t *)array->shape;
  view->rank = array->rank;
  view->device_type = DL_CPU;
  view->device = 0;
  view->readonly = !(array->flags & WRITEABLE);
  return read_dtype(object, array, &view->dtype) || read_strides(array->strides, array->size, view) ? -1 : 0;
}

static int read_fields(const array_fields *array, dl_dtype dtype, aot_view *view) {
  view->address = (uint64_t)(uintptr_t)array->data;
  view->shape = (const int64_t *)array->shape;
  view->rank = array->rank;
  view->dtype = dtype;
  view->device_type = DL_CPU;
  view->device = 0;
  view->readonly = !(array->flags & WRITEABLE);
  return read_strides(array->strides, (dtype.bits + 7) / 8, view);
}

/* The next array of this element type can be read from its fields. */
static void learn_dtype(dl_dtype dtype) {
  PyObject *numpy = find_numpy(), *known = numpy ? known_dtype(numpy, dtype) : NULL;
  Py_XDECREF(numpy);
  Py_XDECREF(known);
  PyErr_Clear();
}

int aot_numpy_view(PyObject *object, aot_view *view) {
  const array_fields *array = (const array_fields *)object;
  const kept_dtype *known = numpy_api() ? kept_for(array->dtype) : NULL;
  if (known)
    return read_fields(array, known->dtype, view) ? -1 : 1;
  view->holder = PyObject_GetAttr(object, aot_names[AOT_NAME_ARRAY_STRUCT]);
  if (view->holder && !read_array(object, view)) {
    learn_dtype(view->dtype);
    return 1;
  }
  Py_CLEAR(view->holder);
  return -1;
}

/* ------------------------------------------------------------------ making */

static PyObject *empty(PyObject *numpy, const aot_value *value, const int64_t *shape) {
  void *const *api = numpy_api();
  PyObject *dtype = known_dtype(numpy, (dl_dtype){value->dl_code, value->dl_bits, 1});
  if (!dtype)
    return NULL;
  if (api)
    return ((maker)api[API_EMPTY])(value->rank, (const intptr_t *)shape, dtype, 0);
  PyObject *function = PyObject_GetAttr(numpy, aot_names[AOT_NAME_EMPTY]), *extents = function ? aot_int_tuple(shape, value->rank) : NULL;
  PyObject *made = extents ? PyObject_CallFunctionObjArgs(function, extents, dtype, NULL) : NULL;
  Py_DECREF(dtype);
  Py_XDECREF(function);
  Py_XDECREF(extents);
  return made;
}

PyObject *aot_numpy_make(const aot_value *value, const int64_t *shape, uint64_t *address) {
  PyObject *numpy = find_numpy(), *made = numpy ? empty(numpy, value, shape) : NULL;
  Py_XDECREF(numpy);
  PyObject *capsule = made ? PyObject_GetAttr(made, aot_names[AOT_NAME_ARRAY_STRUCT]) : NULL;
  const array_struct *array = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
  if (array)
    *address = (uint64_t)(uintptr_t)array->data;
  else
    Py_CLEAR(made);
  Py_XDECREF(capsule);
  return made;
}
