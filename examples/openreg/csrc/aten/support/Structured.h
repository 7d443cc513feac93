#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/MaybeOwned.h>

#include <optional>
#include <type_traits>
#include <utility>

#include "runtime/Guard.h"

// Structured kernels outside PyTorch's tree. `Kernel` derives from one of PyTorch's at::meta::structured_X and adds `void
// impl(args..., const at::Tensor& out)`. meta() checks the arguments and computes the properties of the output. The three
// variants below differ only in how they get the output. If a kernel iterates over its operands and the caller's `out` has another
// dtype than the result, the body gets a tensor of the result's dtype, which is then copied to `out`.
namespace openreg::native {

// Passes the output to a kernel that iterates over its operands. For other kernels the output is only created.
template <class Kernel>
void tellIterator(Kernel& kernel, int64_t index, c10::IntArrayRef sizes, c10::IntArrayRef strides, at::TensorOptions options) {
  if constexpr (std::is_base_of_v<at::TensorIteratorBase, Kernel>) {
    kernel.Kernel::set_output_raw_strided(index, sizes, strides, options);
  }
}

// The functional variant creates a new tensor.
template <class Kernel>
struct Functional final : Kernel {
  void set_output_strided(int64_t index, c10::IntArrayRef sizes, c10::IntArrayRef strides, at::TensorOptions options) override {
    guard.emplace(options.device());
    output = strides.empty() ? at::empty(sizes, options) : at::empty_strided(sizes, strides, options);
    tellIterator<Kernel>(*this, index, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t index, c10::IntArrayRef sizes, c10::IntArrayRef strides, at::TensorOptions options) override {
    set_output_strided(index, sizes, strides, options);
  }
  const at::Tensor& maybe_get_output(int64_t /*index*/) override {
    return output;
  }
  at::Tensor output;
  std::optional<DeviceGuard> guard;
};

// The out and in-place variants use the caller's tensor; an out argument is resized.
template <class Kernel, bool kResize>
struct Into final : Kernel {
  explicit Into(at::Tensor& target) : output(target) {}

