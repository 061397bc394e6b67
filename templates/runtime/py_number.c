/* Python numbers to scalars of host code and kernels, and back. In: an object and the signature's type. Out: bytes in a slot.
 * Integers come through __index__ and are range-checked: iN is taken as signed, as MLIR's arithmetic has no sign of its own.
 * Floats come through __float__ or __index__ and are rounded once, to nearest even, straight from the double. */
#include "py.h"
#include <math.h>
#include <string.h>

/* A double as a float of `mantissa` stored bits and `exponent` bits, to nearest even. */
static uint16_t round_small(double number, int exponent, int mantissa) {
  uint64_t bits;
  memcpy(&bits, &number, 8);
  uint16_t sign = (uint16_t)(bits >> 63 << 15), infinity = (uint16_t)(((1u << exponent) - 1) << mantissa);
  if (isnan(number))
    return sign | infinity | (uint16_t)(1u << (mantissa - 1));
  if (isinf(number))
    return sign | infinity;
  int lowest = 2 - (1 << (exponent - 1)), power = (int)(bits >> 52 & 0x7ff) - 1023, shift = 52 - mantissa;
  if (power == -1023)
    return sign;                                               /* zero, or far below the smallest number */
  if (power < lowest)
    shift += lowest - power;
  if (shift > 54)
    return sign;
  uint64_t whole = (bits & 0xfffffffffffffull) | 1ull << 52, kept = whole >> shift, rest = whole & ((1ull << shift) - 1), half = 1ull << (shift - 1);
  kept += rest > half || (rest == half && (kept & 1));
  /* The implicit bit is in `kept`, so a carry out of the mantissa moves into the exponent by itself. */
  uint64_t encoded = kept + ((uint64_t)(power < lowest ? 0 : power - lowest) << mantissa);
  return sign | (encoded >= infinity ? infinity : (uint16_t)encoded);
}

static double widen_small(uint16_t code, int exponent, int mantissa) {
  int power = code >> mantissa & ((1 << exponent) - 1), bias = (1 << (exponent - 1)) - 1, rest = code & ((1 << mantissa) - 1);
  double value;
  if (power == (1 << exponent) - 1)
    value = rest ? NAN : INFINITY;
  else
    value = ldexp(power ? rest + (1 << mantissa) : rest, (power ? power : 1) - bias - mantissa);
  return code >> 15 ? -value : value;
}

static int overflow(const aot_call *call, uint32_t index, const char *what, PyObject *object) {
  PyObject *digits = PyObject_Repr(object);
  if (!digits && PyErr_ExceptionMatches(PyExc_ValueError)) {   /* Python writes no int of thousands of digits */
    PyErr_Clear();
    digits = PyUnicode_FromString("an int of thousands of digits");
  }
  if (digits)
    aot_wrong(call, index, PyExc_OverflowError, ", got %s: %U", what, digits);
  Py_XDECREF(digits);
  return -1;
}

static int out_of_range(const aot_call *call, uint32_t index, PyObject *object) {
  return overflow(call, index, "a number out of its range", object);
}

static int wrong_number(const aot_call *call, uint32_t index, PyObject *object, const char *wanted) {
  if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_OverflowError))
    return -1;
  int too_large = PyErr_ExceptionMatches(PyExc_OverflowError);
  PyErr_Clear();
  if (too_large)
    return out_of_range(call, index, object);
  PyObject *type = aot_type_name(object);
  if (type)
    aot_wrong(call, index, PyExc_TypeError, " (%s), got %U", wanted, type);
  Py_XDECREF(type);
  return -1;
}

/* numpy's bools are no integers: they are what its comparisons give, so an i1 takes them. */
static PyObject *whole_number(const aot_value *value, PyObject *object) {
  PyObject *number = PyNumber_Index(object);
  if (number || value->dl_code != AOT_DL_BOOL || !PyErr_ExceptionMatches(PyExc_TypeError))
    return number;
  PyObject *type, *cause, *trace;
  PyErr_Fetch(&type, &cause, &trace);
  PyObject *name = aot_type_name(object);
  if (name && (!PyUnicode_CompareWithASCIIString(name, "numpy.bool") || !PyUnicode_CompareWithASCIIString(name, "numpy.bool_"))) {
    int truth = PyObject_IsTrue(object);
    number = truth < 0 ? NULL : PyLong_FromLong(truth);
  }
  Py_XDECREF(name);
  if (!number && !PyErr_Occurred()) {
    PyErr_Restore(type, cause, trace);
    return NULL;
  }
  Py_XDECREF(type);
  Py_XDECREF(cause);
  Py_XDECREF(trace);
  return number;
}

static int read_integer(const aot_call *call, uint32_t index, void *slot) {
  const aot_value *value = &call->callable->args[index];
  PyObject *object = call->args[index], *number = whole_number(value, object);
  if (!number)
    return wrong_number(call, index, object, "an int");
  int over = 0;
  int64_t wide = 0;
  if (value->dl_code == AOT_DL_UINT && value->dl_bits == 64) {
    wide = (int64_t)PyLong_AsUnsignedLongLong(number);
    over = PyErr_Occurred() != NULL;
    PyErr_Clear();
  } else {
    wide = PyLong_AsLongLongAndOverflow(number, &over);
    int64_t low = 0, high = 1;
    if (value->dl_code == AOT_DL_INT)
      high = (int64_t)((1ull << (value->dl_bits - 1)) - 1), low = -high - 1;
    else if (value->dl_code == AOT_DL_UINT)
      high = (int64_t)((1ull << value->dl_bits) - 1);
    over = over || wide < low || wide > high;
  }
  Py_DECREF(number);
  if (over)
    return out_of_range(call, index, object);
  memcpy(slot, &wide, value->storage);                         /* little-endian on every machine that we compile for */
  return 0;
}

