#include <ATen/Operators.h>
#include <torch/library.h>

#include "aten/emulation/Unboxed.h"

#define EMULATED(schema_name, op) m.impl(schema_name, (::openreg::emulation::Emulated<::at::_ops::op>::call));

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#include "aten/operators.def"
}
