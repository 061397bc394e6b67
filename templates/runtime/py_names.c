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

PyObject *aot_item(PyObject *dict, PyObject *key) {
  PyObject *found = NULL;
#ifdef Py_GIL_DISABLED
  (void)PyDict_GetItemRef(dict, key, &found);                  /* another thread may take a borrowed one's object away */
#else
  found = PyDict_GetItemWithError(dict, key);
  Py_XINCREF(found);
#endif
  return found;
}

PyObject *aot_imported(int name) {
  PyObject *module = aot_item(PyImport_GetModuleDict(), aot_names[name]);
  if (module == Py_None)                                       /* whoever put it there forbids the import */
    Py_CLEAR(module);
  return module;
}
