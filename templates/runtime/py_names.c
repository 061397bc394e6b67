/* Attribute names, interned once: CPython's attribute cache goes by the string object, so a new one each time would miss it. */
#include "py.h"

PyObject *aot_names[AOT_NAME_COUNT];

int aot_names_setup(void) {
#define TEXT(name, text) text,
  static const char *const texts[] = {AOT_NAMES(TEXT)};
#undef TEXT
  for (int i = 0; i < AOT_NAME_COUNT; i++)
    if (!aot_names[i] && !(aot_names[i] = PyUnicode_InternFromString(texts[i])))
      return -1;
  return 0;
}

PyObject *aot_optional(PyObject *object, int name) {
  PyObject *found = PyObject_GetAttr(object, aot_names[name]);
  if (!found && PyErr_ExceptionMatches(PyExc_AttributeError))
    PyErr_Clear();
  return found;
}

PyObject *aot_imported(int name) { return PyDict_GetItemWithError(PyImport_GetModuleDict(), aot_names[name]); }
