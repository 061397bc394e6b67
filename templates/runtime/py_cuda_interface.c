/* __cuda_array_interface__, version 3. In: the dict. Out: aot_view. Masked arrays are refused; which device the address is of,
 * the driver says. */
#include "py.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int read_typestr(PyObject *object, aot_view *view) {
  static const struct { char letter; uint8_t code; } codes[] = {
    {'i', AOT_DL_INT}, {'u', AOT_DL_UINT}, {'f', AOT_DL_FLOAT}, {'c', AOT_DL_COMPLEX}, {'b', AOT_DL_BOOL}};
  const char *text = object && PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, NULL) : NULL;
  char *end = NULL;
  long bytes = text && strlen(text) >= 3 && isdigit((unsigned char)text[2]) ? strtol(text + 2, &end, 10) : 0;
  if (bytes < 1 || bytes > 16 || *end || text[0] == '>') {
    PyErr_SetString(PyExc_TypeError, "__cuda_array_interface__: 'typestr' is missing, of no known type, or not little-endian");
    return -1;
  }
  view->dtype = (dl_dtype){AOT_UNKNOWN_CODE, (uint8_t)(8 * bytes), 1};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i].letter == text[1])
      view->dtype.code = codes[i].code;
  return 0;
}

static int read_dims(PyObject *tuple, int64_t *dims, int32_t rank) {
  if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != rank) {
    PyErr_SetString(PyExc_TypeError, "__cuda_array_interface__: 'shape' and 'strides' must be tuples of one length");
    return -1;
  }
  for (int32_t i = 0; i < rank; i++) {
    dims[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (dims[i] == -1 && PyErr_Occurred())
      return -1;
  }
  return 0;
}

static int read_shape(PyObject *dict, aot_view *view) {
  PyObject *shape = PyDict_GetItemWithError(dict, aot_names[AOT_NAME_SHAPE]), *strides = PyDict_GetItemWithError(dict, aot_names[AOT_NAME_STRIDES]);
  Py_ssize_t rank = shape && PyTuple_Check(shape) ? PyTuple_Size(shape) : -1;
  if (rank < 0 || rank > AOT_MAX_RANK) {
    PyErr_Format(PyExc_TypeError, "__cuda_array_interface__: 'shape' must be a tuple of at most %d", AOT_MAX_RANK);
    return -1;
  }
  view->rank = (int32_t)rank;
  view->shape = view->dims;
  view->strides = NULL;
  if (read_dims(shape, view->dims, view->rank))
    return -1;
  if (!strides || strides == Py_None)
    return 0;
  int64_t *steps = view->dims + AOT_MAX_RANK, size = view->dtype.bits / 8;
  if (read_dims(strides, steps, view->rank))
    return -1;
  for (int32_t i = 0; i < view->rank; i++) {
    if (!size || steps[i] % size) {
      PyErr_SetString(PyExc_ValueError, "__cuda_array_interface__: 'strides' are no multiples of the element's size");
      return -1;
    }
    steps[i] /= size;
  }
  view->strides = steps;
  return 0;
}

static int read_data(PyObject *dict, aot_view *view) {
  PyObject *data = PyDict_GetItemWithError(dict, aot_names[AOT_NAME_DATA]), *mask = PyDict_GetItemWithError(dict, aot_names[AOT_NAME_MASK]);
  if (mask && mask != Py_None) {
    PyErr_SetString(PyExc_TypeError, "masked arrays (__cuda_array_interface__ with 'mask') are not taken");
    return -1;
  }
  if (!data || !PyTuple_Check(data) || PyTuple_Size(data) != 2) {
    PyErr_SetString(PyExc_TypeError, "__cuda_array_interface__: 'data' must be (address, read-only)");
    return -1;
  }
  PyObject *address = PyTuple_GetItem(data, 0);
  int readonly = PyObject_IsTrue(PyTuple_GetItem(data, 1));
  view->address = address == Py_None ? 0 : PyLong_AsUnsignedLongLong(address);
  if (readonly < 0 || PyErr_Occurred())
    return -1;
  view->readonly |= (uint8_t)readonly;
  view->device_type = DL_CUDA;
  view->device = -1;                                           /* arrays without elements: of any device */
  if (!view->address)
    return 0;
  int code = aot_pointer_device(view->address, &view->device_type, &view->device);
  if (code)
    return aot_raise(code, aot_last_error());
  if (view->device_type == DL_CUDA || view->device_type == DL_CUDA_MANAGED)
    return 0;
  PyErr_SetString(PyExc_TypeError, "__cuda_array_interface__: its address is in host memory");
  return -1;
}

int aot_cuda_interface_read(PyObject *dict, aot_view *view) {
  if (!PyDict_Check(dict)) {
    PyErr_SetString(PyExc_TypeError, "__cuda_array_interface__ must be a dict");
    return -1;
  }
  view->holder = dict = PyDict_Copy(dict);                     /* its numbers may be Python code, which changes the dict while it is read */
  if (!dict)
    return -1;
  return read_typestr(PyDict_GetItemWithError(dict, aot_names[AOT_NAME_TYPESTR]), view) || read_shape(dict, view) || read_data(dict, view) ? -1 : 1;
}
