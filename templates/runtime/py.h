/* Between the files of the Python side. In: the constant tables and the core (aot.h). Out: Python callables.
 *
 *   py_module.c   import, namespaces, preload          py_array.c   what an object says about its memory
 *   py_arguments.c  all arguments of a call           py_check.c   ... against the signature; descriptors
 *   py_plain.c    ... the common arrays, in one pass  py_kind.c    what a type of objects can do
 *   py_call.c     a host function's call          py_host.c    ... with arrays in host memory: CPU code
 *   py_place.c    on a GPU or in host memory      py_numpy.c   numpy's arrays
 *   py_kernel.c   a kernel's call                      py_number.c  Python numbers <-> scalars
 *   py_bind.c     positional and named arguments       py_result.c  memory for results; the call's value
 *   py_stream.c   which stream, and its ordering       py_out.c     out=
 *   py_own_array.c  our own array types               py_export.c  ... through DLPack
 *   py_cuda_interface.c  __cuda_array_interface__
 *   py_destination.c  destinations that overlap a value
 *   py_names.c    attribute names
 *   py_error.c    Python exceptions                    py_driver.c  driver calls that only this side makes
 *
 * Rules: CPython's Limited API 3.10 and nothing newer, and no state that needs the interpreter lock: free-threaded Pythons have
 * none. A call that succeeds on arrays with the C exchange API allocates nothing and looks up no attribute. Functions return 0, or
 * -1 with a Python exception set, unless they say otherwise. */
#ifndef AOT_PY_H
#define AOT_PY_H
#include <Python.h>
#include "aot.h"
#include "dlpack.h"

/* ------------------------------------------------------------------ names (py_names.c) */

#define AOT_NAMES(X) \
  X(EXCHANGE, "__dlpack_c_exchange_api__") X(EXCHANGE_INT, "__c_dlpack_exchange_api__") X(DLPACK, "__dlpack__") \
  X(DLPACK_DEVICE, "__dlpack_device__") X(CUDA_INTERFACE, "__cuda_array_interface__") X(CUDA_STREAM, "__cuda_stream__") \
  X(TORCH_STREAM, "cuda_stream") X(PTR, "ptr") X(IS_CONJ, "is_conj") X(IS_NEG, "is_neg") X(MODULE, "__module__") \
  X(QUALNAME, "__qualname__") X(VALUE, "value") X(STREAM, "stream") X(SHAPE, "shape") X(STRIDES, "strides") X(TYPESTR, "typestr") \
  X(DATA, "data") X(MASK, "mask") X(CUPY, "cupy") X(CUDA, "cuda") X(CURRENT_STREAM, "get_current_stream") X(FROM_DLPACK, "from_dlpack") \
  X(NUMPY, "numpy") X(NDARRAY, "ndarray") X(ARRAY_STRUCT, "__array_struct__") X(DTYPE, "dtype") X(NAME, "name") X(EMPTY, "empty") \
  X(ML_DTYPES, "ml_dtypes")
#define AOT_NAME_ENTRY(name, text) AOT_NAME_##name,
enum { AOT_NAMES(AOT_NAME_ENTRY) AOT_NAME_COUNT };
#undef AOT_NAME_ENTRY
extern PyObject *aot_names[AOT_NAME_COUNT];
int aot_names_setup(void);
PyObject *aot_optional(PyObject *object, int name);            /* new reference; NULL without an error: it has no such attribute */
PyObject *aot_item(PyObject *dict, PyObject *key);             /* new reference; NULL, with or without an error: it has no such key */
PyObject *aot_imported(int name);                              /* new reference: a module that is loaded already, or NULL */

/* ------------------------------------------------------------------ callables (py_module.c, py_bind.c) */

PyObject *aot_py_module(void); /* the extension module, for PyInit_*: its name is the one thing that differs between packages (module.c) */

