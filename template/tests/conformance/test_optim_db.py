"""PyTorch's optimizers in each of its configurations: the same steps as on the CPU, by each implementation."""

import copy
import warnings
from typing import Any

import torch
from case import DeviceCase
from claims import chosen, mark_exceptions
from compare import slope, to_device
from torch import Tensor
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_optimizers import OptimizerErrorEnum, OptimizerInfo, optim_db, optims
from torch.utils._pytree import tree_map_only

OPTIMIZERS = chosen(optim_db, lambda info: info.name)
DENSE = [info for info in OPTIMIZERS if not info.only_supports_sparse_grads]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64]
STEPS = 4


def foreach_if_free(info: OptimizerInfo) -> dict[str, bool]:
    """Return what makes the CPU compute in the order that the optimizer chooses for devices."""
    chooses = "foreach" in info.supported_impls and info.optim_cls is not torch.optim.Adafactor  # which saves memory
    return {"foreach": True} if chooses else {}


def implementing(name: str) -> list[OptimizerInfo]:
    return [info for info in DENSE if name in info.supported_impls]


class TestOptimizers(DeviceCase):
    """Each test is one optimizer with parameters of one dtype, in all of PyTorch's configurations."""

    @optims(DENSE, dtypes=DTYPES)
    def test_steps(self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo) -> None:
        """As the optimizer chooses to compute by itself on the device, which is at once for all parameters if it can."""
        self.check(optim_info, dtype, device, foreach_if_free(optim_info), {})

    @optims(DENSE, dtypes=DTYPES)
    def test_single(self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo) -> None:
        """One parameter after the other."""
        flags = {name: False for name in optim_info.supported_impls if name != "differentiable"}
        self.check(optim_info, dtype, device, flags, flags)

    @optims(implementing("foreach"), dtypes=DTYPES)
    def test_foreach(self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo) -> None:
        self.check(optim_info, dtype, device, {"foreach": True}, {"foreach": True})

    @optims([info for info in implementing("fused") if "cpu" in info.supports_fused_on], dtypes=DTYPES)
    def test_fused(self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo) -> None:
        self.check(optim_info, dtype, device, {"fused": True}, {"fused": True})

    # Not in float16, where PyTorch's formulas for this divide by an epsilon that is rounded to zero.
    @optims([info for info in DENSE if info.has_capturable_arg], dtypes=[x for x in DTYPES if x != torch.float16])
    def test_capturable(self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo) -> None:
        """With its count of steps on the device, for graphs. The CPU has no such thing and computes as usual."""
        # Factors made of that count are rounded too: to the dtype of the parameters, or to float32, which the count has.
        wider = {torch.bfloat16: {"rtol": 5e-2, "atol": 2e-2}, torch.float64: {"rtol": 1e-5, "atol": 1e-6}}.get(
            dtype, {}
        )
        for foreach in [False, True]:
            flags = {"foreach": foreach}
            self.check(optim_info, dtype, device, flags, flags | {"capturable": True}, **wider)

    @optims(implementing("differentiable"), dtypes=DTYPES)
    def test_differentiable(self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo) -> None:
        self.check(optim_info, dtype, device, {"differentiable": True}, {"differentiable": True})

    @optims([info for info in OPTIMIZERS if info.supports_sparse or info.only_supports_sparse_grads], dtypes=DTYPES)
    def test_sparse(self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo) -> None:
        """Gradients are sparse."""
        kwargs, _ = optim_info.metadata_for_sparse
        self.same_as_on_cpu(lambda where: train(optim_info, kwargs, dtype, where, sparse=True), device)

    @optims(OPTIMIZERS, dtypes=DTYPES)
    def test_resumed(self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo) -> None:
        """Half of the steps are done by a second optimizer with the state of the first."""
        sparse = optim_info.only_supports_sparse_grads
        flags = {} if sparse else foreach_if_free(optim_info)
        for given in optim_info.optim_inputs_func("cpu"):
            kwargs = flags | given.kwargs

            def run(where: str, kwargs: dict[str, Any] = kwargs) -> Any:
                return train(optim_info, kwargs, dtype, where, sparse, resumed=True)

            self.same_as_on_cpu(run, device)

    @optims([info for info in OPTIMIZERS if info.optim_error_inputs_func is not None], dtypes=DTYPES)
    def test_errors(self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo) -> None:
        """Arguments that the optimizer refuses, or warns of, on the CPU."""
        for error in optim_info.optim_error_inputs_func("cpu", dtype):
            given = error.optimizer_error_input
            fallback = [torch.nn.Parameter(torch.zeros(1, 1, dtype=dtype))]

            def run(
                where: str, params: Any = fallback if given.params is None else given.params, error: Any = error
            ) -> None:
                params, kwargs = moved((params, error.optimizer_error_input.kwargs), where)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    optimizer = optim_info.optim_cls(params, **kwargs)
                if error.error_on == OptimizerErrorEnum.STEP_ERROR:
                    optimizer.step()

            self.same_as_on_cpu(run, device)

    def check(
        self,
        info: OptimizerInfo,
        dtype: torch.dtype,
        device: str,
        cpu_flags: dict[str, bool],
        flags: dict[str, bool],
        **tolerances: float,
    ) -> None:
        """Compare parameters and states after some steps, in each configuration that PyTorch has for the CPU."""
        for given in info.optim_inputs_func("cpu"):

            def run(where: str, given: Any = given) -> Any:
                return train(info, (cpu_flags if where == "cpu" else flags) | given.kwargs, dtype, where)

            self.same_as_on_cpu(run, device, **tolerances)


