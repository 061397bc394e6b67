/* Positional and named arguments to places. In: what CPython hands over. Out: one borrowed reference per argument and option. */
#include "py.h"
#include <string.h>

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

enum { KEPT = sizeof((aot_callable *)NULL)->seen_places / sizeof *((aot_callable *)NULL)->seen_places };

/* The tuple of names is a constant of the calling code: the same code brings the same one again. */
static int remember(aot_callable *callable, PyObject *names) {
  Py_ssize_t count = PyTuple_Size(names);
  Py_CLEAR(callable->seen);
  for (Py_ssize_t i = 0; i < count; i++) {
    int place = place_of(callable, PyTuple_GetItem(names, i));
    if (place < 0)
      return -1;
    callable->seen_places[i] = (uint16_t)place;
  }
  callable->nseen = (uint16_t)count;
  callable->seen = Py_NewRef(names);
  return 0;
}

static int put(const aot_callable *callable, int place, PyObject *value, PyObject **bound, PyObject **options) {
  PyObject **target = place < callable->nargs ? &bound[place] : &options[place - callable->nargs];
  if (*target)
    return complain(callable, "got two values for argument", callable->keywords[place]);
  *target = value;
  return 0;
}

static int bind_named(aot_callable *callable, PyObject *const *values, PyObject *names, PyObject **bound, PyObject **options) {
  if (names != callable->seen && PyTuple_Size(names) > KEPT) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(names); i++) {
      int place = place_of(callable, PyTuple_GetItem(names, i));
      if (place < 0 || put(callable, place, values[i], bound, options))
        return -1;
    }
    return 0;
  }
  if (names != callable->seen && remember(callable, names))
    return -1;
  for (int i = 0; i < callable->nseen; i++)
    if (put(callable, callable->seen_places[i], values[i], bound, options))
      return -1;
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