typedef struct aot_plain {                                     /* an argument as one pass of checks wants it (py_plain.c) */
  uint32_t words;                                              /* of workspace: its slot */
  uint32_t dtype, other;                                       /* the bytes of the element types that fit */
  uint8_t possible, number, destination;                       /* an array that can be plain; a scalar; an array that is written */
  uint8_t rank, storage, misaligned;                           /* misaligned: bits that no address has */
  const int64_t *shape;                                        /* NULL: every extent is dynamic */
} aot_plain;

enum { AOT_SEEN = 4, AOT_SEEN_NAMES = 8 };
typedef struct aot_seen {                                      /* names of a call, and where they belong, as in `keywords` */
  PyObject *names;                                             /* strong: a tuple of the caller's code */
  uint16_t count, places[AOT_SEEN_NAMES];
} aot_seen;

typedef struct aot_callable {                                  /* `self` of a function or kernel: a Python object */
  PyObject_HEAD
  const aot_source *source;
  const aot_function *function;                                /* NULL: a kernel */
  const aot_kernel *kernel;
  uint32_t index;                                              /* of the kernel in its source */
  const char *name;
  const aot_value *args;
  uint16_t nargs, noptions;
  PyObject **keywords;                                         /* interned: nargs names of arguments, then those of the options */
  aot_plain *plain;                                            /* one per argument */
  size_t argument_words, result_words, words;                  /* 8-byte words of workspace: of the arguments' and results' slots, of the whole call */
  uint8_t writes_values;                                       /* has a destination and another array: they may overlap */
  uint8_t unflagged;                                           /* a function that only launches, on a GPU, and needs no more than the stack */
  int32_t returned;                                            /* the argument that is its one result, else -1 */
  aot_seen seen[AOT_SEEN]; uint32_t nseen;                     /* the first `nseen` never change (py_bind.c) */
  uint64_t loaded_context;                                     /* context that is known to hold the source's module: atomic */
} aot_callable;

static inline uint64_t aot_loaded_context(const aot_callable *callable) { return __atomic_load_n(&callable->loaded_context, __ATOMIC_RELAXED); }

enum { AOT_MAX_OPTIONS = 8 };
enum { AOT_OPTION_STREAM, AOT_OPTION_OUT };                    /* of functions */
enum { AOT_KERNEL_STREAM, AOT_KERNEL_GRID, AOT_KERNEL_BLOCK, AOT_KERNEL_SHARED, AOT_KERNEL_CLUSTER, AOT_KERNEL_COOPERATIVE,
       AOT_KERNEL_PROGRAMMATIC, AOT_KERNEL_PRIORITY };

/* Fills bound[0..nargs) and options[0..noptions) with borrowed references; NULL where an option is not given. */
int aot_bind(const aot_callable *callable, PyObject *const *args, Py_ssize_t given, PyObject *names, PyObject **bound, PyObject **options);

/* ------------------------------------------------------------------ arrays (py_array.c, py_kind.c) */

typedef struct aot_kind {                                      /* what a type of objects can do, asked once per type */
  PyTypeObject *type;                                          /* strong */
  const dl_exchange *exchange;
  uint8_t borrows;                                             /* the exchange API shows tensors without giving a reference */
  uint8_t ours;                                                /* one of our own arrays */
  uint8_t numpy, masked;                                       /* numpy's array; one with a mask */
  uint8_t immutable;                                           /* may not be written, whatever the protocol says (JAX) */
  PyObject *is_neg, *is_conj;                                  /* strong; its methods, where views may be negated or conjugated only
                                                                  when read (torch); else NULL */
  PyCFunction ask_neg;                                         /* is_neg's C function of no arguments; NULL: it has another form */
} aot_kind;

typedef struct aot_view {
  uint64_t address;                                            /* of element [0, ...]: byte_offset is in it */
  const int64_t *shape, *strides;                              /* elements; strides NULL: row-major */
  int32_t device_type, device, rank;
  dl_dtype dtype;
  uint8_t readonly;
  const dl_exchange *exchange;                                 /* of the object's type */
  PyObject *holder;                                            /* owned; keeps the view valid until the call is enqueued; often NULL */
  int64_t dims[2 * AOT_MAX_RANK];                              /* room for protocols that hand out Python tuples */
} aot_view;
enum { AOT_UNKNOWN_CODE = 255 };                               /* code of an element type for which DLPack has none */