def train(
    info: OptimizerInfo,
    kwargs: dict[str, Any],
    dtype: torch.dtype,
    device: str,
    sparse: bool = False,
    resumed: bool = False,
) -> list[Tensor]:
    """Return the parameters and the optimizer's state after some steps with gradients that change from step to step.

    Tensors of the state are returned on the device of the parameters: where the count of steps lives is the optimizer's own.
    """
    params = parameters(dtype, device)
    options = to_device(copy.deepcopy(kwargs), device)
    optimizer = info.optim_cls(params, **options)
    for step in range(STEPS):
        if resumed and step == STEPS // 2:
            saved = copy.deepcopy(optimizer.state_dict())
            optimizer = info.optim_cls(params, **options)
            optimizer.load_state_dict(saved)
        for p in params:
            grad = (slope(p) * (step + 1) / 4).to(p.device)
            p.grad = grad.to_sparse() if sparse else grad

        def closure() -> Tensor:
            return sum((p.detach().abs() ** 2).sum() for p in params)

        optimizer.step(closure) if info.step_requires_closure else optimizer.step()
    states = [x for p in params for x in optimizer.state[p].values() if isinstance(x, Tensor)]
    return [*(p.detach() for p in params), *(x.to(device) for x in states)]


def moved(tree: Any, device: str) -> Any:
    """Return nested tensors on a device, with their gradients; one that is in there twice stays one."""
    copies: dict[int, Tensor] = {}

    def move(x: Tensor) -> Tensor:
        if id(x) not in copies:
            copies[id(x)] = x.detach().to(device).requires_grad_(x.requires_grad)
            copies[id(x)].grad = None if x.grad is None else x.grad.to(device)
        return copies[id(x)]

    return tree_map_only(Tensor, move, tree)


def parameters(dtype: torch.dtype, device: str) -> list[torch.nn.Parameter]:
    """Return parameters of two sizes. They are matrices, because some optimizers take nothing else."""
    return [
        torch.nn.Parameter(torch.linspace(-1, 1, rows * 3).reshape(rows, 3).to(dtype).to(device)) for rows in (2, 5)
    ]


instantiate_device_type_tests(TestOptimizers, globals(), only_for="privateuse1")
mark_exceptions(globals())
