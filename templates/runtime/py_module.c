/* Import. In: the package's tables. Out: the extension module, and one importable module per source with its functions.
 *
 * Nothing here touches the driver. The callables and their method definitions live as long as the process: the
 * modules may be removed from sys.modules and imported again, and their functions may outlive them. */
#include "py.h"
#include "native.h"
#include <stdio.h>
#include <string.h>

static const char *const function_options[] = {[AOT_OPTION_STREAM] = "stream", [AOT_OPTION_OUT] = "out"};
static const char *const kernel_options[] = {[AOT_KERNEL_STREAM] = "stream", [AOT_KERNEL_GRID] = "grid", [AOT_KERNEL_BLOCK] = "block",
                                             [AOT_KERNEL_SHARED] = "shared", [AOT_KERNEL_CLUSTER] = "cluster", [AOT_KERNEL_COOPERATIVE] = "cooperative",
                                             [AOT_KERNEL_PROGRAMMATIC] = "programmatic", [AOT_KERNEL_PRIORITY] = "priority"};
static PyTypeObject *callable_type;

/* ------------------------------------------------------------------ callables */

static void callable_dealloc(PyObject *object) {
  aot_callable *self = (aot_callable *)object;
  PyTypeObject *type = Py_TYPE(object);
  for (int i = 0; self->keywords && i < self->nargs + self->noptions; i++)
    Py_XDECREF(self->keywords[i]);
  PyMem_Free(self->keywords);
  PyMem_Free(self->plain);
  for (uint32_t i = 0; i < self->nseen; i++)
    Py_DECREF(self->seen[i].names);
  PyObject_Free(object);
  Py_DECREF(type);
}