/* Borrowed until the next call of it; NULL with an error set. */
const aot_kind *aot_kind_of(PyObject *object);
int aot_array_setup(void);
int aot_cuda_interface_read(PyObject *dict, aot_view *view);   /* py_cuda_interface.c: 1, or -1 */
/* The quick protocols (exchange API, our own arrays): 1 read, 0 object needs aot_view_slow, -1 error. */
int aot_view_fast(PyObject *object, const aot_kind *kind, aot_view *view);
/* An array that the exchange API showed. 1: conjugated or negated only when read; 0: not; -1: error. */
int aot_is_lazy(PyObject *object, const aot_kind *kind, dl_dtype dtype);

/* ------------------------------------------------------------------ a call */

/* A call's workspace: slots of arguments (descriptors, numbers), slots of results, then pointers and outputs. */
enum { AOT_STACK_WORDS = 512 };                                /* up to here on the stack; larger calls take it from the heap */
typedef struct aot_output {                                    /* memory of one result */
  PyObject *object;                                            /* owned: what is returned */
  PyObject *given;                                             /* borrowed: from out=; the fields below describe it */
  uint64_t address, high;                                      /* its memory: [address, high) */
  uint64_t temporary;                                          /* pool address when it overlaps an argument, else 0 */
  int64_t shape[AOT_MAX_RANK], bytes;
  uint8_t overlaps;
  uint8_t ours;                                                /* `object` is our own array, still to become the caller's type */
} aot_output;

typedef struct aot_call {
  const aot_callable *callable;
  PyObject *const *args;                                       /* bound: callable->nargs of them */
  int64_t *words;                                              /* workspace: see aot_callable.words */
  void **slots;                                                /* nargs, then one per result */
  uint64_t *spans;                                             /* of array arguments: [low, high) bytes each, as they were given */
  PyObject **holders; uint32_t nholders;
  uint32_t pending;                                            /* arrays that wait for the stream to be known */
  PyObject *first_object;                                      /* first array argument, else the first of out=; NULL: none */
  int32_t first;                                               /* its index; -1: none, or from out= */
  uint8_t place;                                               /* AOT_PLACE_*: of all arrays */
  int32_t place_argument;                                      /* which argument said so; -1: out= */
  int32_t device, device_argument;                             /* device of all arrays, and which said so; -1: not known yet */
  aot_kind first_kind;
  PyObject *stream_option;                                     /* stream=, NULL when not given or None */
  void *stream, *home;                                         /* where the call goes; where its arrays' framework works */
  uint8_t home_known;                                          /* a framework said so: worth ordering `stream` with it */
  aot_output *outputs;                                         /* one per result of the function */
  struct aot_moved *moved; uint32_t nmoved;                    /* destinations that are computed elsewhere first (py_destination.c); NULL: none */
  PyThreadState *released;                                     /* not NULL while the interpreter lock is given up */
} aot_call;

/* __dlpack__ and __cuda_array_interface__; the data will be used on the call's stream. An array that is not where the call runs
 * tells its device only. 1 read, 0 not an array, -1 error. */
int aot_view_slow(PyObject *object, const aot_kind *kind, const aot_call *call, aot_view *view);

/* py_place.c: where arrays lie, which is where the call runs. */
enum { AOT_PLACE_UNKNOWN, AOT_PLACE_GPU, AOT_PLACE_CPU };
int aot_place_of(const aot_view *view);                        /* UNKNOWN: neither a GPU nor host memory */
int aot_place_ask(PyObject *object);                           /* by __dlpack_device__; UNKNOWN when it has none; -1: error */
int aot_place_take(aot_call *call, uint32_t index, const aot_view *view);   /* an argument's: must be as the others, and have code */
int aot_place_settle(aot_call *call);                          /* it is known now: stream= goes with a GPU only */
int aot_place_without_arrays(aot_call *call);                  /* there is none to say it */

