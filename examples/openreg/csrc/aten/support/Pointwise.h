#pragma once

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "aten/support/Operands.h"
#include "device/Address.h"
#include "device/Launch.h"
#include "fallback/Call.h"
#include "runtime/Stream.h"

namespace openreg::native {

// The argument block of an element-wise kernel. Dimension 0 is the innermost; strides are in bytes; operand 0 is written.
template <class Function, size_t kOperands>
struct PointwiseArguments {
  static constexpr int kMaxDimensions = 8;

  Function function;
  int dimensions;
  std::array<int64_t, kMaxDimensions> sizes;
  std::array<std::array<int64_t, kOperands>, kMaxDimensions> strides;
  std::array<char*, kOperands> data;  // device addresses
};

// A separate function with its pointers as arguments, so that the compiler vectorizes it.
template <class Function, class Out, class... In>
void applyContiguous(Function function, int64_t count, Out* out, const In*... in) {
  for (int64_t n = 0; n < count; ++n) {
    out[n] = function(in[n]...);
  }
}

// Computes `count` elements of one row. `data` holds host addresses.
template <class Out, class... In, class Function>
void applyRow(Function function, char* const* data, const int64_t* strides, int64_t count) {
  const auto apply = [&]<size_t... I>(std::index_sequence<I...>) {
    char* out = data[0];
    const std::array<char*, sizeof...(In)> in{data[I + 1]...};
    if (strides[0] == sizeof(Out) && ((strides[I + 1] == sizeof(In)) && ...)) {
      applyContiguous(function, count, reinterpret_cast<Out*>(out), reinterpret_cast<const In*>(in[I])...);
      return;
    }
    for (int64_t n = 0; n < count; ++n) {
      *reinterpret_cast<Out*>(out + n * strides[0]) = function(*reinterpret_cast<const In*>(in[I] + n * strides[I + 1])...);
    }
  };
  apply(std::index_sequence_for<In...>());
}

// Computes the elements from `begin` to `end`, counted over all dimensions.
template <class Arguments, class Out, class... In>
void applyRange(const Arguments& arguments, int64_t begin, int64_t end) {
  while (begin < end) {
    auto data = arguments.data;
    int64_t rest = begin;
    for (int d = 0; d < arguments.dimensions; ++d) {
      const int64_t index = rest % arguments.sizes[d];
      rest /= arguments.sizes[d];
      for (size_t i = 0; i < data.size(); ++i) {
        data[i] += index * arguments.strides[d][i];
      }
    }
    for (auto& address : data) {
      address = device::toKernelAddress(address);
    }
    const int64_t count = std::min(arguments.sizes[0] - begin % arguments.sizes[0], end - begin);
    applyRow<Out, In...>(arguments.function, data.data(), arguments.strides[0].data(), count);
    begin += count;
  }
}

// The device's code. It may run after the launch has returned, and on another thread.
template <class Arguments, class Out, class... In>
void pointwiseKernel(const Arguments& arguments) {
  int64_t count = 1;
  for (int d = 0; d < arguments.dimensions; ++d) {
    count *= arguments.sizes[d];
  }
  at::parallel_for(
      0, count, at::internal::GRAIN_SIZE, [&](int64_t begin, int64_t end) { applyRange<Arguments, Out, In...>(arguments, begin, end); });
}

// The same on this thread, on the aliases of emulation, for operands that cannot be launched.
template <class Out, class... In, class Function>
void applyOnHost(at::TensorIteratorBase& iterator, Function function) {
  constexpr size_t kOperands = sizeof...(In) + 1;
  fallback::Call call;
  std::array<ptrdiff_t, kOperands> distances;
  for (size_t i = 0; i < kOperands; ++i) {
    const auto& operand = iterator.tensor(static_cast<int64_t>(i));
    const auto alias = call.alias(operand, i == 0 ? fallback::Call::Use::Write : fallback::Call::Use::Read);
    distances[i] = reinterpret_cast<intptr_t>(alias.const_data_ptr()) - reinterpret_cast<intptr_t>(operand.const_data_ptr());
  }
  call.run([&] {
    iterator.for_each([&](char** data, const int64_t* strides, int64_t count) {
      std::array<char*, kOperands> moved;
      for (size_t i = 0; i < kOperands; ++i) {
        moved[i] = reinterpret_cast<char*>(reinterpret_cast<intptr_t>(data[i]) + distances[i]);
      }
      applyRow<Out, In...>(function, moved.data(), strides, count);
    });
  });
}

// Launches `function` for each element of the iterator: operand 0 is written, the others are read. All operands have the
// dtypes of the function's result and arguments. The function is copied into the kernel's arguments.
//
// The function is code of the host. A device whose kernels are functions of the host runs it on device memory; on another device it runs
// on copies in host memory. A kernel of a real device launches its own code instead.
template <class Out, class... In, class Function>
void launchPointwise(at::TensorIteratorBase& iterator, Function function) {
  using Arguments = PointwiseArguments<Function, sizeof...(In) + 1>;
  if (iterator.numel() == 0) {
    return;
  }
  // The operands have more dimensions than the arguments can hold, even after PyTorch merged dimensions, or the device cannot
  // run the host's code. The calling thread then computes, in the order of the stream.
  if (!device::kKernelsAreHostFunctions || iterator.ndim() > Arguments::kMaxDimensions) [[unlikely]] {
    applyOnHost<Out, In...>(iterator, function);
    return;
  }
  Arguments arguments{function, std::max(iterator.ndim(), 1), {1}, {}, {}};
  std::array<device::Operand, sizeof...(In) + 1> operands;
  for (int i = 0; i < iterator.ntensors(); ++i) {
    operands[i] = operandOf(iterator.tensor(i), /*written=*/i == 0);
    arguments.data[i] = static_cast<char*>(iterator.data_ptr(i));
    for (int d = 0; d < iterator.ndim(); ++d) {
      arguments.sizes[d] = iterator.shape()[d];
      arguments.strides[d][i] = iterator.strides(i)[d];
    }
  }
  const auto stream = currentStreamHandle(iterator.device(0).index());
  device::launch<Arguments, &pointwiseKernel<Arguments, Out, In...>>(arguments, operands, stream);
}

}  // namespace openreg::native
