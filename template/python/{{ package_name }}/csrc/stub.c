// The module that Python loads. It only defines the symbol that Python needs; all code is in libraries that C++ programs and
// tests can link.
#include <Python.h>

extern PyObject* createExtensionModule(void);

PyMODINIT_FUNC PyInit__C(void) {
  return createExtensionModule();
}
