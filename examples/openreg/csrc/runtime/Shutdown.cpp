#include "runtime/Shutdown.h"

#include <torch/csrc/autograd/engine.h>

namespace openreg {

void stopAutogradThreads() {
  torch::autograd::Engine::get_default_engine().stop();
}

}  // namespace openreg
