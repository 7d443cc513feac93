#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <device/Address.h>
#include <device/Launch.h>
#include <fallback/HostBody.h>
#include <runtime/Guard.h>
#include <runtime/Stream.h>

// Operators of an extension's own: axpy has a kernel that the device runs, doubled one that still computes on the host.
namespace {

namespace backend = DEVICE;

struct AxpyArguments {
  const float* x;
  const float* y;
  float* out;
  float a;
  int64_t count;
};

void axpyKernel(const AxpyArguments& arguments) {
  const float* x = backend::device::toKernelAddress(arguments.x);
  const float* y = backend::device::toKernelAddress(arguments.y);
  float* out = backend::device::toKernelAddress(arguments.out);
  for (int64_t n = 0; n < arguments.count; ++n) {
    out[n] = arguments.a * x[n] + y[n];
  }
}

at::Tensor axpy(const at::Tensor& x, const at::Tensor& y, double a) {
  TORCH_CHECK(x.device() == y.device(), "axpy takes two tensors of one device, got ", x.device(), " and ", y.device());
  TORCH_CHECK(x.sizes() == y.sizes(), "axpy takes two tensors of one shape, got ", x.sizes(), " and ", y.sizes());
  TORCH_CHECK(x.scalar_type() == at::kFloat && y.scalar_type() == at::kFloat, "axpy takes tensors of float32");
  const backend::DeviceGuard guard(x.device());
  const at::Tensor dense_x = x.contiguous();
  const at::Tensor dense_y = y.contiguous();
  at::Tensor out = at::empty_like(dense_x);
  const AxpyArguments arguments{
      dense_x.const_data_ptr<float>(), dense_y.const_data_ptr<float>(), out.mutable_data_ptr<float>(), static_cast<float>(a), out.numel()};
  backend::device::launch<AxpyArguments, &axpyKernel>(arguments, backend::currentStreamHandle(x.device().index()));
  return out;
}

at::Tensor& doubled(const at::Tensor& x, at::Tensor& out) {
  const at::Tensor host = x.to(at::kCPU);
  return out.copy_(host.add(host));
}

}  // namespace

TORCH_LIBRARY(extension, m) {
  m.def("axpy(Tensor x, Tensor y, float a) -> Tensor");
  m.def("doubled.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)");
}

TORCH_LIBRARY_IMPL(extension, PrivateUse1, m) {
  m.impl("axpy", TORCH_FN(axpy));
  m.impl("doubled.out", backend::fallback::hostBody("extension::doubled.out", TORCH_FN(doubled)));
}
