/* An array against the signature. In: aot_view and aot_value. Out: an MLIR descriptor, or an exception that names both sides. */
#include "py.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ words */

static const char unknown[] = "unknown ";

const char *aot_dtype_name(dl_dtype dtype, char *text, size_t size) {
  static const char *const stems[] = {
    [AOT_DL_INT] = "int", [AOT_DL_UINT] = "uint", [AOT_DL_FLOAT] = "float", [AOT_DL_BFLOAT] = "bfloat", [AOT_DL_COMPLEX] = "complex"};
  static const char *const whole[] = {
    [AOT_DL_F8E3M4] = "float8_e3m4", [AOT_DL_F8E4M3] = "float8_e4m3", [AOT_DL_F8E4M3B11FNUZ] = "float8_e4m3b11fnuz",
    [AOT_DL_F8E4M3FN] = "float8_e4m3fn", [AOT_DL_F8E4M3FNUZ] = "float8_e4m3fnuz", [AOT_DL_F8E5M2] = "float8_e5m2",
    [AOT_DL_F8E5M2FNUZ] = "float8_e5m2fnuz", [AOT_DL_F8E8M0FNU] = "float8_e8m0fnu", [15] = "float6_e2m3fn", [16] = "float6_e3m2fn",
    [17] = "float4_e2m1fn"};
  char lanes[16] = "";
  if (dtype.lanes > 1)
    snprintf(lanes, sizeof lanes, "x%d", dtype.lanes);
  if (dtype.code == AOT_DL_BOOL)
    snprintf(text, size, "bool%s", lanes);
  else if (dtype.code < sizeof stems / sizeof *stems && stems[dtype.code])
    snprintf(text, size, "%s%d%s", stems[dtype.code], dtype.bits, lanes);
  else if (dtype.code < sizeof whole / sizeof *whole && whole[dtype.code])
    snprintf(text, size, "%s%s", whole[dtype.code], lanes);
  else
    snprintf(text, size, "%s%d-bit", unknown, dtype.bits);
  return text;
}

int aot_dtype_named(const char *name, dl_dtype *dtype) {
  char text[48];
  for (uint8_t code = AOT_DL_BFLOAT; code <= AOT_DL_F8E8M0FNU; code++) {
    if (code == AOT_DL_COMPLEX || code == AOT_DL_BOOL)         /* between them by number; numpy has those itself */
      continue;
    *dtype = (dl_dtype){code, code == AOT_DL_BFLOAT ? 16 : 8, 1};
    if (!strcmp(aot_dtype_name(*dtype, text, sizeof text), name))
      return 1;
  }
  return 0;
}

static size_t put_tuple(char *text, size_t size, const int64_t *entries, int32_t rank) {
  size_t used = (size_t)snprintf(text, size, "(");
  for (int32_t i = 0; i < rank && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ", " : "", (long long)entries[i]);
  if (used < size)
    used += (size_t)snprintf(text + used, size - used, rank == 1 ? ",)" : ")");
  return used < size ? used : size - 1;
}

void aot_view_text(const aot_view *view, char *text, size_t size) {
  char dtype[48];
  size_t used = (size_t)snprintf(text, size, "%s array of shape ", aot_dtype_name(view->dtype, dtype, sizeof dtype));
  used += put_tuple(text + used, size - used, view->shape, view->rank);
  if (aot_is_row_major(view))
    return;
  used += (size_t)snprintf(text + used, size - used, " with strides ");
  if (used < size)
    put_tuple(text + used, size - used, view->strides, view->rank);
}

/* ------------------------------------------------------------------ facts */

int64_t aot_view_count(const aot_view *view) {
  int64_t count = 1;
  for (int32_t i = 0; i < view->rank; i++)
    count *= view->shape[i];
  return count;
}

/* The stride of an extent of 1 is never used, and an array without elements uses none. */
int aot_is_row_major(const aot_view *view) {
  if (!view->strides)
    return 1;
  int64_t expected = 1;
  int fits = 1;
  for (int32_t i = view->rank - 1; i >= 0; i--) {
    if (view->shape[i] == 0)
      return 1;
    fits &= view->shape[i] == 1 || view->strides[i] == expected;
    expected *= view->shape[i];
  }
  return fits;
}

static int dtype_fits(const aot_value *value, dl_dtype dtype) {
  if (dtype.lanes != 1 || dtype.bits != value->dl_bits)
    return 0;
  /* MLIR's iN has no sign: unsigned arrays are as good. */
  return dtype.code == value->dl_code || (value->dl_code == AOT_DL_INT && dtype.code == AOT_DL_UINT && !value->index);
}

static int strides_fit(const aot_value *value, const aot_view *view) {
  if (!value->strides || aot_view_count(view) == 0)
    return 1;
  int64_t dense = 1;
  for (int32_t i = view->rank - 1; i >= 0; i--) {
    int64_t stride = view->strides ? view->strides[i] : dense;
    if (value->strides[i] != AOT_DYNAMIC && view->shape[i] != 1 && stride != value->strides[i])
      return 0;
    dense *= view->shape[i];
  }
  return 1;
}

