/* A host function's call. In: what CPython hands over. Out: the function's value, or an exception.
 *
 * The interpreter lock is kept for calls that only enqueue; it is given up while a module is loaded, and around host code
 * that may wait for the device. */
#include "py.h"
#include <stdio.h>

/* Without array arguments a call goes to a GPU. Where there is no driver, the user may have meant the CPU. */
static int cannot_enter(const aot_call *call, int code) {
  const aot_function *function = call->callable->function;
  if (code != AOT_E_NO_DRIVER || call->first_object || !function || !aot_cpu_entry(function))
    return aot_raise(code, aot_last_error());
  char text[AOT_MESSAGE_BYTES];
  snprintf(text, sizeof text, "%s; without array arguments %s.%s() runs on a GPU, and on the CPU where out= is in host memory", aot_last_error(),
           function->source->name, function->name);
  return aot_raise(code, text);
}

int aot_enter(aot_call *call, aot_frame *frame, void **restore) {
  aot_callable *callable = (aot_callable *)call->callable;
  int code = call->device < 0 ? aot_current_device(&call->device) : 0;
  if (!code)
    code = aot_context_enter(call->device, &frame->context, &frame->context_id, restore);
  if (code)
    return cannot_enter(call, code);
  frame->function = callable->function;
  frame->stream = call->stream;
  frame->device = call->device;
  frame->python = call;
  frame->memory = aot_result_memory;
  if (aot_stream_before(call)) {
    aot_context_leave(*restore);
    return -1;
  }
  if (callable->source->blob && aot_loaded_context(callable) != frame->context_id) {
    PyThreadState *state = PyEval_SaveThread();
    code = aot_module_load(callable->source, frame->context_id, frame->message, sizeof frame->message);
    PyEval_RestoreThread(state);
    if (code) {
      aot_context_leave(*restore);
      return aot_raise(code, frame->message);
    }
    __atomic_store_n(&callable->loaded_context, frame->context_id, __ATOMIC_RELAXED);
  }
  aot_push(frame);
  return 0;
}

int aot_leave(aot_call *call, aot_frame *frame, void *restore, int failed) {
  aot_pop(frame);
  int code = call->moved ? aot_destinations_finish(call, failed) : 0;
  int copied = call->outputs ? aot_outputs_finish(call, failed) : 0;
  int order = aot_stream_after(call);
  aot_context_leave(restore);
  if (failed)
    return aot_raise(failed, frame->message);
  code = code ? code : copied ? copied : order;
  return code ? aot_raise(code, aot_last_error()) : 0;
}

static int run(aot_call *call, aot_frame *frame) {
  if (!(call->callable->function->flags & (AOT_READS_DEVICE | AOT_HOST_SYNC | AOT_MESSAGES)))
    return aot_run(frame, call->slots);
  call->released = PyEval_SaveThread();
  int code = aot_run(frame, call->slots);
  PyEval_RestoreThread(call->released);
  call->released = NULL;
  return code;
}

static PyObject *call_bound(aot_call *call, PyObject *out) {
  aot_frame frame;
  void *restore = NULL;
  if (aot_read_arguments(call) || aot_outputs_read(call, out))
    return NULL;
  if (call->place == AOT_PLACE_UNKNOWN && aot_place_without_arrays(call))
    return NULL;
  if (call->place == AOT_PLACE_CPU)
    return aot_call_on_cpu(call);
  if (aot_enter(call, &frame, &restore))
    return NULL;
  int overlaps = call->callable->writes_values && aot_destinations_separate(call, &frame);
  int code = overlaps ? AOT_E_PYTHON : run(call, &frame);
  return aot_leave(call, &frame, restore, code) ? NULL : aot_outputs_return(call);
}

void aot_lay_out_results(aot_call *call) {
  const aot_function *function = call->callable->function;
  int64_t *word = call->words + call->callable->argument_words;
  for (uint32_t k = 0; k < function->nresults; k++) {
    const aot_value *value = &function->results[k];
    aot_output *output = &call->outputs[k];
    call->slots[function->nargs + k] = value->alias >= 0 ? NULL : word;
    word += value->kind == AOT_ARRAY ? 3 + 2 * (size_t)value->rank : 2;
    output->object = output->given = NULL;
    output->temporary = 0;
    output->overlaps = output->ours = 0;
  }
}

static PyObject *call_in(const aot_callable *callable, int64_t *words, PyObject *const *args, Py_ssize_t given, PyObject *names) {
  size_t count = callable->nargs, results = callable->function->nresults;
  PyObject **bound = (PyObject **)(words + callable->argument_words + callable->result_words), *options[AOT_MAX_OPTIONS];
  aot_call call;
  call.callable = callable;
  call.args = bound;
  call.words = words;
  call.holders = bound + count;
  call.slots = (void **)(call.holders + count + results);
  call.spans = (uint64_t *)(call.slots + count + results);
  call.outputs = (aot_output *)(call.spans + 2 * count);
  call.moved = NULL;
  call.nmoved = 0;
  call.released = NULL;
  aot_lay_out_results(&call);
  if (aot_bind(callable, args, given, names, bound, options))
    return NULL;
  call.stream_option = options[AOT_OPTION_STREAM] == Py_None ? NULL : options[AOT_OPTION_STREAM];
  PyObject *value = NULL;
  int done = callable->unflagged && !call.stream_option && !options[AOT_OPTION_OUT] ? aot_plain_call(&call, &value) : 0;
  if (!done)
    value = call_bound(&call, options[AOT_OPTION_OUT]);
  aot_outputs_drop(&call);
  aot_drop_holders(&call);
  return value;
}

static PyObject *call_any(const aot_callable *callable, PyObject *const *args, Py_ssize_t given, PyObject *names) {
  int64_t small[AOT_STACK_WORDS], *words = small;
  if (callable->words > AOT_STACK_WORDS && !(words = PyMem_Malloc(callable->words * sizeof *words)))
    return PyErr_NoMemory();
  PyObject *value = call_in(callable, words, args, given, names);
  if (words != small)
    PyMem_Free(words);
  return value;
}

AOT_HOT PyObject *aot_call_function(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *names) {
  const aot_callable *callable = (const aot_callable *)self;
  PyObject *value = NULL;
  int done = callable->unflagged && !names && given == callable->nargs ? aot_plain_positional(callable, args, &value) : 0;
  return done ? value : call_any(callable, args, given, names);
}
