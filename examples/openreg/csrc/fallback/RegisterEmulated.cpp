#include <ATen/Operators.h>
#include <torch/library.h>

#include "fallback/Unboxed.h"

#define EMULATED(schema_name, op) m.impl(schema_name, (::openreg::fallback::Emulated<::at::_ops::op>::call));
#define NATIVE(schema_name, op)  // registered where it is written, in native/

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#include "fallback/operators.def"
}
