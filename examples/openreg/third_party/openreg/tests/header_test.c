// The header is C: this file is compiled as C and linked into the tests.
#include <openreg/openreg.h>

int headerIsC(void);

int headerIsC(void) {
  int version = 0;
  return orRuntimeGetVersion(&version) == orSuccess && version == OPENREG_VERSION;
}