  void set_output_strided(int64_t index, c10::IntArrayRef sizes, c10::IntArrayRef strides, at::TensorOptions options) override {
    guard.emplace(options.device());
    TORCH_CHECK(
        output.dtype() == options.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ", output.dtype(), " instead");
    TORCH_CHECK(
        output.device() == options.device(), "Expected out tensor to have device ", options.device(), ", but got ", output.device(),
        " instead");
    if constexpr (kResize) {
      if (at::native::resize_output(output, sizes) && !strides.empty()) {
        output.as_strided_(sizes, strides);
      }
    } else {
      TORCH_CHECK(
          output.sizes() == sizes, "an in-place operator cannot change the shape of its tensor from ", output.sizes(), " to ", sizes);
    }
    tellIterator<Kernel>(*this, index, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t index, c10::IntArrayRef sizes, c10::IntArrayRef strides, at::TensorOptions options) override {
    set_output_strided(index, sizes, strides, options);
  }
  const at::Tensor& maybe_get_output(int64_t /*index*/) override {
    return output;
  }
  at::Tensor& output;
  std::optional<DeviceGuard> guard;
};

// A tensor of one element that the caller left on the host. Python's numbers are not meant: iterators take them everywhere.
inline bool isOnHost(const at::Tensor& argument) {
  return argument.defined() && argument.dim() == 0 && argument.is_cpu() && !argument.unsafeGetTensorImpl()->is_wrapped_number();
}
inline bool isOnHost(const at::OptionalTensorRef& argument) {
  return argument.has_value() && isOnHost(*argument);
}
template <class T>
bool isOnHost(const T& /*argument*/) {
  return false;
}

// An argument for a call in which such tensors are copied to the device.
template <class T>
struct Moved {
  Moved(const T& argument, at::Device /*device*/) : value(argument) {}
  const T& get() const {
    return value;
  }
  const T& value;
};
template <>
struct Moved<at::Tensor> {
  Moved(const at::Tensor& argument, at::Device device) : value(isOnHost(argument) ? argument.to(device) : argument) {}
  const at::Tensor& get() const {
    return value;
  }
  at::Tensor value;
};
template <>
struct Moved<at::OptionalTensorRef> : Moved<at::Tensor> {
  Moved(const at::OptionalTensorRef& argument, at::Device device)
      : Moved<at::Tensor>(argument.has_value() ? *argument : at::Tensor(), device) {}
  at::OptionalTensorRef get() const {
    return value.defined() ? at::OptionalTensorRef(value) : at::OptionalTensorRef();
  }
};

inline void findDevice(std::optional<at::Device>& device, const at::Tensor& argument) {
  if (!device && argument.defined() && argument.device().type() == kDeviceType) {
    device = argument.device();
  }
}
inline void findDevice(std::optional<at::Device>& device, const at::OptionalTensorRef& argument) {
  if (argument.has_value()) {
    findDevice(device, *argument);
  }
}
template <class T>
void findDevice(std::optional<at::Device>& /*device*/, const T& /*argument*/) {}

// Calls the function with the arguments. Some of PyTorch's iterators (that of clamp) refuse a tensor of one element on the host beside
// tensors of the device, which the fallback takes. So it is copied to the device first.
template <class Kernel, class Function, class... Args>
decltype(auto) withOneDevice(const Function& function, const Args&... args) {
  if constexpr (std::is_base_of_v<at::TensorIteratorBase, Kernel>) {
    if ((isOnHost(args) || ...)) [[unlikely]] {
      std::optional<at::Device> device;
      (findDevice(device, args), ...);
      if (device) {
        return [&](const auto&... moved) -> decltype(auto) { return function(moved.get()...); }(Moved<Args>(args, *device)...);
      }
    }
  }
  return function(args...);
}

template <class Kernel, class... Args>
at::Tensor computeFunctional(const Args&... args) {
  Functional<Kernel> op;
  op.meta(args...);
  op.impl(args..., op.output);
  return std::move(op.output);
}

template <class Kernel, class... Args>
at::Tensor functional(const Args&... args) {
  return withOneDevice<Kernel>([](const auto&... given) { return computeFunctional<Kernel>(given...); }, args...);
}

template <class Kernel, class... Args>
at::Tensor& inPlace(at::Tensor& self, const Args&... args) {
  const auto compute = [](const at::Tensor& target, const auto&... given) {
    auto& output = const_cast<at::Tensor&>(target);
    Into<Kernel, /*kResize=*/false> op(output);
    op.meta(target, given...);
    op.impl(target, given..., target);
  };
  withOneDevice<Kernel>(compute, std::as_const(self), args...);
  return self;
}

template <class T>
bool hasOtherDtype(const T& argument, at::ScalarType dtype) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    return argument.defined() && argument.scalar_type() != dtype;
  } else if constexpr (std::is_same_v<T, at::OptionalTensorRef>) {
    return argument.has_value() && hasOtherDtype(*argument, dtype);
  } else {
    return false;
  }
}

// meta() of a kernel that iterates over its operands, for an out tensor of another dtype than the result: it checks that tensor, and
// sees the dtype of the result as the dtype of the computation, as on the CPU. Its iterator is not for use.
template <class Kernel>
struct Checked final : Kernel {
  Checked(at::Tensor& target, const at::Tensor& computed) : output(target), result(computed) {}

  void set_output_strided(
      int64_t index, c10::IntArrayRef /*sizes*/, c10::IntArrayRef /*strides*/, at::TensorOptions /*options*/) override {
    auto& operand = this->operands_[index];
    operand.exchange_tensor(c10::MaybeOwned<at::TensorBase>::borrowed(result));
    operand.current_dtype = result.scalar_type();
  }
  void set_output_raw_strided(int64_t index, c10::IntArrayRef sizes, c10::IntArrayRef strides, at::TensorOptions options) override {
    set_output_strided(index, sizes, strides, options);
  }
  const at::Tensor& maybe_get_output(int64_t /*index*/) override {
    return output;
  }
  at::Tensor& output;
  const at::Tensor& result;
};

template <class Kernel, class... Args>
at::Tensor& computeInto(at::Tensor& out, const Args&... args) {
  if constexpr (std::is_base_of_v<at::TensorIteratorBase, Kernel>) {
    // PyTorch's iterator converts the output only on the CPU. Elsewhere meta() and the body would take the dtype of `out` for the dtype
    // of the computation.
    if ((hasOtherDtype(args, out.scalar_type()) || ...)) [[unlikely]] {
      Functional<Kernel> op;
      op.meta(args...);
      if (op.output.scalar_type() != out.scalar_type()) {
        Checked<Kernel>(out, op.output).meta(args...);
        op.impl(args..., op.output);
        if (at::native::resize_output(out, op.output.sizes())) {
          out.as_strided_(op.output.sizes(), op.output.strides());
        }
        return out.copy_(op.output);
      }
    }
  }
  Into<Kernel, /*kResize=*/true> op(out);
  op.meta(args...);
  op.impl(args..., out);
  return out;
}

template <class Kernel, class... Args>
at::Tensor& outVariant(at::Tensor& out, const Args&... args) {
  withOneDevice<Kernel>([&](const auto&... given) { computeInto<Kernel>(out, given...); }, args...);
  return out;
}

}  // namespace openreg::native
