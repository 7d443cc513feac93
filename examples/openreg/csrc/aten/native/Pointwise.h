#pragma once

#include <ATen/TensorIterator.h>

#include <array>
#include <type_traits>

#include "device/Address.h"
#include "device/Launch.h"
#include "runtime/Stream.h"

namespace openreg::native {

// Apart from the rest, with its pointers as arguments, so that the compiler vectorises it.
template <class Function, class Out, class... In>
void applyContiguous(Function function, int64_t count, Out* out, const In*... in) {
  for (int64_t n = 0; n < count; ++n) {
    out[n] = function(in[n]...);
  }
}

// Launches `function` for each element of the iterator: operand 0 is written, the others are read. All operands have the
// dtypes of the function's result and arguments. The body is the device's code: it gets device addresses.
//
// PORTING: this is where your element-wise kernel launch goes; what uses it only says what happens to one element.
template <class Out, class... In, class Function>
void launchPointwise(at::TensorIteratorBase& iterator, Function function) {
  constexpr size_t kOperands = sizeof...(In) + 1;
  const auto loop = [function](char** addresses, const int64_t* strides, int64_t count) {
    std::array<char*, kOperands> data{};
    for (size_t i = 0; i < kOperands; ++i) {
      data[i] = device::toKernelAddress(addresses[i]);
    }
    const auto apply = [&]<size_t... I>(std::index_sequence<I...>) {
      const bool contiguous = strides[0] == sizeof(Out) && ((strides[I + 1] == sizeof(In)) && ...);
      if (contiguous) {
        applyContiguous(function, count, reinterpret_cast<Out*>(data[0]), reinterpret_cast<const In*>(data[I + 1])...);
      } else {
        for (int64_t n = 0; n < count; ++n) {
          *reinterpret_cast<Out*>(data[0] + n * strides[0]) = function(*reinterpret_cast<const In*>(data[I + 1] + n * strides[I + 1])...);
        }
      }
    };
    apply(std::index_sequence_for<In...>());
  };
  auto* stream = currentStreamHandle(iterator.device(0).index());
  device::runOnStream(stream, [&] { iterator.for_each(loop); });
}

}  // namespace openreg::native
