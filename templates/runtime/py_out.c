/* out=: arrays of the caller for results. In: an array, or a tuple with one entry per result that is made (None: make it).
 * Out: addresses, checked as far as the signature goes; extents that host code computes are compared when it asks for memory. */
#include "py.h"
#include <string.h>

int aot_is_fresh(const aot_value *value) { return value->kind == AOT_ARRAY && value->alias < 0; }

int aot_wrong_out(const aot_call *call, uint32_t k, PyObject *exception, const char *got, const char *problem) {
  const aot_function *function = call->callable->function;
  PyErr_Format(exception, "%s.%s() out= for result %u: expected %s, got %s: %s", function->source->name, function->name, (unsigned)k + 1,
               function->results[k].type, got, problem);
  return -1;
}

static const char *wrong_place(const aot_call *call, const aot_view *view) {
  if (call->place == AOT_PLACE_CPU)
    return call->first >= 0 ? "it is not in host memory, as the arguments are" : "it is not in host memory";
  if (aot_place_of(view) != AOT_PLACE_CPU)
    return "it is on a device that is neither a CUDA GPU nor the CPU";
  return call->first >= 0 && aot_cpu_entry(call->callable->function) ? "it is in host memory, the arguments are on a GPU" : "it is in host memory";
}

static int check_out(aot_call *call, uint32_t k, PyObject *object, const aot_view *view) {
  const aot_value *value = &call->callable->function->results[k];
  if (aot_place_of(view) != call->place)
    return aot_wrong_out(call, k, PyExc_TypeError, "an array", wrong_place(call, view));
  PyObject *exception;
  const char *problem = aot_array_problem(value, view, &exception);
  if (!problem && view->readonly) {
    exception = PyExc_ValueError;
    problem = "it is read-only";
  }
  if (!problem && call->place == AOT_PLACE_GPU && view->device >= 0 && call->device >= 0 && view->device != call->device) {
    exception = PyExc_ValueError;
    problem = "it is on another device than the arguments";
  }
  if (!problem)
    return 0;
  PyObject *words = aot_array_words(view, object);
  const char *text = words ? PyUnicode_AsUTF8AndSize(words, NULL) : NULL;
  if (text)
    aot_wrong_out(call, k, exception, text, problem);
  Py_XDECREF(words);
  return -1;
}

static int overlaps_another(const aot_call *call, uint32_t k) {
  const aot_output *mine = &call->outputs[k];
  for (uint32_t i = 0; i < k; i++)
    if (call->outputs[i].given && call->outputs[i].address < mine->high && mine->address < call->outputs[i].high)
      return 1;
  return 0;
}

static int overlaps_argument(const aot_call *call, const aot_output *output) {
  for (uint32_t i = 0; i < call->callable->nargs; i++) {
    const uint64_t *span = &call->spans[2 * i];
    if (call->callable->args[i].kind == AOT_ARRAY && span[0] < output->high && output->address < span[1])
      return 1;
  }
  return 0;
}

static int keep_out(aot_call *call, uint32_t k, PyObject *object, const aot_kind *kind, const aot_view *view) {
  aot_output *output = &call->outputs[k];
  if (view->holder)
    call->holders[call->nholders++] = view->holder;
  if (check_out(call, k, object, view))
    return -1;
  int lazy = view->exchange ? aot_is_lazy(object, kind, view->dtype) : 0;
  if (lazy)
    return lazy < 0 ? -1 : aot_wrong_out(call, k, PyExc_ValueError, "a tensor", "it is conjugated or negated only when read");
  if (call->device < 0 && call->place == AOT_PLACE_GPU)
    call->device = view->device;
  const aot_value *value = &call->callable->function->results[k];
  output->given = object;
  output->address = view->address;
  output->bytes = aot_view_count(view) * value->storage;
  output->high = view->address + (uint64_t)output->bytes;
  memcpy(output->shape, view->shape, (size_t)value->rank * sizeof *view->shape);
  output->overlaps = (uint8_t)overlaps_argument(call, output);
  return overlaps_another(call, k) ? aot_wrong_out(call, k, PyExc_ValueError, "an array", "it shares memory with another of out=") : 0;
}

/* As name_argument in py_arguments.c. */
static int name_out(const aot_call *call, uint32_t k, PyObject *object) {
  aot_fault fault;
  if (!aot_fault_take(object, &fault))
    return -1;
  const aot_function *function = call->callable->function;
  PyErr_Format(fault.exception, "%s.%s() out= for result %u: expected %s, got %U", function->source->name, function->name, (unsigned)k + 1,
               function->results[k].type, fault.words);
  return aot_fault_raised(&fault);
}

/* Without array arguments, the first array of out= says where the call runs. `view` is NULL while the array waits. */
static int note_first_out(aot_call *call, uint32_t k, PyObject *object, const aot_kind *kind, const aot_view *view) {
  const aot_function *function = call->callable->function;
  int place = view ? aot_place_of(view) : aot_place_ask(object);
  if (place < 0)
    return name_out(call, k, object);
  call->first_object = object;
  call->first_kind = *kind;
  call->place = place == AOT_PLACE_CPU && aot_cpu_entry(function) ? AOT_PLACE_CPU : AOT_PLACE_GPU;
  call->device = view && call->place == AOT_PLACE_GPU ? view->device : -1;
  return aot_place_settle(call);
}

static int read_out(aot_call *call, uint32_t k, PyObject *object) {
  const aot_function *function = call->callable->function;
  const aot_kind *found = aot_kind_of(object);
  if (!found)
    return -1;
  aot_kind kind = *found;
  aot_view view;
  int status = aot_view_fast(object, &kind, &view);
  if (!call->first_object && status >= 0 && note_first_out(call, k, object, &kind, status ? &view : NULL)) {
    if (status)
      Py_XDECREF(view.holder);
    return -1;
  }
  if (!status)
    status = aot_view_slow(object, &kind, call, &view);
  if (status)
    return status < 0 ? name_out(call, k, object) : keep_out(call, k, object, &kind, &view);
  PyObject *type = aot_type_name(object);
  const char *name = type ? PyUnicode_AsUTF8AndSize(type, NULL) : NULL;
  if (name)
    aot_wrong_out(call, k, PyExc_TypeError, name, function->cpu ? "an array is needed" : "an array on a GPU is needed");
  Py_XDECREF(type);
  return -1;
}

int aot_outputs_read(aot_call *call, PyObject *out) {
  const aot_function *function = call->callable->function;
  if (!out || out == Py_None)
    return 0;
  Py_ssize_t fresh = 0, given = PyTuple_Check(out) ? PyTuple_Size(out) : 1, next = 0;
  for (uint32_t k = 0; k < function->nresults; k++)
    fresh += aot_is_fresh(&function->results[k]);
  if (given != fresh) {
    PyErr_Format(PyExc_TypeError, "%s.%s() makes %zd array%s: out= takes %s, got %zd", function->source->name, function->name, fresh,
                 fresh == 1 ? "" : "s", fresh == 1 ? "one array" : "a tuple of that many", given);
    return -1;
  }
  for (uint32_t k = 0; k < function->nresults; k++) {
    if (!aot_is_fresh(&function->results[k]))
      continue;
    PyObject *object = PyTuple_Check(out) ? PyTuple_GetItem(out, next++) : out;
    if (object != Py_None && read_out(call, k, object))
      return -1;
  }
  return 0;
}
