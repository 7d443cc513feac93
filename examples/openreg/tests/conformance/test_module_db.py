"""PyTorch's modules by its own inputs, in training and in evaluation, against the CPU."""

import copy
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from case import DeviceCase, in_order, second_gradients, wanting_grad, with_gaps
from claims import chosen, mark_exceptions
from compare import HALF, gradients
from opinfo import place, widened, wider
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_modules import ModuleErrorEnum, ModuleInfo, module_db, modules

OTHER_ORDER = ("nn.RNN", "nn.LSTM", "nn.GRU", "nn.LinearCrossEntropyLoss")
"""How the names begin of modules that PyTorch computes in another order off the CPU: biases last, or by chunks."""

ROUNDED_BY_PROCESSOR = "nn.LSTM"
"""In half precision its gradients on the CPU are, on some processors, further from the true ones than those of the device.
The CPU's results in single precision are what counts instead."""

IMPRECISE = "nn.CTCLoss"
"""Its gradient would be wrong in half precision, so the device refuses it, as CUDA does."""


def tolerances(info: ModuleInfo, dtype: torch.dtype) -> dict[str, float]:
    """Return the tolerances where PyTorch's defaults for the dtype are too narrow."""
    if not info.name.startswith(OTHER_ORDER) or dtype == torch.float64:
        return {}
    return {"rtol": 5e-2, "atol": 5e-2} if dtype in HALF else {"rtol": 1e-5, "atol": 1e-5}


def with_half_precision(info: ModuleInfo) -> ModuleInfo:
    """Return an entry that is tested in half precision too. Where the CPU lacks it, the device computes in single precision."""
    info = copy.copy(info)
    info.dtypes = tuple(dict.fromkeys([*info.dtypes, torch.float16, torch.bfloat16]))
    return info


MODULES = [with_half_precision(info) for info in chosen(module_db, lambda info: info.name)]


