// The file that Python loads. It holds nothing but the name Python looks for, so that all code is in libraries
// which C++ programs and tests can link.
#include <Python.h>

extern PyObject* createExtensionModule(void);

PyMODINIT_FUNC PyInit__C(void) {
  return createExtensionModule();
}
