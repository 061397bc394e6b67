/* What an object says about its memory. In: any object. Out: aot_view.
 *
 * Three ways, tried in this order: the DLPack C exchange API of the object's type (no Python code runs), __dlpack__, and
 * __cuda_array_interface__. */
#include "py.h"
#include <string.h>

static PyObject *copy_words, *version_words, *plain_words;

/* ------------------------------------------------------------------ DLPack */

static void take_tensor(aot_view *view, const dl_tensor *tensor) {
  view->address = (uint64_t)(uintptr_t)tensor->data + tensor->byte_offset;
  view->shape = tensor->shape;
  view->strides = tensor->strides;
  view->device_type = tensor->device.type;
  view->device = tensor->device.id;
  view->rank = tensor->rank;
  view->dtype = tensor->dtype;
}

/* Exporters are other people's code: what they say is checked before anything is read through it. 1: sound. */
static int sound(aot_view *view) {
  enum { MOST_DIMENSIONS = 64 };
  const char *fault = view->rank < 0 || view->rank > MOST_DIMENSIONS ? "a number of dimensions that no array has"
                      : view->rank && !view->shape                    ? "dimensions without extents"
                                                                      : NULL;
  int64_t size = (view->dtype.bits * (int64_t)view->dtype.lanes + 7) / 8;
  int empty = 0, huge = 0;
  for (int32_t i = 0; !fault && i < view->rank; i++) {
    if (view->shape[i] < 0)
      fault = "a negative extent";
    empty |= !view->shape[i];
    huge |= view->shape[i] && __builtin_mul_overflow(size, view->shape[i], &size);   /* of empty arrays, too: strides are products */
  }
  if (!fault && (huge || (!empty && !view->address)))
    fault = huge ? "more elements than memory can hold" : "elements at address 0";
  if (!fault)
    return 1;
  Py_CLEAR(view->holder);
  PyErr_Format(PyExc_ValueError, "it says that it has %s", fault);
  return -1;
}

static int failed(const char *who) {
  if (!PyErr_Occurred())
    PyErr_Format(PyExc_RuntimeError, "%s failed without saying why", who);
  return -1;
}

static void drop_managed(PyObject *capsule) {
  dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
  if (managed && managed->deleter)
    managed->deleter(managed);
}

int aot_view_fast(PyObject *object, const aot_kind *kind, aot_view *view) {
  view->holder = NULL;
  view->exchange = kind->exchange;
  view->readonly = kind->immutable;
  if (kind->ours)
    return aot_own_array_view(object, view);
  if (kind->masked) {
    PyErr_SetString(PyExc_TypeError, "masked arrays are not taken");
    return -1;
  }
  if (kind->numpy)
    return aot_numpy_view(object, view);
  if (!kind->exchange)
    return 0;
  if (kind->exchange->tensor_from_object) {
    dl_tensor tensor;
    if (kind->exchange->tensor_from_object(object, &tensor))
      return failed("the array's DLPack exchange API");
    take_tensor(view, &tensor);
    return sound(view);
  }
  dl_managed *managed = NULL;
  if (kind->exchange->managed_from_object(object, &managed) || !managed)
    return failed("the array's DLPack exchange API");
  take_tensor(view, &managed->tensor);
  view->readonly |= (managed->flags & DL_READ_ONLY) != 0;
  view->holder = PyCapsule_New(managed, "dltensor_versioned", drop_managed);
  if (view->holder)
    return sound(view);
  managed->deleter(managed);
  return -1;
}

/* DLPack's stream: 0 is not allowed, 1 is the legacy default stream, None goes with host memory. */
static PyObject *stream_number(const aot_call *call) {
  if (call->place == AOT_PLACE_CPU)
    return Py_NewRef(Py_None);
  return PyLong_FromUnsignedLongLong(call->stream ? (uintptr_t)call->stream : 1);
}

/* Newest form of the call first; producers that know fewer keywords answer with TypeError. */
static PyObject *export_capsule(PyObject *method, const aot_call *call) {
  PyObject *number = stream_number(call), *capsule = NULL, *none = PyTuple_New(0);
  PyObject *const forms[] = {copy_words, version_words, plain_words};
  for (int i = 0; number && none && !capsule && i < 3; i++) {
    PyErr_Clear();
    PyObject *words = PyDict_Copy(forms[i]);
    if (words && !PyDict_SetItem(words, aot_names[AOT_NAME_STREAM], number))
      capsule = PyObject_Call(method, none, words);
    Py_XDECREF(words);
    if (!capsule && !PyErr_ExceptionMatches(PyExc_TypeError))
      break;
  }
  Py_XDECREF(number);
  Py_XDECREF(none);
  return capsule;
}