class TestModules(DeviceCase):
    """Each test is one module with one dtype in one mode, and takes all of PyTorch's inputs for them."""

    @modules(MODULES)
    def test_forward(self, device: str, dtype: torch.dtype, module_info: ModuleInfo, training: bool) -> None:
        """Results, and the buffers that a call changes."""
        for case in inputs(module_info, dtype, training):

            def run(where: str, wide: bool = False, case: Any = case) -> Any:
                module, args, kwargs = build(module_info, case, dtype, training, where, wide)
                return module(*args, **kwargs), list(module.buffers())

            self.compare(module_info, dtype, run, device)

    @modules(MODULES)
    def test_backward(self, device: str, dtype: torch.dtype, module_info: ModuleInfo, training: bool) -> None:
        """Gradients of inputs and parameters, with gaps between the elements of the inputs."""
        for case in inputs(module_info, dtype, training, requires_grad=True):

            def run(where: str, wide: bool = False, case: Any = case) -> Any:
                module, args, kwargs = build(module_info, case, dtype, training, where, wide)
                args, kwargs = with_gaps((args, kwargs))
                found = module(*args, **kwargs)
                with in_order(dtype in HALF):
                    return gradients(found, wanting_grad((args, kwargs, list(module.parameters()))))

            self.compare(module_info, dtype, run, device)

    @modules([info for info in MODULES if info.supports_gradgrad])
    def test_gradgrad(self, device: str, dtype: torch.dtype, module_info: ModuleInfo, training: bool) -> None:
        if module_info.name.startswith(OTHER_ORDER) and dtype in HALF:
            self.skipTest("second derivatives of these are mostly rounding in half precision")
        for case in inputs(module_info, dtype, training, requires_grad=True):

            def run(where: str, wide: bool = False, case: Any = case) -> Any:
                module, args, kwargs = build(module_info, case, dtype, training, where, wide)
                with sdpa_kernel(SDPBackend.MATH):  # no fused attention has a second derivative
                    results = module(*args, **kwargs)
                return second_gradients(results, wanting_grad((args, kwargs, list(module.parameters()))))

            self.compare(module_info, dtype, run, device)

    @modules(MODULES)
    def test_state(self, device: str, dtype: torch.dtype, module_info: ModuleInfo, training: bool) -> None:
        """A state saved on the device, and loaded into a module that was made there, gives the same results."""
        for case in inputs(module_info, dtype, training):

            def run(where: str, wide: bool = False, case: Any = case) -> Any:
                module, args, kwargs = build(module_info, case, dtype, training, where, wide)
                module(*args, **kwargs)
                file = io.BytesIO()
                torch.save(module.state_dict(), file)
                file.seek(0)
                fresh = construct_on(where, module_info, case)
                fresh.to(wider(dtype) if wide else dtype).train(training).load_state_dict(torch.load(file))
                return list(fresh.state_dict().values()), fresh(*args, **kwargs)

            self.compare(module_info, dtype, run, device)

    def compare(self, info: ModuleInfo, dtype: torch.dtype, run: Callable[..., Any], device: str) -> None:
        in_single_precision = info.name == ROUNDED_BY_PROCESSOR and dtype in HALF
        self.same_as_on_cpu(
            lambda where: run(where, wide=in_single_precision and where == "cpu"),
            device,
            in_wider_dtype=partial(run, "cpu", wide=True),
            may_refuse=info.name == IMPRECISE,
            **tolerances(info, dtype),
        )

    @modules([info for info in MODULES if info.module_error_inputs_func is not None])
    def test_errors(self, device: str, dtype: torch.dtype, module_info: ModuleInfo, training: bool) -> None:
        arguments = {"dtype": dtype, "requires_grad": False, "training": training}
        for error in module_info.module_error_inputs_func(module_info, device=device, **arguments):
            given = error.module_error_input

            def run(given: Any = given, error: Any = error) -> None:
                module = construct(module_info, given.constructor_input.args, given.constructor_input.kwargs)
                if error.error_on == ModuleErrorEnum.FORWARD_ERROR:
                    module.to(device)(*given.forward_input.args, **given.forward_input.kwargs)

            with self.assertRaisesRegex(error.error_type, error.error_regex):
                run()


def inputs(info: ModuleInfo, dtype: torch.dtype, training: bool, requires_grad: bool = False) -> list[Any]:
    """Return PyTorch's inputs for the module on the CPU, the same ones in each call."""
    torch.manual_seed(0)
    return list(
        info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=requires_grad, training=training)
    )


def construct(info: ModuleInfo, args: Any, kwargs: Any) -> nn.Module:
    module: nn.Module = info.module_cls(*args, **kwargs)
    return module


def build(
    info: ModuleInfo, case: Any, dtype: torch.dtype, training: bool, device: str, wide: bool
) -> tuple[nn.Module, Any, Any]:
    """Return the module and the arguments of its call on a device. Its parameters are drawn on the CPU, if they are by now.

    Numbers are those of the dtype, in the wider one if `wide`.
    """
    args, kwargs = place((case.forward_input.args, case.forward_input.kwargs), device)
    if wide:
        args, kwargs = widened((args, kwargs), dtype)
    if info.is_lazy:
        # PyTorch makes an empty parameter of an uninitialized one where a module moves to an out-of-tree device.
        return construct_on(device, info, case).to(wider(dtype) if wide else dtype).train(training), args, kwargs
    torch.default_generator.manual_seed(0)
    module = construct_on("cpu", info, case).to(dtype).to(device).train(training)
    return module.to(wider(dtype)) if wide else module, args, kwargs


def construct_on(device: str, info: ModuleInfo, case: Any) -> nn.Module:
    args, kwargs = place((case.constructor_input.args, case.constructor_input.kwargs), device)
    with torch.device(device):
        module = construct(info, args, kwargs)
    return module if info.is_lazy else module.to(device)  # a module among the arguments is still where it was


instantiate_device_type_tests(TestModules, globals(), only_for="privateuse1")
mark_exceptions(globals())
