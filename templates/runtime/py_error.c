/* Python exceptions for what goes wrong. In: codes of the driver or the core, with text. Out: an exception that is set.
 * Errors of the driver are CudaError (a RuntimeError) with .code and .name; wrong arguments are TypeError or ValueError. */
#include "py.h"
#include <stdarg.h>
#include <string.h>

PyObject *aot_cuda_error;

int aot_error_setup(PyObject *module) {
  if (!aot_cuda_error) {
    char name[256];
    PyOS_snprintf(name, sizeof name, "%s.CudaError", aot_this_package.name);
    aot_cuda_error = PyErr_NewExceptionWithDoc(name, "An error of the CUDA driver: `code` is its number, `name` its name, such as CUDA_ERROR_OUT_OF_MEMORY.",
                                               PyExc_RuntimeError, NULL);
    if (!aot_cuda_error)
      return -1;
  }
  return PyModule_AddObjectRef(module, "CudaError", aot_cuda_error);
}

PyObject *aot_text(const char *message) { return PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace"); }

static int raise_cuda(int code, const char *message) {
  PyObject *text = aot_text(message), *error = text ? PyObject_CallFunctionObjArgs(aot_cuda_error, text, NULL) : NULL;
  PyObject *number = PyLong_FromLong(code), *name = PyUnicode_FromString(aot_error_name(code));
  if (error && number && name && !PyObject_SetAttrString(error, "code", number) && !PyObject_SetAttrString(error, "name", name))
    PyErr_SetObject(aot_cuda_error, error);
  Py_XDECREF(text);
  Py_XDECREF(error);
  Py_XDECREF(number);
  Py_XDECREF(name);
  return -1;
}

int aot_raise(int code, const char *message) {
  const char *text = message && *message ? message : aot_error_name(code);
  if (code > 0 || code == AOT_E_NO_DRIVER)
    return raise_cuda(code, text);
  PyObject *exception = PyExc_RuntimeError;
  if (code == AOT_E_PYTHON) {
    if (PyErr_Occurred())
      return -1;
    text = "an allocator failed without saying why";
  } else if (code == AOT_E_SIZE || code == AOT_E_LIMIT)
    exception = PyExc_ValueError;
  else if (code == AOT_E_NO_MEMORY)
    exception = PyExc_MemoryError;
  PyObject *words = aot_text(text);
  if (words)
    PyErr_SetObject(exception, words);
  Py_XDECREF(words);
  return -1;
}

int aot_wrong(const aot_call *call, uint32_t index, PyObject *exception, const char *format, ...) {
  va_list list;
  va_start(list, format);
  PyObject *detail = PyUnicode_FromFormatV(format, list);
  va_end(list);
  if (!detail)
    return -1;
  const aot_value *value = &call->callable->args[index];
  PyErr_Format(exception, "%s.%s() argument %u '%s': expected %s%U", call->callable->source->name, call->callable->name,
               (unsigned)index + 1, value->name, value->type, detail);
  Py_DECREF(detail);
  return -1;
}

PyObject *aot_type_name(PyObject *object) {
  PyObject *type = (PyObject *)Py_TYPE(object), *module = PyObject_GetAttr(type, aot_names[AOT_NAME_MODULE]);
  PyObject *name = PyObject_GetAttr(type, aot_names[AOT_NAME_QUALNAME]), *text = NULL;
  if (module && name) {
    int plain = !PyUnicode_Check(module) || !PyUnicode_CompareWithASCIIString(module, "builtins");
    text = plain ? Py_NewRef(name) : PyUnicode_FromFormat("%U.%U", module, name);
  }
  Py_XDECREF(module);
  Py_XDECREF(name);
  return text;
}

/* Of the exception that is set; takes the reference. */
static void set_cause(PyObject *cause) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (value && cause)
    PyException_SetCause(value, cause);                        /* takes the reference */
  else
    Py_XDECREF(cause);
  PyErr_Restore(type, value, trace);
}

int aot_fault_take(PyObject *array, aot_fault *fault) {
  if (PyErr_ExceptionMatches(aot_cuda_error) ||
      !(PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_RuntimeError) || PyErr_ExceptionMatches(PyExc_TypeError) ||
        PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_OverflowError)))
    return 0;
  PyObject *type, *trace;
  PyErr_Fetch(&type, &fault->cause, &trace);                   /* before anything else runs that might look at it */
  PyErr_NormalizeException(&type, &fault->cause, &trace);
  fault->exception = PyErr_GivenExceptionMatches(type, PyExc_ValueError) ? PyExc_ValueError : PyExc_TypeError;
  PyObject *kind = aot_type_name(array);
  if (!kind) {
    PyErr_Clear();
    kind = PyUnicode_FromString("array");
  }
  PyObject *text = fault->cause ? PyObject_Str(fault->cause) : NULL, *lines = text ? PyUnicode_Splitlines(text, 0) : NULL;
  PyObject *first = lines && PyList_Size(lines) ? PyList_GetItem(lines, 0) : text;   /* torch adds its C++ frames */
  fault->words = first && kind ? PyUnicode_FromFormat("%U that cannot be taken: %U", kind, first) : NULL;
  Py_XDECREF(text);
  Py_XDECREF(lines);
  Py_XDECREF(kind);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  if (!fault->words)
    aot_fault_raised(fault);
  return fault->words != NULL;
}

int aot_fault_raised(aot_fault *fault) {
  Py_CLEAR(fault->words);
  set_cause(fault->cause);
  return -1;
}