/* What is passed for types narrower than a byte; NULL: others. */
static const char *codes_of(const aot_value *value) {
  for (const char *at = value->type; value->dl_bits == 8 && *at; at++)
    if (*at == 'x' || *at == '<') {
      if (at[1] == 'i' && at[2] >= '2' && at[2] <= '7' && (at[3] == '>' || at[3] == ','))
        return "another element type: numbers of this one are passed in a byte each, as int8 or uint8";
      if (at[1] == 'f' && (at[2] == '4' || at[2] == '6') && at[3] == 'E')
        return "another element type: codes of this one are passed in a byte each, as uint8";
    }
  return NULL;
}

const char *aot_array_problem(const aot_value *value, const aot_view *view, PyObject **exception) {
  *exception = PyExc_TypeError;
  if (!dtype_fits(value, view->dtype))
    return codes_of(value) ? codes_of(value) : "another element type";
  *exception = PyExc_ValueError;
  if (view->rank != value->rank)
    return "another rank";
  for (int32_t i = 0; i < view->rank; i++)
    if (value->shape[i] != AOT_DYNAMIC && value->shape[i] != view->shape[i])
      return "another extent";
  if (!value->strides && !aot_is_row_major(view))
    return "it must be contiguous (row-major): pass a contiguous copy";
  if (!strides_fit(value, view))
    return "the strides do not fit the layout";
  uint64_t alignment = value->dl_code == AOT_DL_COMPLEX ? value->storage / 2 : value->storage;
  if (view->address % alignment && aot_view_count(view))
    return "its address is not a multiple of the element's size";
  if (view->readonly && value->role != AOT_IN)
    return value->role == AOT_REF ? "it is read-only, and the call may write it" : "it is read-only, and the call writes it";
  return NULL;
}

/* ------------------------------------------------------------------ an argument */

/* How the array's own framework spells its element type; NULL, without an exception, when it does not. */
static PyObject *own_dtype_name(PyObject *object) {
  PyObject *dtype = PyObject_GetAttrString(object, "dtype"), *name = dtype ? PyObject_Str(dtype) : NULL;
  Py_XDECREF(dtype);
  if (!name)
    PyErr_Clear();
  return name;
}

/* "an" for int8, object and "unknown type", "a" for uint8. */
const char *aot_article(const char *name) {
  return *name == 'i' || *name == 'o' || !strncmp(name, "un", 2) ? "an" : "a";
}

PyObject *aot_array_words(const aot_view *view, PyObject *object) {
  char text[320];
  aot_view_text(view, text, sizeof text);
  size_t skipped = strncmp(text, unknown, sizeof unknown - 1) ? 0 : strcspn(text + sizeof unknown - 1, " ") + sizeof unknown - 1;
  PyObject *name = skipped ? own_dtype_name(object) : NULL;
  const char *type = name ? PyUnicode_AsUTF8AndSize(name, NULL) : "";
  const char *rest = name ? text + skipped : text;
  PyObject *words = type ? PyUnicode_FromFormat("%s %s%s", aot_article(name ? type : rest), type, rest) : NULL;
  Py_XDECREF(name);
  return words;
}

int aot_check_array(const aot_call *call, uint32_t index, const aot_view *view) {
  PyObject *exception;
  const char *problem = aot_array_problem(&call->callable->args[index], view, &exception);
  if (!problem)
    return 0;
  PyObject *words = aot_array_words(view, call->args[index]);
  if (words)
    aot_wrong(call, index, exception, ", got %U: %s", words, problem);
  Py_XDECREF(words);
  return -1;
}

void aot_fill_descriptor(const aot_value *value, const aot_view *view, int64_t *descriptor) {
  /* A static offset is compiled in: the descriptor's base lies that far before the array's first element. */
  int64_t offset = value->offset == AOT_DYNAMIC ? 0 : value->offset;
  int64_t base = (int64_t)view->address - offset * value->storage;
  int32_t rank = value->rank;
  descriptor[0] = descriptor[1] = base;
  descriptor[2] = offset;
  int64_t dense = 1;
  for (int32_t i = rank - 1; i >= 0; i--) {
    descriptor[3 + i] = view->shape[i];
    /* Row-major layouts get their canonical strides: those of extents of 1 may say anything in the view. */
    descriptor[3 + rank + i] = value->strides && view->strides ? view->strides[i] : dense;
    dense *= view->shape[i];
  }
}

void aot_reach(const aot_value *value, const int64_t *descriptor, uint64_t *low, uint64_t *high) {
  int64_t first = 0, last = 0;
  for (int32_t i = 0; i < value->rank; i++) {
    int64_t extent = descriptor[3 + i], step = descriptor[3 + value->rank + i];
    if (extent == 0) {
      *low = *high = 0;
      return;
    }
    *(step < 0 ? &first : &last) += (extent - 1) * step;
  }
  uint64_t base = (uint64_t)(descriptor[1] + descriptor[2] * value->storage);
  *low = base + (uint64_t)(first * value->storage);
  *high = base + (uint64_t)((last + 1) * value->storage);
}
