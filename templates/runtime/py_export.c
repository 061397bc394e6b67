/* Our own arrays through DLPack. In: an array that the package made. Out: capsules, ordered with the consumer's stream. */
#include "py.h"
#include <stdlib.h>

typedef struct {
  PyObject *array;                                             /* owned */
  void *consumer;                                              /* its stream, where it is another one than the array's; else NULL */
} use;
typedef struct { dl_managed managed; use by; } export_new;
typedef struct { dl_managed_old managed; use by; } export_old;

/* What the array's stream does from now on comes after what the consumer's has been told to do: its memory may be freed. */
static void order_end(const aot_own_array *self, void *consumer) {
  void *context, *restore;
  uint64_t id;
  if (aot_context_enter(self->memory.device, &context, &id, &restore))
    return;                                                    /* the driver is gone, and the memory with it */
  aot_stream_wait(self->memory.stream, consumer);
  aot_context_leave(restore);
}

/* Consumers call it from any thread, with or without the interpreter lock. */
static void release(use by, void *memory) {
  if (Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    if (by.consumer)
      order_end((aot_own_array *)by.array, by.consumer);
    Py_DECREF(by.array);
    PyGILState_Release(state);
  }
  free(memory);
}

static void delete_new(dl_managed *managed) { release(((export_new *)managed)->by, managed); }
static void delete_old(dl_managed_old *managed) { release(((export_old *)managed)->by, managed); }

/* A consumed capsule has another name, and its tensor another owner. */
static void drop_new(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
    delete_new(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

static void drop_old(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor"))
    delete_old(PyCapsule_GetPointer(capsule, "dltensor"));
}

static dl_device device_of(const aot_own_array *self) {
  return self->memory.device < 0 ? (dl_device){DL_CPU, 0} : (dl_device){DL_CUDA, self->memory.device};
}

static void fill_tensor(aot_own_array *self, dl_tensor *tensor) {
  *tensor = (dl_tensor){.data = (void *)(uintptr_t)self->memory.address, .device = device_of(self), .rank = self->rank,
                        .dtype = self->dtype, .shape = self->shape, .strides = self->strides};
}

static PyObject *export_versioned(aot_own_array *self, void *consumer) {
  export_new *made = malloc(sizeof *made);
  if (!made)
    return PyErr_NoMemory();
  *made = (export_new){.managed = {.version = {DL_MAJOR, DL_MINOR}, .context = made, .deleter = delete_new}, {Py_NewRef((PyObject *)self), consumer}};
  fill_tensor(self, &made->managed.tensor);
  PyObject *capsule = PyCapsule_New(&made->managed, "dltensor_versioned", drop_new);
  if (!capsule)
    delete_new(&made->managed);
  return capsule;
}

static PyObject *export_unversioned(aot_own_array *self, void *consumer) {
  export_old *made = malloc(sizeof *made);
  if (!made)
    return PyErr_NoMemory();
  *made = (export_old){.managed = {.context = made, .deleter = delete_old}, {Py_NewRef((PyObject *)self), consumer}};
  fill_tensor(self, &made->managed.tensor);
  PyObject *capsule = PyCapsule_New(&made->managed, "dltensor", drop_old);
  if (!capsule)
    delete_old(&made->managed);
  return capsule;
}

/* DLPack's streams: None and 1 are the legacy default stream, 2 the per-thread one, -1 asks for no ordering. `other` becomes the
 * consumer's stream where it has been ordered with the array's, else NULL. */
static int order_consumer(const aot_own_array *self, PyObject *stream, void **other) {
  *other = NULL;
  if (self->memory.device < 0)
    return 0;
  long long number = !stream || stream == Py_None ? 1 : PyLong_AsLongLong(stream);
  if (PyErr_Occurred())
    return -1;
  uintptr_t consumer = (uintptr_t)number, mine = (uintptr_t)self->memory.stream;
  if (number == -1 || consumer == mine || (consumer <= 1 && mine <= 1))
    return 0;
  void *context, *restore;
  uint64_t id;
  int code = aot_context_enter(self->memory.device, &context, &id, &restore);
  if (!code) {
    code = aot_stream_wait((void *)consumer, self->memory.stream);
    aot_context_leave(restore);
  }
  *other = (void *)consumer;
  return code ? aot_raise(code, aot_last_error()) : 0;
}

/* Two numbers: PyArg_ParseTuple takes it as a bug of ours when it gets no tuple. */
static int read_pair(PyObject *object, const char *name, int *first, int *second) {
  if (PyTuple_Check(object))
    return PyArg_ParseTuple(object, "ii", first, second) ? 0 : -1;
  PyErr_Format(PyExc_TypeError, "__dlpack__(): %s must be a tuple of two ints", name);
  return -1;
}

static int check_request(aot_own_array *self, PyObject *device, PyObject *copy) {
  if (copy == Py_True) {
    PyErr_SetString(PyExc_BufferError, "the array exports its own memory, no copies");
    return -1;
  }
  dl_device mine = device_of(self), wanted = mine;
  if (device != Py_None && read_pair(device, "dl_device", &wanted.type, &wanted.id))
    return -1;
  if (wanted.type == mine.type && wanted.id == mine.id)
    return 0;
  PyErr_Format(PyExc_BufferError, "the array is on device (%d, %d), not on (%d, %d)", mine.type, mine.id, wanted.type, wanted.id);
  return -1;
}

PyObject *aot_own_array_dlpack(PyObject *object, PyObject *args, PyObject *words) {
  static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  aot_own_array *self = (aot_own_array *)object;
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, words, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy))
    return NULL;
  int major = 0, minor = 0;
  if (version != Py_None && read_pair(version, "max_version", &major, &minor))
    return NULL;
  void *consumer;
  if (check_request(self, device, copy) || order_consumer(self, stream, &consumer))
    return NULL;
  return (major >= 1 ? export_versioned : export_unversioned)(self, consumer);
}

PyObject *aot_own_array_dlpack_device(PyObject *object, PyObject *unused) {
  (void)unused;
  dl_device device = device_of((aot_own_array *)object);
  return Py_BuildValue("(ii)", device.type, device.id);
}
