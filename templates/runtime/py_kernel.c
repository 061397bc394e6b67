/* A kernel's call: kernel(*args, grid=, block=, shared=0, cluster=None, stream=None, cooperative=,
 * programmatic=, priority=). In: arguments and sizes. Out: one launch.
 *
 * Sizes that are not passed come from the kernel's own defaults: postfix programs over the arguments' extents and integers. */
#include "py.h"
#include <string.h>

enum { STACK = 32 };

typedef struct { const int64_t *dims, *symbols; } environment;

static int apply(int64_t operation, int64_t a, int64_t b, int64_t *out) {
  int divides = operation == AOT_EXPR_FLOORDIV || operation == AOT_EXPR_CEILDIV || operation == AOT_EXPR_MOD;
  if (divides && b <= 0)
    return -1;                                                 /* MLIR leaves it undefined */
  switch (operation) {
  case AOT_EXPR_ADD: return __builtin_add_overflow(a, b, out) ? -1 : 0;
  case AOT_EXPR_MUL: return __builtin_mul_overflow(a, b, out) ? -1 : 0;
  case AOT_EXPR_FLOORDIV: *out = a / b - (a % b < 0); return 0;
  case AOT_EXPR_CEILDIV: *out = a / b + (a % b > 0); return 0;
  case AOT_EXPR_MOD: *out = a % b + (a % b < 0 ? b : 0); return 0;
  default: return -1;
  }
}

/* -1 without an exception: overflow, or a division by something not positive. */
static int evaluate(const int64_t *program, const environment *values, int64_t *result) {
  int64_t stack[STACK];
  int top = 0;
  for (const int64_t *word = program; *word != AOT_EXPR_END; word++) {
    int64_t operation = *word;
    if (operation > AOT_EXPR_SYM) {
      if (top < 2 || apply(operation, stack[top - 2], stack[top - 1], &stack[top - 2]))
        return -1;
      top--;
      continue;
    }
    word++;
    if (top == STACK)
      return -1;
    stack[top++] = operation == AOT_EXPR_CONST ? *word : operation == AOT_EXPR_DIM ? values->dims[*word] : values->symbols[*word];
  }
  *result = top == 1 ? stack[0] : 0;
  return top == 1 ? 0 : -1;
}

static int wrong_size(const aot_call *call, PyObject *exception, const char *option, const char *text) {
  PyErr_Format(exception, "%s.%s(): %s= %s", call->callable->source->name, call->callable->name, option, text);
  return -1;
}

static int read_extent(const aot_call *call, const char *option, const char *wanted, PyObject *object, int64_t *extent) {
  PyObject *number = PyNumber_Index(object);
  if (!number) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError))
      return -1;
    PyErr_Clear();
    return wrong_size(call, PyExc_TypeError, option, wanted);
  }
  *extent = PyLong_AsLongLong(number);
  Py_DECREF(number);
  if (*extent == -1 && PyErr_Occurred())
    return PyErr_ExceptionMatches(PyExc_OverflowError) ? wrong_size(call, PyExc_ValueError, option, "is outside the limits") : -1;
  if (*extent >= 0)
    return 0;
  PyErr_Format(PyExc_ValueError, "%s.%s(): %s= is negative: %lld", call->callable->source->name, call->callable->name, option, (long long)*extent);
  return -1;
}

static int read_extents(const aot_call *call, const char *option, PyObject *object, int64_t extents[3]) {
  static const char wanted[] = "takes an int or a tuple of one to three";
  extents[0] = extents[1] = extents[2] = 1;
  if (!PyTuple_Check(object) && !PyList_Check(object))
    return read_extent(call, option, wanted, object, &extents[0]);
  Py_ssize_t count = PySequence_Size(object);
  if (count < 1 || count > 3)
    return wrong_size(call, PyExc_TypeError, option, wanted);
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *entry = PySequence_GetItem(object, i);
    int status = entry ? read_extent(call, option, wanted, entry, &extents[i]) : -1;
    Py_XDECREF(entry);
    if (status)
      return -1;
  }
  return 0;
}

static int run_program(const aot_call *call, const char *option, const int64_t *program, const environment *values, int64_t *extent) {
  if (!evaluate(program, values, extent) && *extent >= 0)
    return 0;
  PyErr_Format(PyExc_ValueError, "%s.%s(): the kernel's own %s cannot be computed for these arguments: pass %s=",
               call->callable->source->name, call->callable->name, option, option);
  return -1;
}