/* The capsule is not consumed: it stays ours until the call is enqueued, and its destructor gives the tensor back. */
static int read_capsule(PyObject *capsule, aot_view *view) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed->version.major != DL_MAJOR) {
      PyErr_Format(PyExc_BufferError, "the array exports DLPack %u, known is %d", (unsigned)managed->version.major, DL_MAJOR);
      return -1;
    }
    take_tensor(view, &managed->tensor);
    view->readonly |= (managed->flags & DL_READ_ONLY) != 0;
    return 1;
  }
  if (!PyCapsule_IsValid(capsule, "dltensor")) {
    PyErr_SetString(PyExc_TypeError, PyCapsule_CheckExact(capsule) ? "its __dlpack__ gave a capsule of another kind, or one that was used before"
                                                                   : "its __dlpack__ gave no capsule");
    return -1;
  }
  dl_managed_old *managed = PyCapsule_GetPointer(capsule, "dltensor");
  take_tensor(view, &managed->tensor);
  return 1;
}

/* 1: the view says which device, and nothing else. 0: the object does not tell. */
static int ask_device(PyObject *object, aot_view *view) {
  PyObject *method = aot_optional(object, AOT_NAME_DLPACK_DEVICE);
  if (!method)
    return PyErr_Occurred() ? -1 : 0;
  PyObject *device = PyObject_CallFunctionObjArgs(method, NULL), *type = NULL;
  Py_DECREF(method);
  if (device && PyTuple_Check(device) && PyTuple_Size(device) == 2)
    type = PyNumber_Long(PyTuple_GetItem(device, 0));          /* often an IntEnum */
  Py_XDECREF(device);
  if (!type)
    return failed("__dlpack_device__");
  long number = PyLong_AsLong(type);
  Py_DECREF(type);
  view->device_type = number < 0 || number > INT32_MAX ? 0 : (int32_t)number;   /* 0: no device that DLPack knows */
  return PyErr_Occurred() ? -1 : 1;
}

int aot_place_ask(PyObject *object) {
  aot_view view;
  int told = ask_device(object, &view);
  return told <= 0 ? told : aot_place_of(&view);
}

static int read_dlpack(PyObject *object, PyObject *method, const aot_call *call, aot_view *view) {
  int told = ask_device(object, view);
  if (told < 0 || (told && aot_place_of(view) != (call->place == AOT_PLACE_CPU ? AOT_PLACE_CPU : AOT_PLACE_GPU)))
    return told;
  view->holder = export_capsule(method, call);
  return view->holder ? read_capsule(view->holder, view) : -1;
}

/* ------------------------------------------------------------------ any array */

int aot_view_slow(PyObject *object, const aot_kind *kind, const aot_call *call, aot_view *view) {
  *view = (aot_view){.readonly = kind->immutable};
  PyObject *found = aot_optional(object, AOT_NAME_DLPACK);
  int status = PyErr_Occurred() ? -1 : 0;
  if (found)
    status = read_dlpack(object, found, call, view);
  else if (!status && (found = aot_optional(object, AOT_NAME_CUDA_INTERFACE)))
    status = aot_cuda_interface_read(found, view);
  else if (PyErr_Occurred())
    status = -1;
  Py_XDECREF(found);
  if (status < 0)
    Py_CLEAR(view->holder);
  return status > 0 && view->holder ? sound(view) : status;    /* without a holder it told its device only */
}

/* ------------------------------------------------------------------ lazily conjugated and negated views */

static int ask(PyObject *object, PyObject *method, PyCFunction quick) {
  PyObject *answer;
  if (quick)
    answer = quick(object, NULL);
  else {
    Py_INCREF(method);                                         /* it is the cache's, and Python code is about to run */
    answer = PyObject_CallFunctionObjArgs(method, object, NULL);
    Py_DECREF(method);
  }
  int truth = answer == Py_False ? 0 : answer ? PyObject_IsTrue(answer) : -1;
  Py_XDECREF(answer);
  return truth;
}

/* torch hands such views out through the exchange API with the flag dropped: x.conj(), its .imag, torch._neg_view(x). Any array
 * may be negated (a contiguous one, too), so each is asked, by the type's own method that was looked up once. */
int aot_is_lazy(PyObject *object, const aot_kind *kind, dl_dtype dtype) {
  if (!kind->is_neg)
    return 0;
  PyObject *is_conj = dtype.code == AOT_DL_COMPLEX ? kind->is_conj : NULL;
  int negated = ask(object, kind->is_neg, kind->ask_neg);
  return negated || !is_conj ? negated : ask(object, is_conj, NULL);
}

int aot_array_setup(void) {
  if (plain_words)
    return 0;
  copy_words = Py_BuildValue("{s(ii)sO}", "max_version", DL_MAJOR, DL_MINOR, "copy", Py_False);
  version_words = Py_BuildValue("{s(ii)}", "max_version", DL_MAJOR, DL_MINOR);
  plain_words = PyDict_New();
  return copy_words && version_words && plain_words ? 0 : -1;
}
