#include "fallback/RegisterFallbacks.h"

#include <torch/library.h>

#include "fallback/Fallback.h"
#include "fallback/FallbackPolicy.h"
#include "fallback/MultiPartFallback.h"
#include "fallback/OperatorOrigin.h"

namespace openreg::fallback {
namespace {

// If a device has no kernel for an operator, PyTorch decomposes it into other operators where it can. If the CPU has a kernel
// for the operator, that kernel is used instead: it is faster (layer_norm: 3 times) and returns exactly the CPU's results.
bool wouldBeTakenApart(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  if (!op.hasKernelForDispatchKey(DispatchKey::CPU) || op.hasKernelForDispatchKey(DispatchKey::PrivateUse1)) {
    return false;
  }
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)) {
    // An operator without its own derivative must be decomposed above autograd.
    return op.hasKernelForDispatchKey(DispatchKey::Autograd);
  }
  return op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

}  // namespace

void registerFallbacks() {
  readFallbackEnvironment();
  // Never destroyed, because its destructor would remove the registrations.
  static auto& library = *new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  static const bool done = [] {
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const auto& name : dispatcher.getAllOpNames()) {
      const auto op = dispatcher.findOp(name);
      if (name.getNamespace() == "aten" && op.has_value() && op->hasSchema() && wouldBeTakenApart(*op)) {
        auto kernel = torch::CppFunction::makeFromBoxedFunction<&runFallback>();
        library.impl(
            c10::toString(name).c_str(),
            withOrigin({Origin::Fallback, "the CPU has a kernel for the whole, which PyTorch would take apart"}, std::move(kernel)));
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

}  // namespace openreg::fallback