static int defaults(const aot_call *call, const char *option, const int64_t *const programs[3], const environment *values, int64_t extents[3]) {
  for (int i = 0; i < 3; i++) {
    extents[i] = 1;
    if (programs[i] && run_program(call, option, programs[i], values, &extents[i]))
      return -1;
  }
  return 0;
}

static int read_grid(const aot_call *call, PyObject *option, const environment *values, int64_t extents[3]) {
  const aot_kernel *kernel = call->callable->kernel;
  if (option)
    return read_extents(call, "grid", option, extents);
  if (kernel->grid[0])
    return defaults(call, "grid", kernel->grid, values, extents);
  return wrong_size(call, PyExc_TypeError, "grid", "is needed: the number of blocks, an int or a tuple of up to three (the kernel has no aot.grid)");
}

static int read_block(const aot_call *call, PyObject *option, const environment *values, int64_t extents[3]) {
  const aot_kernel *kernel = call->callable->kernel;
  if (option)
    return read_extents(call, "block", option, extents);
  if (kernel->block[0])
    return defaults(call, "block", kernel->block, values, extents);
  if (!kernel->required_block[0])
    return wrong_size(call, PyExc_TypeError, "block", "is needed: the threads of a block, an int or a tuple of up to three (the kernel has no aot.block)");
  for (int i = 0; i < 3; i++)
    extents[i] = kernel->required_block[i] ? kernel->required_block[i] : 1;
  return 0;
}

static int read_cluster(const aot_call *call, PyObject *option, int64_t extents[3]) {
  if (option)
    return read_extents(call, "cluster", option, extents);
  for (int i = 0; i < 3; i++)
    extents[i] = call->callable->kernel->cluster[i];
  return 0;
}

static int read_flag(PyObject *option, uint8_t *flag) {
  int truth = option ? PyObject_IsTrue(option) : *flag;
  *flag = truth == 1;
  return truth < 0 ? -1 : 0;
}

/* The kernel's own attributes, unless the call says otherwise. */
static int read_how(const aot_call *call, PyObject *const *options, aot_how *how) {
  *how = call->callable->kernel->how;
  if (read_flag(options[AOT_KERNEL_COOPERATIVE], &how->cooperative) || read_flag(options[AOT_KERNEL_PROGRAMMATIC], &how->programmatic))
    return -1;
  if (!options[AOT_KERNEL_PRIORITY])
    return 0;
  PyObject *number = PyNumber_Index(options[AOT_KERNEL_PRIORITY]);
  int over = 0;
  long long priority = number ? PyLong_AsLongLongAndOverflow(number, &over) : -1;
  if (!number && !PyErr_ExceptionMatches(PyExc_TypeError))
    return -1;
  Py_XDECREF(number);
  PyErr_Clear();
  if (!number)
    return wrong_size(call, PyExc_TypeError, "priority", "takes an int: lower numbers go first, as for streams");
  if (over || priority < INT32_MIN || priority > INT32_MAX)
    return wrong_size(call, PyExc_ValueError, "priority", "is outside the limits");
  how->prioritized = 1;
  how->priority = (int32_t)priority;
  return 0;
}

static int read_geometry(const aot_call *call, PyObject *const *options, const environment *values, aot_geometry *geometry) {
  const aot_kernel *kernel = call->callable->kernel;
  PyObject *shared = options[AOT_KERNEL_SHARED];
  if (read_grid(call, options[AOT_KERNEL_GRID], values, geometry->grid) || read_block(call, options[AOT_KERNEL_BLOCK], values, geometry->block) ||
      read_cluster(call, options[AOT_KERNEL_CLUSTER], geometry->cluster) || read_how(call, options, &geometry->how))
    return -1;
  geometry->shared = 0;
  if (shared)
    return read_extent(call, "shared", "takes an int: the bytes of a block", shared, &geometry->shared);
  return kernel->shared ? run_program(call, "shared", kernel->shared, values, &geometry->shared) : 0;
}