static int callable_setup(void) {
  static char name[256];
  PyType_Slot slots[] = {{Py_tp_dealloc, (void *)callable_dealloc}, {0, NULL}};
  if (callable_type)
    return 0;
  snprintf(name, sizeof name, "%s.Callable", aot_this_package.name);
  PyType_Spec spec = {name, sizeof(aot_callable), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  callable_type = (PyTypeObject *)PyType_FromSpec(&spec);
  return callable_type ? 0 : -1;
}

static size_t words_of(const aot_value *values, size_t count) {
  size_t words = 0;
  for (size_t i = 0; i < count; i++)
    words += values[i].kind == AOT_ARRAY ? 3 + 2 * (size_t)values[i].rank : 2;
  return words;
}

static void size_workspace(aot_callable *self) {
  size_t count = self->nargs, output = (sizeof(aot_output) + 7) / 8;
  self->argument_words = words_of(self->args, count);
  if (self->kernel) {                                          /* bound, holders, slots, spans, symbols; dims; parameters */
    self->words = 3 * self->argument_words + 6 * count;
    return;
  }
  size_t results = self->function->nresults;
  self->result_words = words_of(self->function->results, results);
  self->words = self->argument_words + self->result_words + 5 * count + (2 + output) * results;
}

static int writes_values(const aot_callable *self) {
  int arrays = 0, destinations = 0;
  for (int i = 0; i < self->nargs; i++) {
    arrays += self->args[i].kind == AOT_ARRAY;
    destinations += self->args[i].kind == AOT_ARRAY && self->args[i].role == AOT_DESTINATION;
  }
  return destinations && arrays > 1;
}

static int add_tables(aot_callable *self, const char *const *options) {
  int count = self->nargs + self->noptions;
  self->keywords = PyMem_Calloc((size_t)count, sizeof *self->keywords);
  self->plain = PyMem_Calloc(self->nargs, sizeof *self->plain);
  if (!self->keywords || !self->plain) {
    PyErr_NoMemory();
    return -1;
  }
  for (uint32_t i = 0; i < self->nargs; i++)
    aot_plain_setup(self, i);
  for (int i = 0; i < count; i++) {
    self->keywords[i] = PyUnicode_InternFromString(i < self->nargs ? self->args[i].name : options[i - self->nargs]);
    if (!self->keywords[i])
      return -1;
  }
  return 0;
}

static aot_callable *callable_new(const aot_source *source) {
  aot_callable *self = PyObject_New(aot_callable, callable_type);
  if (self)
    memset((char *)self + sizeof(PyObject), 0, sizeof *self - sizeof(PyObject));
  if (self)
    self->source = source;
  return self;
}

static PyObject *function_new(const aot_source *source, const aot_function *function) {
  aot_callable *self = callable_new(source);
  if (!self)
    return NULL;
  self->function = function;
  self->name = function->name;
  self->args = function->args;
  self->nargs = function->nargs;
  self->noptions = sizeof function_options / sizeof *function_options;
  self->writes_values = (uint8_t)writes_values(self);
  self->returned = function->nresults == 1 ? function->results[0].alias : -1;
  size_workspace(self);
  self->unflagged = function->entry && !function->flags && self->words <= AOT_STACK_WORDS;
  if (add_tables(self, function_options))
    Py_CLEAR(self);
  return (PyObject *)self;
}

static PyObject *kernel_new(const aot_source *source, uint32_t index) {
  aot_callable *self = callable_new(source);
  if (!self)
    return NULL;
  self->kernel = &source->kernels[index];
  self->index = index;
  self->name = self->kernel->name;
  self->args = self->kernel->params;
  self->nargs = self->kernel->nparams;
  self->noptions = sizeof kernel_options / sizeof *kernel_options;
  size_workspace(self);
  if (add_tables(self, kernel_options))
    Py_CLEAR(self);
  return (PyObject *)self;
}

/* ------------------------------------------------------------------ namespaces */

static int add_callable(PyObject *namespace, PyObject *self, PyMethodDef *method) {
  PyObject *module_name = PyModule_GetNameObject(namespace);
  PyObject *function = self && module_name ? PyCFunction_NewEx(method, self, module_name) : NULL;
  int status = function ? PyModule_AddObjectRef(namespace, method->ml_name, function) : -1;
  Py_XDECREF(function);
  Py_XDECREF(module_name);
  Py_XDECREF(self);
  return status;
}

static int fill_namespace(PyObject *namespace, const aot_source *source) {
  PyMethodDef *method = PyMem_Calloc((size_t)source->nfunctions + source->nkernels, sizeof *method);
  if (!method) {
    PyErr_NoMemory();
    return -1;
  }
  const int flags = METH_FASTCALL | METH_KEYWORDS;
  for (uint32_t i = 0; i < source->nfunctions; i++, method++) {
    const aot_function *function = &source->functions[i];
    *method = (PyMethodDef){function->name, (PyCFunction)(void (*)(void))aot_call_function, flags, function->doc};
    if (add_callable(namespace, function_new(source, function), method))
      return -1;
  }
  for (uint32_t i = 0; i < source->nkernels; i++) {
    const aot_kernel *kernel = &source->kernels[i];
    if (!kernel->callable)
      continue;
    *method = (PyMethodDef){kernel->name, (PyCFunction)(void (*)(void))aot_call_kernel, flags, kernel->doc};
    if (add_callable(namespace, kernel_new(source, i), method++))
      return -1;
  }
  return 0;
}

/* importlib wants a spec of every module; its type is that of our own. */
static int add_spec(PyObject *namespace, PyObject *name, PyObject *module) {
  PyObject *ours = PyObject_GetAttrString(module, "__spec__"), *spec = NULL;
  if (ours && ours != Py_None)
    spec = PyObject_CallFunctionObjArgs((PyObject *)Py_TYPE(ours), name, Py_None, NULL);
  int status = !ours || (ours != Py_None && !spec) || (spec && PyObject_SetAttrString(namespace, "__spec__", spec));
  Py_XDECREF(ours);
  Py_XDECREF(spec);
  return status ? -1 : 0;
}

static int add_namespace(PyObject *module, PyObject *package, const aot_source *source) {
  PyObject *name = PyUnicode_FromFormat("%U.%s", package, source->name);
  PyObject *namespace = name ? PyModule_NewObject(name) : NULL;
  int status = -1;
  if (namespace && !PyObject_SetAttrString(namespace, "__package__", package) && !add_spec(namespace, name, module) &&
      !fill_namespace(namespace, source) && !PyModule_AddObjectRef(module, source->name, namespace))
    status = PyObject_SetItem(PyImport_GetModuleDict(), name, namespace);
  Py_XDECREF(name);
  Py_XDECREF(namespace);
  return status;
}

/* "a.b" of "a.b._b": the package may have been loaded under another name than it was built for. */
static PyObject *package_name(PyObject *module) {
  PyObject *name = PyModule_GetNameObject(module);
  if (!name)
    return NULL;
  Py_ssize_t dot = PyUnicode_FindChar(name, '.', 0, PyUnicode_GetLength(name), -1);
  PyObject *package = dot >= 0 ? PyUnicode_Substring(name, 0, dot) : PyUnicode_FromString(aot_this_package.name);
  Py_DECREF(name);
  return package;
}

/* ------------------------------------------------------------------ functions of the package */

static int load_all(int device, uint64_t context_id, char *message, size_t size) {
  (void)device;
  for (uint32_t i = 0; i < aot_this_package.nsources; i++) {
    const aot_source *source = aot_this_package.sources[i];
    int code = source->blob ? aot_module_load(source, context_id, message, size) : 0;
    if (code)
      return code;
  }
  return 0;
}

static int device_option(PyObject *args, PyObject *words, const char *format, int *device) {
  static char *names[] = {"device", NULL};
  PyObject *option = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, words, format, names, &option))
    return -1;
  if (option == Py_None) {
    int code = aot_current_device(device);
    return code ? aot_raise(code, aot_last_error()) : 0;
  }
  return aot_device_number(option, device);
}

