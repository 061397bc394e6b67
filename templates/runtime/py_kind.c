/* What a type of objects can do. In: any object. Out: aot_kind, found out once per type and kept with a strong reference to it. */
#include "py.h"
#include <pthread.h>
#include <string.h>

enum { KINDS = 32 };
static aot_kind kinds[KINDS];                                  /* the first `nkinds` of them never change: no lock for reading */
static unsigned nkinds;
static pthread_mutex_t learning = PTHREAD_MUTEX_INITIALIZER;   /* nothing of Python's is called while it is held */
static _Thread_local aot_kind spare;                           /* where the table is full: this thread's last other type */

static const dl_exchange *newest_known(const dl_exchange *api) {
  const dl_exchange_header *header = (const dl_exchange_header *)api;
  while (header && header->version.major != DL_MAJOR)
    header = header->previous;
  return (const dl_exchange *)header;
}

static int find_exchange(PyTypeObject *type, const dl_exchange **exchange) {
  void *table = NULL;
  PyObject *found = aot_optional((PyObject *)type, AOT_NAME_EXCHANGE);
  if (found && PyCapsule_IsValid(found, "dlpack_exchange_api"))
    table = PyCapsule_GetPointer(found, "dlpack_exchange_api");
  else if (!found && !PyErr_Occurred()) {                      /* the spelling before DLPack 1.3: an int */
    found = aot_optional((PyObject *)type, AOT_NAME_EXCHANGE_INT);
    if (found && PyLong_Check(found))
      table = PyLong_AsVoidPtr(found);
  }
  Py_XDECREF(found);
  *exchange = newest_known(table);
  if (*exchange && !(*exchange)->tensor_from_object && !(*exchange)->managed_from_object)
    *exchange = NULL;
  return PyErr_Occurred() ? -1 : 0;
}

static int is_immutable(PyTypeObject *type) {
  PyObject *module = aot_optional((PyObject *)type, AOT_NAME_MODULE);
  const char *name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8AndSize(module, NULL) : NULL;
  int found = name && (!strncmp(name, "jax.", 4) || !strncmp(name, "jaxlib.", 7));
  Py_XDECREF(module);
  return found;
}

static void forget(aot_kind *kind) {
  Py_XDECREF(kind->is_neg);
  Py_XDECREF(kind->is_conj);
  Py_XDECREF(kind->type);
}

static int find_lazy(aot_kind *kind, PyObject *object) {
  PyObject *type = (PyObject *)kind->type;
  if (!kind->exchange || !(kind->is_neg = aot_optional(type, AOT_NAME_IS_NEG)))
    return PyErr_Occurred() ? -1 : 0;
  kind->is_conj = aot_optional(type, AOT_NAME_IS_CONJ);
  PyObject *bound = PyErr_Occurred() ? NULL : aot_optional(object, AOT_NAME_IS_NEG);
  if (bound && PyCFunction_Check(bound) && PyCFunction_GetFlags(bound) == METH_NOARGS && PyCFunction_GetSelf(bound) == object)
    kind->ask_neg = PyCFunction_GetFunction(bound);
  Py_XDECREF(bound);
  return PyErr_Occurred() ? -1 : 0;
}

/* NULL: not in the table. */
static const aot_kind *find_kind(const PyTypeObject *type) {
  unsigned count = __atomic_load_n(&nkinds, __ATOMIC_ACQUIRE);
  for (unsigned i = 0; i < count; i++)
    if (kinds[i].type == type)
      return &kinds[i];
  return NULL;
}

/* Takes what `kind` owns. */
static const aot_kind *keep(aot_kind *kind) {
  pthread_mutex_lock(&learning);
  const aot_kind *kept = find_kind(kind->type);                /* another thread may have met the type in the meantime */
  int known = kept != NULL;
  if (!known && nkinds < KINDS) {
    kept = &kinds[nkinds];
    kinds[nkinds] = *kind;
    __atomic_store_n(&nkinds, nkinds + 1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&learning);
  if (kept) {
    if (known)
      forget(kind);
    return kept;
  }
  aot_kind before = spare;
  spare = *kind;
  forget(&before);
  return &spare;
}

static const aot_kind *learn(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  aot_kind kind = {.type = type, .ours = type == aot_device_array_type || type == aot_host_array_type, .immutable = (uint8_t)is_immutable(type)};
  Py_INCREF(type);
  kind.numpy = (uint8_t)aot_is_numpy(type);
  kind.masked = kind.numpy && PyObject_HasAttr((PyObject *)type, aot_names[AOT_NAME_MASK]);
  if (!kind.ours && !kind.numpy && (find_exchange(type, &kind.exchange) || find_lazy(&kind, object))) {
    forget(&kind);
    return NULL;
  }
  kind.borrows = kind.exchange && kind.exchange->tensor_from_object && !kind.immutable;
  return keep(&kind);
}

AOT_HOT const aot_kind *aot_kind_of(PyObject *object) {
  const aot_kind *found = find_kind(Py_TYPE(object));
  if (found)
    return found;
  return spare.type == Py_TYPE(object) ? &spare : learn(object);
}