static void collect(const aot_call *call, int64_t *dims, int64_t *symbols) {
  for (uint32_t i = 0; i < call->callable->nargs; i++) {
    const aot_value *value = &call->callable->args[i];
    const int64_t *slot = call->slots[i];
    if (value->kind == AOT_ARRAY) {
      memcpy(dims, slot + 3, (size_t)value->rank * sizeof *dims);
      dims += value->rank;
    } else if (value->dl_code == AOT_DL_INT || value->dl_code == AOT_DL_UINT || value->dl_code == AOT_DL_BOOL) {
      int unused = 64 - 8 * value->storage;
      *symbols++ = value->dl_code == AOT_DL_INT ? (int64_t)((uint64_t)*slot << unused) >> unused : (int64_t)((uint64_t)*slot << unused >> unused);
    }
  }
}

/* An array is its descriptor's fields as parameters of their own, or one pointer. */
static void list_parameters(const aot_call *call, void **params) {
  for (uint32_t i = 0; i < call->callable->nargs; i++) {
    const aot_value *value = &call->callable->args[i];
    int64_t *slot = call->slots[i];
    size_t fields = value->kind == AOT_ARRAY && !call->callable->kernel->bare ? 3 + 2 * (size_t)value->rank : 1;
    if (value->kind == AOT_ARRAY && call->callable->kernel->bare)
      slot += 1;
    for (size_t field = 0; field < fields; field++)
      *params++ = slot + field;
  }
}

/* Programs compute what is not passed; they read extents and integers. */
static int needs_values(const aot_kernel *kernel, PyObject *const *options) {
  return !options[AOT_KERNEL_GRID] || !options[AOT_KERNEL_BLOCK] || (kernel->shared && !options[AOT_KERNEL_SHARED]);
}

AOT_HOT static int launch(aot_call *call, PyObject *const *options, int64_t *dims, int64_t *symbols, void **params) {
  const aot_callable *callable = call->callable;
  environment values = {dims, symbols};
  aot_geometry geometry;
  aot_frame frame;
  void *restore = NULL;
  int plain = call->stream_option ? 0 : aot_plain_arguments(call);
  if (plain < 0 || (!plain && aot_read_arguments(call)))
    return -1;
  if (needs_values(callable->kernel, options))
    collect(call, dims, symbols);
  if (read_geometry(call, options, &values, &geometry))
    return -1;
  frame.function = NULL;
  frame.stream = call->stream;
  frame.device = call->device;
  frame.python = call;
  plain = plain && aot_push_familiar(&frame, aot_loaded_context(callable));
  if (!plain && (aot_place_settle(call) || aot_enter(call, &frame, &restore)))
    return -1;
  list_parameters(call, params);
  int code = aot_launch(&frame, callable->source, callable->index, &geometry, NULL, params);
  if (!plain)
    return aot_leave(call, &frame, restore, code);
  aot_pop(&frame);
  return code ? aot_raise(code, frame.message) : 0;
}

AOT_HOT PyObject *aot_call_kernel(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *names) {
  const aot_callable *callable = (const aot_callable *)self;
  int64_t small[AOT_STACK_WORDS], *words = small;
  if (callable->words > AOT_STACK_WORDS && !(words = PyMem_Malloc(callable->words * sizeof *words)))
    return PyErr_NoMemory();
  size_t count = callable->nargs;
  PyObject **bound = (PyObject **)(words + callable->argument_words), *options[AOT_MAX_OPTIONS];
  aot_call call;
  call.callable = callable;
  call.args = bound;
  call.words = words;
  call.holders = bound + count;
  call.slots = (void **)(call.holders + count);
  call.spans = (uint64_t *)(call.slots + count);
  call.outputs = NULL;
  call.moved = NULL;
  int64_t *symbols = (int64_t *)(call.spans + 2 * count), *dims = symbols + count;
  int status = aot_bind(callable, args, given, names, bound, options);
  for (int i = 0; !status && i < callable->noptions; i++)
    if (options[i] == Py_None)
      options[i] = NULL;
  if (!status) {
    call.stream_option = options[AOT_KERNEL_STREAM];
    /* As many words for dims, and for parameters, as the descriptors have: always enough. */
    status = launch(&call, options, dims, symbols, (void **)(dims + callable->argument_words));
    aot_drop_holders(&call);
  }
  if (words != small)
    PyMem_Free(words);
  if (status)
    return NULL;
  Py_RETURN_NONE;
}
