#include <ATen/Operators.h>
#include <torch/library.h>

#include "fallback/Unboxed.h"

#define EMULATED(schema_name, op) m.impl(schema_name, ::openreg::fallback::emulated<::at::_ops::op>());

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#include "fallback/operators.def"
}
