/* Memory for results, and the call's value. In: results of the signature, out=. Out: Python objects of the caller's own kind.
 *
 * A result's memory comes from out=; else from the allocator of the first array's framework (C exchange API, or numpy); else it is
 * our own, from the pool or the host, and our array is then turned into the caller's type by that framework's from_dlpack. Where
 * out= shares memory with an argument, the result is computed elsewhere and copied over in stream order. */
#include "py.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ memory, while host code runs */

enum { NO_ALLOCATOR = 1 };
typedef struct { char kind[64], text[512]; } allocator_words;

/* Called from a framework's C++ frames: it only takes notes. */
static void note_error(void *context, const char *kind, const char *message) {
  allocator_words *words = context;
  snprintf(words->kind, sizeof words->kind, "%s", kind ? kind : "");
  snprintf(words->text, sizeof words->text, "%s", message ? message : "");
}

/* Types that only view memory (cuda.core's StridedMemoryView) have an allocator that says so. */
static int has_no_allocator(const allocator_words *words) {
  if (PyErr_Occurred() ? !PyErr_ExceptionMatches(PyExc_NotImplementedError) : strcmp(words->kind, "NotImplementedError"))
    return 0;
  PyErr_Clear();
  return 1;
}

static int allocator_failed(const allocator_words *words) {
  if (!PyErr_Occurred())
    PyErr_Format(strcmp(words->kind, "MemoryError") ? PyExc_RuntimeError : PyExc_MemoryError, "memory for a result: %s%s%s", words->kind,
                 *words->kind ? ": " : "", *words->text ? words->text : "the allocator failed");
  return AOT_E_PYTHON;
}

/* 0; AOT_E_PYTHON; or NO_ALLOCATOR. */
static int from_framework(aot_call *call, const aot_value *value, int64_t *shape, aot_output *output, uint64_t *address) {
  const dl_exchange *exchange = call->first_kind.exchange;
  dl_device device = call->place == AOT_PLACE_CPU ? (dl_device){DL_CPU, 0} : (dl_device){DL_CUDA, call->device};
  dl_tensor prototype = {.device = device, .rank = value->rank, .dtype = {value->dl_code, value->dl_bits, 1}, .shape = shape};
  allocator_words words = {"", ""};
  dl_managed *managed = NULL;
  if (exchange->allocate(&prototype, &managed, &words, note_error) || !managed)
    return has_no_allocator(&words) ? NO_ALLOCATOR : allocator_failed(&words);
  *address = (uint64_t)(uintptr_t)managed->tensor.data + managed->tensor.byte_offset;
  void *object = NULL;
  if (exchange->object_from_managed(managed, &object) || !object)
    return allocator_failed(&words);
  output->object = object;
  return 0;
}

static int from_pool(aot_call *call, aot_frame *frame, const aot_value *value, int64_t bytes, aot_output *output, uint64_t *address) {
  PyObject *owner = aot_stream_owner(call);
  if (PyErr_Occurred())
    return AOT_E_PYTHON;
  int code = aot_pool_alloc(frame->device, frame->stream, bytes, address);
  if (code) {
    Py_XDECREF(owner);
    return aot_record(frame, code, "%s", aot_last_error());
  }
  aot_memory memory = {*address, bytes, frame->stream, frame->device};
  output->object = aot_own_array_new(&memory, value, frame->extents, owner);
  output->ours = 1;
  Py_XDECREF(owner);
  return output->object ? 0 : AOT_E_PYTHON;
}

/* numpy's array for numpy's, and where no array was given; else memory of our own. */
static int from_host(aot_call *call, aot_frame *frame, const aot_value *value, int64_t bytes, aot_output *output, uint64_t *address) {
  if (!call->first_object || call->first_kind.numpy) {
    output->object = aot_numpy_make(value, frame->extents, address);
    if (output->object || PyErr_Occurred())
      return output->object ? 0 : AOT_E_PYTHON;
  }
  int code = aot_scratch_alloc(call, frame, bytes, address);
  if (code)
    return aot_record(frame, code, "%s", aot_last_error());
  aot_memory memory = {*address, bytes, NULL, -1};
  output->object = aot_own_array_new(&memory, value, frame->extents, NULL);
  output->ours = 1;
  return output->object ? 0 : AOT_E_PYTHON;
}

static int from_out(aot_call *call, aot_frame *frame, uint32_t k, uint64_t *address) {
  const aot_value *value = &call->callable->function->results[k];
  aot_output *output = &call->outputs[k];
  if (memcmp(output->shape, frame->extents, (size_t)value->rank * sizeof *output->shape)) {
    char got[320], made[320];
    dl_dtype dtype = {value->dl_code, value->dl_bits, 1};
    aot_view view = {.shape = output->shape, .rank = value->rank, .dtype = dtype};
    aot_view_text(&view, got, sizeof got);
    view.shape = frame->extents;
    aot_view_text(&view, made, sizeof made);
    char given[340], problem[400];
    snprintf(given, sizeof given, "%s %s", aot_article(got), got);
    snprintf(problem, sizeof problem, "the result is %s %s", aot_article(made), made);
    aot_wrong_out(call, k, PyExc_ValueError, given, problem);
    return AOT_E_PYTHON;
  }
  *address = output->address;
  if (!output->overlaps)
    return 0;
  int code = aot_scratch_alloc(call, frame, output->bytes, &output->temporary);
  *address = output->temporary;
  return code ? aot_record(frame, code, "%s", aot_last_error()) : 0;
}