/* Does it in a context of device=: 0, or a code with `message`. Without the interpreter lock. */
typedef int work_on_device(int device, uint64_t context_id, char *message, size_t size);

static PyObject *on_device(PyObject *args, PyObject *words, const char *format, work_on_device *work) {
  int device;
  void *context, *restore;
  uint64_t id;
  if (!aot_has_gpu_code())
    Py_RETURN_NONE;
  if (device_option(args, words, format, &device))
    return NULL;
  int code = aot_context_enter(device, &context, &id, &restore);
  if (code)
    return aot_raise(code, aot_last_error()), NULL;
  char message[AOT_MESSAGE_BYTES] = "";
  PyThreadState *state = PyEval_SaveThread();
  code = work(device, id, message, sizeof message);
  PyEval_RestoreThread(state);
  aot_context_leave(restore);
  if (code)
    return aot_raise(code, message), NULL;
  Py_RETURN_NONE;
}

static PyObject *preload(PyObject *self, PyObject *args, PyObject *words) {
  (void)self;
  return on_device(args, words, "|O:preload", load_all);
}

static int trim_pool(int device, uint64_t context_id, char *message, size_t size) {
  (void)context_id;
  int code = aot_pool_trim(device);
  if (code)
    snprintf(message, size, "%s", aot_last_error());
  return code;
}

static PyObject *trim(PyObject *self, PyObject *args, PyObject *words) {
  (void)self;
  return on_device(args, words, "|O:_trim", trim_pool);
}

/* As jax.ffi.register_ffi_target takes them: capsules without a name. */
static PyObject *xla_handlers(PyObject *self, PyObject *unused) {
  (void)self, (void)unused;
  PyObject *cpu = PyCapsule_New((void *)(uintptr_t)aot_xla_cpu, NULL, NULL), *gpu = PyCapsule_New((void *)(uintptr_t)aot_xla_gpu, NULL, NULL);
  PyObject *both = cpu && gpu ? PyTuple_Pack(2, cpu, gpu) : NULL;
  Py_XDECREF(cpu);
  Py_XDECREF(gpu);
  return both;
}

static PyMethodDef functions[] = {
  {"preload", (PyCFunction)(void (*)(void))preload, METH_VARARGS | METH_KEYWORDS,
   "preload(device=None)\n--\n\nLoads all kernels on a device now, so that no first call has to."},
  {"_trim", (PyCFunction)(void (*)(void))trim, METH_VARARGS | METH_KEYWORDS,
   "_trim(device=None)\n--\n\nGives memory that the package keeps for later calls back to the driver."},
  {"_xla_handlers", xla_handlers, METH_NOARGS, "_xla_handlers()\n--\n\nHandlers of XLA's calls, for the CPU and for CUDA."},
  {"_probe", aot_probe, METH_O, "_probe(device)\n--\n\nWhat the driver says about a device, as a dict."},
  {0},
};

/* One copy of the C state serves the process: a second interpreter would share objects with the first. */
static int refuse_subinterpreters(void) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0)
    return 0;
  PyErr_Format(PyExc_ImportError, "%s cannot be imported in a subinterpreter: import it in the main interpreter", aot_this_package.name);
  return -1;
}

static int execute(PyObject *module) {
  if (refuse_subinterpreters() || aot_names_setup() || aot_array_setup() || callable_setup() || aot_error_setup(module) || aot_own_array_setup(module) ||
      PyModule_AddStringConstant(module, "__version__", aot_this_package.version))
    return -1;
  PyObject *package = package_name(module);
  int status = package ? 0 : -1;
  for (uint32_t i = 0; !status && i < aot_this_package.nsources; i++)
    status = add_namespace(module, package, aot_this_package.sources[i]);
  Py_XDECREF(package);
  return status;
}

static PyModuleDef_Slot slots[] = {
  {Py_mod_exec, (void *)execute},
#ifdef Py_GIL_DISABLED
  {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
  {0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "kernels", .m_doc = "Functions compiled ahead of time.", .m_methods = functions,
                                        .m_slots = slots};

PyObject *aot_py_module(void) { return PyModuleDef_Init(&definition); }