static int read_float(const aot_call *call, uint32_t index, void *slot) {
  const aot_value *value = &call->callable->args[index];
  PyObject *object = call->args[index];
  double wide = PyFloat_AsDouble(object);
  if (wide == -1.0 && PyErr_Occurred())
    return wrong_number(call, index, object, "a float");
  int lost = 0;
  if (value->storage == 8)
    memcpy(slot, &wide, 8);
  else if (value->storage == 4) {
    float narrow = (float)wide;
    lost = isinf(narrow);
    memcpy(slot, &narrow, 4);
  } else {
    int bfloat = value->dl_code == AOT_DL_BFLOAT;
    uint16_t narrow = bfloat ? round_small(wide, 8, 7) : round_small(wide, 5, 10);
    lost = isinf(bfloat ? widen_small(narrow, 8, 7) : widen_small(narrow, 5, 10));
    memcpy(slot, &narrow, 2);
  }
  return lost && !isinf(wide) ? out_of_range(call, index, object) : 0;
}

static int read_complex(const aot_call *call, uint32_t index, void *slot) {
  PyObject *object = call->args[index], *number = NULL;
  if (PyUnicode_Check(object))                                 /* complex() would read it */
    PyErr_SetNone(PyExc_TypeError);
  else
    number = PyObject_CallFunctionObjArgs((PyObject *)&PyComplex_Type, object, NULL);
  if (!number)
    return wrong_number(call, index, object, "a complex");
  double parts[2] = {PyComplex_RealAsDouble(number), PyComplex_ImagAsDouble(number)};
  Py_DECREF(number);
  if (call->callable->args[index].storage == 16) {
    memcpy(slot, parts, 16);
    return 0;
  }
  float narrow[2] = {(float)parts[0], (float)parts[1]};
  memcpy(slot, narrow, 8);
  return (isinf(narrow[0]) && !isinf(parts[0])) || (isinf(narrow[1]) && !isinf(parts[1])) ? out_of_range(call, index, object) : 0;
}

int aot_number_read(const aot_call *call, uint32_t index, void *slot) {
  switch (call->callable->args[index].dl_code) {
  case AOT_DL_FLOAT:
  case AOT_DL_BFLOAT: return read_float(call, index, slot);
  case AOT_DL_COMPLEX: return read_complex(call, index, slot);
  default: return read_integer(call, index, slot);
  }
}

static PyObject *integer_object(const aot_value *value, const void *slot) {
  uint64_t bits = 0;
  memcpy(&bits, slot, value->storage);
  int unused = 64 - value->dl_bits;                            /* narrow integers: bits above the width say nothing */
  if (value->dl_code == AOT_DL_UINT)
    return PyLong_FromUnsignedLongLong(bits << unused >> unused);
  return PyLong_FromLongLong((int64_t)(bits << unused) >> unused);
}

PyObject *aot_number_object(const aot_value *value, const void *slot) {
  uint16_t small;
  float single[2];
  double wide[2];
  memcpy(&small, slot, sizeof small);
  memcpy(single, slot, sizeof single);
  memcpy(wide, slot, sizeof wide);
  switch (value->dl_code) {
  case AOT_DL_BOOL: return PyBool_FromLong(*(const uint8_t *)slot & 1);
  case AOT_DL_BFLOAT: return PyFloat_FromDouble(widen_small(small, 8, 7));
  case AOT_DL_FLOAT:
    if (value->storage == 2)
      return PyFloat_FromDouble(widen_small(small, 5, 10));
    return PyFloat_FromDouble(value->storage == 4 ? (double)single[0] : wide[0]);
  case AOT_DL_COMPLEX:
    return value->storage == 8 ? PyComplex_FromDoubles((double)single[0], (double)single[1]) : PyComplex_FromDoubles(wide[0], wide[1]);
  default: return integer_object(value, slot);
  }
}

/* ctypes.c_void_p is known by its name: importing ctypes for a type check would cost more than the call. */
static PyObject *void_pointer_value(PyObject *object) {
  PyObject *name = aot_type_name(object);
  if (!name)
    return NULL;
  int named = !PyUnicode_CompareWithASCIIString(name, "ctypes.c_void_p");
  Py_DECREF(name);
  return named ? PyObject_GetAttr(object, aot_names[AOT_NAME_VALUE]) : NULL;
}

int aot_address_read(const aot_call *call, uint32_t index, uint64_t *address) {
  PyObject *object = call->args[index], *value;
  *address = 0;
  if (object == Py_None)
    return 1;
  if (PyLong_Check(object) && !PyBool_Check(object))
    value = Py_NewRef(object);
  else if (!(value = void_pointer_value(object)))
    return PyErr_Occurred() ? -1 : 0;
  if (value != Py_None)
    *address = PyLong_AsUnsignedLongLong(value);
  Py_DECREF(value);
  if (!PyErr_Occurred())
    return 1;
  PyErr_Clear();
  return overflow(call, index, "an address out of range", object);
}