/* Reads and checks all arguments into descriptors and scalars, decides the stream (py_arguments.c). */
int aot_read_arguments(aot_call *call);
void aot_drop_holders(aot_call *call);
/* py_plain.c: 1 done, 0 the general way has to look, -1 error. */
int aot_plain_take(aot_call *call, uint32_t index, int64_t *slot);
void aot_plain_begin(aot_call *call);                          /* nothing is known of the arguments yet */
int aot_plain_arguments(aot_call *call);                       /* all of them, and the stream */
/* Of a callable that is `unflagged`; 1: the call's value, NULL with an error. */
int aot_plain_call(aot_call *call, PyObject **value);
int aot_plain_positional(const aot_callable *callable, PyObject *const *args, PyObject **value);   /* all of them by position */
void aot_lay_out_results(aot_call *call);                      /* py_call.c */
void aot_plain_setup(const aot_callable *callable, uint32_t index);
/* Enters the device's context, loads the module, orders the streams, pushes the frame. aot_leave undoes it. */
int aot_enter(aot_call *call, aot_frame *frame, void **restore);
int aot_leave(aot_call *call, aot_frame *frame, void *restore, int failed);

/* py_check.c: the view against the signature. */
int aot_check_array(const aot_call *call, uint32_t index, const aot_view *view);
/* Everything that the signature says about an array, without the words: NULL, or what is wrong. */
const char *aot_array_problem(const aot_value *value, const aot_view *view, PyObject **exception);
int aot_is_row_major(const aot_view *view);
int64_t aot_view_count(const aot_view *view);                  /* elements */
void aot_fill_descriptor(const aot_value *value, const aot_view *view, int64_t *descriptor);
/* Bytes that a view reaches: [low, high). */
void aot_reach(const aot_value *value, const int64_t *descriptor, uint64_t *low, uint64_t *high);
void aot_view_text(const aot_view *view, char *text, size_t size);
const char *aot_article(const char *name);                    /* a or an */
/* The text behind its article; an element type that has no name here is called as the array's own framework does. A new reference. */
PyObject *aot_array_words(const aot_view *view, PyObject *object);
const char *aot_dtype_name(dl_dtype dtype, char *text, size_t size);
int aot_dtype_named(const char *name, dl_dtype *dtype);        /* bfloat16 and the small floats, which numpy knows by name only; 1: found */

/* py_number.c */
int aot_number_read(const aot_call *call, uint32_t index, void *slot);
PyObject *aot_number_object(const aot_value *value, const void *slot);
int aot_address_read(const aot_call *call, uint32_t index, uint64_t *address);   /* 1 read, 0 neither int, None nor c_void_p */

/* py_stream.c */
int aot_stream_read(PyObject *object, void **stream);
int aot_stream_choose(aot_call *call);
PyObject *aot_stream_owner(const aot_call *call);              /* new reference to what keeps call->stream alive; NULL: nothing, or an error is set */
/* In the call's context: orders the call after the framework's stream, and the framework's stream after the call. */
int aot_stream_before(aot_call *call);
int aot_stream_after(const aot_call *call);                    /* 0, or a code with its text in aot_last_error(): may run while an error is set */

/* py_destination.c: in the call's context; after a failed `separate`, `finish` must still be called. */
int aot_destinations_separate(aot_call *call, const aot_frame *frame);
int aot_destinations_finish(aot_call *call, int failed);       /* 0, or a code with its text in aot_last_error() */

/* py_host.c */
PyObject *aot_call_on_cpu(aot_call *call);                     /* arguments and out= are read: the call's value */
/* Memory that lives as long as the call, where the call runs: 0, or a code with its text in aot_last_error(). */
int aot_scratch_alloc(const aot_call *call, const aot_frame *frame, int64_t bytes, uint64_t *address);
int aot_scratch_copy(const aot_call *call, uint64_t to, uint64_t from, uint64_t bytes);
int aot_scratch_free(const aot_call *call, uint64_t address);

