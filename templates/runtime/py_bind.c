/* Positional and named arguments to places. In: what CPython hands over. Out: one borrowed reference per argument and option. */
#include "py.h"
#include <pthread.h>

static int complain(const aot_callable *callable, const char *text, PyObject *name) {
  PyErr_Format(PyExc_TypeError, "%s.%s() %s '%U'", callable->source->name, callable->name, text, name);
  return -1;
}

static int missing(const aot_callable *callable, uint32_t index) {
  const aot_value *value = &callable->args[index];
  PyErr_Format(PyExc_TypeError, "%s.%s() is missing argument %u '%s': %s", callable->source->name, callable->name, (unsigned)index + 1,
               value->name, value->type);
  return -1;
}

/* Names in calls are interned as a rule, so the pointers are compared first. */
static int find(const aot_callable *callable, PyObject *name) {
  int count = callable->nargs + callable->noptions;
  for (int i = 0; i < count; i++)
    if (callable->keywords[i] == name)
      return i;
  for (int i = 0; i < count; i++)
    if (!PyUnicode_Compare(callable->keywords[i], name))
      return i;
  return -1;
}

static int place_of(const aot_callable *callable, PyObject *name) {
  int place = find(callable, name);
  if (place < 0 && !PyErr_Occurred())
    complain(callable, "has no argument or option", name);
  return place;
}

/* The tuple of names is a constant of the calling code: the same code brings the same one again. */
static const aot_seen *find_seen(const aot_callable *callable, PyObject *names) {
  uint32_t count = __atomic_load_n(&callable->nseen, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < count; i++)
    if (callable->seen[i].names == names)
      return &callable->seen[i];
  return NULL;
}

/* The first few callers with names are remembered. */
static void remember(aot_callable *callable, const aot_seen *seen) {
  static pthread_mutex_t remembering = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&remembering);
  if (callable->nseen < AOT_SEEN && !find_seen(callable, seen->names)) {
    callable->seen[callable->nseen] = *seen;
    Py_INCREF(seen->names);
    __atomic_store_n(&callable->nseen, callable->nseen + 1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&remembering);
}

static int put(const aot_callable *callable, int place, PyObject *value, PyObject **bound, PyObject **options) {
  PyObject **target = place < callable->nargs ? &bound[place] : &options[place - callable->nargs];
  if (*target)
    return complain(callable, "got two values for argument", callable->keywords[place]);
  *target = value;
  return 0;
}

static int bind_named(aot_callable *callable, PyObject *const *values, PyObject *names, PyObject **bound, PyObject **options) {
  const aot_seen *seen = find_seen(callable, names);
  if (seen) {
    for (int i = 0; i < seen->count; i++)
      if (put(callable, seen->places[i], values[i], bound, options))
        return -1;
    return 0;
  }
  Py_ssize_t count = PyTuple_Size(names);
  aot_seen made = {.names = names, .count = (uint16_t)count};
  for (Py_ssize_t i = 0; i < count; i++) {
    int place = place_of(callable, PyTuple_GetItem(names, i));
    if (place < 0 || put(callable, place, values[i], bound, options))
      return -1;
    if (i < AOT_SEEN_NAMES)
      made.places[i] = (uint16_t)place;
  }
  if (count <= AOT_SEEN_NAMES)
    remember(callable, &made);
  return 0;
}

int aot_bind(const aot_callable *callable, PyObject *const *args, Py_ssize_t given, PyObject *names, PyObject **bound, PyObject **options) {
  for (int i = 0; i < callable->noptions; i++)
    options[i] = NULL;
  if (given > callable->nargs) {
    PyErr_Format(PyExc_TypeError, "%s.%s() takes %d argument%s, got %zd", callable->source->name, callable->name, callable->nargs,
                 callable->nargs == 1 ? "" : "s", given);
    return -1;
  }
  for (Py_ssize_t i = 0; i < given; i++)
    bound[i] = args[i];
  for (Py_ssize_t i = given; i < callable->nargs; i++)
    bound[i] = NULL;
  if (names && bind_named((aot_callable *)callable, args + given, names, bound, options))
    return -1;
  for (uint32_t i = (uint32_t)given; i < callable->nargs; i++)
    if (!bound[i])
      return missing(callable, i);
  return 0;
}
