#include "fallback/RegisterFallbacks.h"

#include <torch/library.h>

#include "fallback/MultiPartFallback.h"
#include "fallback/Fallback.h"
#include "fallback/FallbackPolicy.h"

namespace openreg {
namespace {

// PyTorch takes an operator apart into smaller ones for a device that has no kernel for it, if it knows how. Where the
// CPU has a kernel for the whole, that one is to be used: it is faster (layer_norm: 3 times), and gives the CPU's numbers.
bool wouldBeTakenApart(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  if (!op.hasKernelForDispatchKey(DispatchKey::CPU) || op.hasKernelForDispatchKey(DispatchKey::PrivateUse1)) {
    return false;
  }
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)) {
    // Without a derivative of its own it has to be taken apart above autograd.
    return op.hasKernelForDispatchKey(DispatchKey::Autograd);
  }
  return op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) || op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

}  // namespace

void registerFallbacks() {
  readFallbackEnvironment();
  // Never destroyed: its destructor would take the registrations back.
  static auto& library = *new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  static const bool done = [] {
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const auto& name : dispatcher.getAllOpNames()) {
      const auto op = dispatcher.findOp(name);
      if (name.getNamespace() == "aten" && op.has_value() && op->hasSchema() && wouldBeTakenApart(*op)) {
        library.impl(c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&runFallback>());
      }
    }
    return true;
  }();
  static_cast<void>(done);
  registerMultiPartFallbacks();
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&runFallback>());
}

}  // namespace openreg