static int give_memory(aot_call *call, aot_frame *frame, uint32_t k, int64_t bytes, uint64_t *address) {
  const aot_value *value = &call->callable->function->results[k];
  aot_output *output = &call->outputs[k];
  for (int i = 0; i < value->rank; i++)
    if (frame->extents[i] < 0)
      return aot_record(frame, AOT_E_SIZE, "result %u: negative size %lld", (unsigned)k + 1, (long long)frame->extents[i]);
  if (output->given)
    return from_out(call, frame, k, address);
  const dl_exchange *exchange = call->first_kind.exchange;
  int code = NO_ALLOCATOR;
  if (call->first_object && exchange && exchange->allocate && exchange->object_from_managed)
    code = from_framework(call, value, frame->extents, output, address);
  if (code != NO_ALLOCATOR)
    return code;
  return (call->place == AOT_PLACE_CPU ? from_host : from_pool)(call, frame, value, bytes, output, address);
}

int aot_result_memory(aot_frame *frame, int64_t k, int64_t bytes, uint64_t *address) {
  aot_call *call = frame->python;
  const aot_function *function = call->callable->function;
  if (k < 0 || k >= function->nresults || !aot_is_fresh(&function->results[k]) || frame->nextents != function->results[k].rank ||
      call->outputs[k].object)
    return aot_record(frame, AOT_E_INTERNAL, "host code asks for memory of result %lld, which the signature does not have", (long long)k);
  int released = call->released != NULL;
  if (released)
    PyEval_RestoreThread(call->released);
  int code = give_memory(call, frame, (uint32_t)k, bytes, address);
  if (released)
    call->released = PyEval_SaveThread();
  return code;
}

/* ------------------------------------------------------------------ after host code */

int aot_outputs_finish(aot_call *call, int failed) {
  int first = 0;
  for (uint32_t k = 0; k < call->callable->function->nresults; k++) {
    aot_output *output = &call->outputs[k];
    if (!output->temporary)
      continue;
    int code = failed ? 0 : aot_scratch_copy(call, output->address, output->temporary, (uint64_t)output->bytes);
    int freed = aot_scratch_free(call, output->temporary);
    output->temporary = 0;
    if (!first)
      first = code ? code : freed;
  }
  return first;
}

/* JAX's arrays say jaxlib, where there is no from_dlpack. Frameworks without one (numba, cuda.core) get our array. */
static PyObject *find_converter(PyObject *array) {
  PyObject *name = PyObject_GetAttr((PyObject *)Py_TYPE(array), aot_names[AOT_NAME_MODULE]);
  const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  char root[64];
  snprintf(root, sizeof root, "%.*s", text ? (int)strcspn(text, ".") : 0, text ? text : "");
  Py_XDECREF(name);
  PyErr_Clear();
  const char *home = strcmp(root, "jaxlib") && strcmp(root, "jax") ? root : "jax.numpy";
  PyObject *key = PyUnicode_FromString(home), *module = key ? aot_item(PyImport_GetModuleDict(), key) : NULL;
  PyObject *found = module ? aot_optional(module, AOT_NAME_FROM_DLPACK) : NULL;
  Py_XDECREF(key);
  Py_XDECREF(module);
  return found;
}

static int convert(const aot_call *call, aot_output *output) {
  if (!output->ours || !call->first_object || call->first_kind.ours)
    return 0;
  PyObject *converter = find_converter(call->first_object);
  if (!converter)
    return PyErr_Occurred() ? -1 : 0;
  PyObject *converted = PyObject_CallFunctionObjArgs(converter, output->object, NULL);
  Py_DECREF(converter);
  if (!converted)
    return -1;
  Py_DECREF(output->object);
  output->object = converted;
  output->ours = 0;
  return 0;
}

static PyObject *result_object(aot_call *call, uint32_t k) {
  const aot_function *function = call->callable->function;
  const aot_value *value = &function->results[k];
  aot_output *output = &call->outputs[k];
  if (value->alias >= 0)
    return Py_NewRef(call->args[value->alias]);
  if (value->kind == AOT_SCALAR)
    return aot_number_object(value, call->slots[function->nargs + k]);
  if (output->given)
    return Py_NewRef(output->given);
  if (!output->object) {
    PyErr_Format(PyExc_RuntimeError, "%s.%s(): host code did not ask for memory of result %u", function->source->name, function->name,
                 (unsigned)k + 1);
    return NULL;
  }
  return convert(call, output) ? NULL : Py_NewRef(output->object);
}

PyObject *aot_outputs_return(aot_call *call) {
  uint32_t count = call->callable->function->nresults;
  if (count == 0)
    Py_RETURN_NONE;
  if (count == 1)
    return result_object(call, 0);
  PyObject *tuple = PyTuple_New(count);
  for (uint32_t k = 0; tuple && k < count; k++) {
    PyObject *object = result_object(call, k);
    if (!object || PyTuple_SetItem(tuple, k, object))
      Py_CLEAR(tuple);
  }
  return tuple;
}

void aot_outputs_drop(aot_call *call) {
  for (uint32_t k = 0; k < call->callable->function->nresults; k++)
    Py_CLEAR(call->outputs[k].object);
}