/* py_numpy.c */
int aot_is_numpy(PyTypeObject *type);
int aot_numpy_view(PyObject *object, aot_view *view);          /* 1, or -1 */
/* A new numpy array; NULL without an error: there is no numpy here. */
PyObject *aot_numpy_make(const aot_value *value, const int64_t *shape, uint64_t *address);

/* py_out.c */
int aot_outputs_read(aot_call *call, PyObject *out);
int aot_is_fresh(const aot_value *result);                     /* an array that the call makes */
int aot_wrong_out(const aot_call *call, uint32_t result, PyObject *exception, const char *got, const char *problem);

/* py_result.c */
int aot_result_memory(aot_frame *frame, int64_t k, int64_t bytes, uint64_t *address);   /* aot_frame.memory of Python's calls */
int aot_outputs_finish(aot_call *call, int failed);            /* in the call's context: copies and frees temporaries */
PyObject *aot_outputs_return(aot_call *call);                  /* the call's value */
void aot_outputs_drop(aot_call *call);

/* py_own_array.c */
extern PyTypeObject *aot_device_array_type, *aot_host_array_type;
int aot_own_array_setup(PyObject *module);
typedef struct aot_memory { uint64_t address; int64_t bytes; void *stream; int device; } aot_memory;   /* device -1: from posix_memalign */
typedef struct aot_own_array {
  PyObject_HEAD
  aot_memory memory;
  PyObject *stream_owner;
  dl_dtype dtype;
  int32_t rank;
  uint8_t storage;
  int64_t shape[AOT_MAX_RANK], strides[AOT_MAX_RANK];
} aot_own_array;
/* Takes the memory over, also when it fails. stream_owner: object that keeps the stream alive, or NULL. */
PyObject *aot_own_array_new(const aot_memory *memory, const aot_value *value, const int64_t *shape, PyObject *stream_owner);
int aot_own_array_view(PyObject *object, aot_view *view);
void *aot_own_array_stream(PyObject *object);
PyObject *aot_int_tuple(const int64_t *entries, int32_t count);
/* py_export.c: their methods. */
PyObject *aot_own_array_dlpack(PyObject *object, PyObject *args, PyObject *words);
PyObject *aot_own_array_dlpack_device(PyObject *object, PyObject *unused);

/* py_kernel.c, py_call.c */
PyObject *aot_call_function(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *aot_call_kernel(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);

/* py_error.c */
extern PyObject *aot_cuda_error;
int aot_error_setup(PyObject *module);
int aot_raise(int code, const char *message);                  /* always -1 */
PyObject *aot_text(const char *message);                       /* a driver's or a source's, which may be cut within a character */
/* What a protocol says about an array, which does not know what the array is for. */
typedef struct aot_fault { PyObject *exception, *words, *cause; } aot_fault;
int aot_fault_take(PyObject *array, aot_fault *fault);         /* 1: of the exception that is set, which is no more; 0: that one stays */
int aot_fault_raised(aot_fault *fault);                        /* -1: the exception that is set now gets the fault as its cause */
PyObject *aot_type_name(PyObject *object);                     /* "numpy.ndarray", "int" */
/* "<source>.<name>() argument 2 'y': expected memref<?x128xf32>, got ..." */
int aot_wrong(const aot_call *call, uint32_t index, PyObject *exception, const char *format, ...);

/* py_driver.c: 0, or a code for aot_raise with its text in aot_last_error(). */
int aot_stream_wait(void *waiting, void *on);
int aot_stream_captures(void *stream);                         /* 1: into a CUDA graph */
int aot_pointer_device(uint64_t address, int32_t *device_type, int *device);
int aot_copy_device(uint64_t to, uint64_t from, uint64_t bytes, void *stream);
int aot_has_gpu_code(void);                                    /* of the package; without any the driver is never asked */
PyObject *aot_probe(PyObject *self, PyObject *device);         /* facts for check(); never raises for a missing driver */
int aot_device_number(PyObject *object, int *device); /* of device=: 0, or -1 with an exception */

#endif
