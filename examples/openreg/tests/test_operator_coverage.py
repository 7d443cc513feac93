"""``coverage()`` says how each operator runs; it must agree with the registration and with calls."""

import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from conftest import PROJECT
from test_operator_list import ALL
from torch import Tensor
from without_kernel import COUNTED

pytestmark = pytest.mark.needs("emulation")  # operators are said to be emulated, and are


@pytest.fixture
def operators(device_module: ModuleType) -> Iterator[ModuleType]:
    with device_module.operators.fallback_policy("emulate"):
        yield device_module.operators


def states(operators: ModuleType) -> dict[str, str]:
    return {name: told["state"] for name, told in operators.coverage().items()}


def test_every_overload_is_there_once(operators: ModuleType) -> None:
    known = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    told = operators.coverage()
    assert list(told) == sorted(known)
    assert {entry["state"] for entry in told.values()} <= set(operators.STATES)
    assert all(entry["reason"] for entry in told.values())


def test_every_operator_of_the_list_is_emulated(operators: ModuleType) -> None:
    told = states(operators)
    expected = {f"aten::{schema}": "emulated" for schema, _ in ALL}
    assert {name: told[name] for name in expected} == expected


# Some of each way to register. The files in csrc/aten/native are a vendor's own, so their names are not asked.
EXAMPLES = [
    ("aten::empty.memory_format", "native", r"registered at Factories\.cpp:\d+"),
    ("aten::_copy_from", "native", r"registered at Copy\.cpp:\d+"),
    ("aten::view", "native", r"registered at Views\.cpp:\d+"),
    ("aten::abs", "native", r"registered at .+:\d+"),
    ("aten::leaky_relu.out", "native", r"registered at .+:\d+"),
    ("aten::zero_", "native", r"registered at .+:\d+"),
    ("aten::native_dropout", "native", r"registered at .+:\d+"),
    ("aten::_nested_tensor_size", "native", r"registered at MultiPartFallback\.cpp:\d+"),
    ("aten::linalg_eig", "cpu", "always on the host"),
    ("aten::linalg_lstsq", "cpu", "always on the host"),
    ("aten::add.Tensor", "emulated", r"listed in operators\.def"),
    ("aten::linalg_qr", "emulated", "the CPU has a kernel for the whole, which PyTorch would take apart"),
    ("aten::nonzero", "emulated", "the fallback of the backend"),
    ("aten::nansum", "emulated", "called by a kernel of the device, but for complex numbers"),
    ("aten::_indices", "emulated", "the CPU's kernel for sparse tensors"),
    ("aten::crow_indices", "emulated", "the CPU's kernel for sparse compressed tensors"),
    ("aten::q_scale", "emulated", "the CPU's kernel for quantized tensors"),
    ("aten::convolution", "emulated", "called by a kernel of the device"),
    ("aten::convolution_overrideable", "emulated", "handed on to aten::convolution"),
    (
        "aten::_scaled_dot_product_fused_attention_overrideable_backward",
        "emulated",
        "handed on to aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    ),
    ("aten::fft_fft", "composite", "CompositeImplicitAutograd, in a wider type where it is of half precision"),
    ("aten::matmul", "composite", "CompositeImplicitAutograd"),
    ("aten::multilabel_margin_loss", "composite", "CompositeImplicitAutograd"),
    ("aten::_cudnn_rnn_flatten_weight", "none", "neither the device nor the CPU has a kernel"),
]


@pytest.mark.parametrize(("name", "state", "reason"), EXAMPLES, ids=[name for name, *_ in EXAMPLES])
def test_examples_have_their_state_and_reason(name: str, state: str, reason: str, operators: ModuleType) -> None:
    told = operators.coverage()[name]
    if state in ("emulated", "cpu") and told["state"] in ("native", "host body", "composite"):
        pytest.skip(f"the device has a kernel for {name} by now")
    assert told["state"] == state
    assert re.fullmatch(reason, told["reason"])


MARK = re.compile(r'\.impl\(\s*"([\w.]+)",\s*fallback::host(?:Body|Function)\(\s*"(?:\w+::)?([\w.]+)"')


def test_each_mark_of_a_host_body_names_its_operator() -> None:
    """The mark counts the calls under the name that it is given."""
    sources = [path.read_text(encoding="utf-8") for path in (PROJECT / "csrc").rglob("*.cpp")]
    marks = [names for text in sources for names in MARK.findall(text)]
    assert len(marks) == sum(len(re.findall(r"fallback::host(?:Body|Function)\(", text)) for text in sources)
    assert [(registered, named) for registered, named in marks if registered != named] == []


CALLS: list[tuple[str, Callable[[Tensor], Any]]] = [
    ("aten::add.Tensor", lambda x: x + x),
    ("aten::erfinv", torch.erfinv),
    ("aten::nonzero", torch.nonzero),
    ("aten::nansum", torch.nansum),
    ("aten::zero_", lambda x: x.clone().zero_()),
    ("aten::view", lambda x: x.view(-1)),
    ("aten::matmul", lambda x: x @ x),
    ("aten::linalg_eig", torch.linalg.eig),
    ("aten::convolution", lambda x: torch.conv1d(x[None, :1], x[None, :1])),
    (
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        lambda x: torch.nn.functional.scaled_dot_product_attention(*[x.expand(2, 2, 3, 3)] * 3),
    ),
]


@pytest.mark.parametrize(("name", "call"), CALLS, ids=[name for name, _ in CALLS])
def test_calls_run_as_coverage_says(
    name: str, call: Callable[[Tensor], Any], operators: ModuleType, device: str
) -> None:
    x = torch.eye(3, device=device)
    operators.reset_fallback_counts()
    call(x)
    told = states(operators)
    assert (name in operators.fallback_counts()) == (told[name] in COUNTED)
    assert all(told[counted] in COUNTED for counted in operators.fallback_counts())


@pytest.mark.parametrize(("policy", "state"), [("cpu", "cpu"), ("error", "none")])
def test_the_policy_changes_the_state_of_emulated_operators(policy: str, state: str, operators: ModuleType) -> None:
    emulated = states(operators)
    with operators.fallback_policy(policy):
        changed = states(operators)
    of_host_bodies = "none" if policy == "error" else "host body"
    others = {"emulated": state, "host body": of_host_bodies}
    assert changed == {name: others.get(before, before) for name, before in emulated.items()}
    assert "emulated" in emulated.values()


@pytest.mark.parametrize(("policy", "state"), [("cpu", "cpu"), ("error", "none"), ("emulate", "emulated")])
@pytest.mark.parametrize("name", ["aten::mul.Tensor", "aten::nonzero", "aten::_indices"])
def test_the_policy_of_one_operator_changes_its_state(
    name: str, policy: str, state: str, operators: ModuleType
) -> None:
    before = states(operators)
    if before[name] in ("native", "host body"):
        pytest.skip(f"the device has a kernel for {name} by now")
    assert operators.get_operator_policy(name) is None
    operators.set_operator_policy(name, policy)
    try:
        assert operators.get_operator_policy(name) == policy
        told = operators.coverage()
        assert {key: entry["state"] for key, entry in told.items()} == {**before, name: state}
        assert f"its own policy is {policy!r}" in told[name]["reason"]
        with operators.fallback_policy("error"):
            assert states(operators)[name] == state
    finally:
        operators.set_operator_policy(name, None)
    assert states(operators) == before


@pytest.mark.parametrize("name", ["aten::erfinv", "aten::mul.Tensor"])
def test_a_kernel_registered_later_is_native(name: str, operators: ModuleType) -> None:
    before = states(operators)
    library = torch.library.Library("aten", "IMPL")
    library.impl(name.removeprefix("aten::"), lambda *args: None, "PrivateUse1", allow_override=True)
    try:
        assert states(operators) == {**before, name: "native"}
    finally:
        library._destroy()
    assert states(operators) == before


def test_a_kernel_registered_later_runs_no_other_operator(operators: ModuleType) -> None:
    before = states(operators)
    if before["aten::convolution"] != "emulated":
        pytest.skip("the device has a kernel for convolution by now")
    library = torch.library.Library("aten", "IMPL")
    library.impl("convolution_overrideable", lambda *args: None, "PrivateUse1", allow_override=True)
    try:
        changed = {"aten::convolution_overrideable": "native", "aten::convolution": "composite"}
        assert states(operators) == {**before, **changed}
    finally:
        library._destroy()
    assert states(operators) == before


def test_a_policy_of_the_called_operator_changes_its_caller(operators: ModuleType) -> None:
    before = states(operators)
    if before["aten::convolution"] != "emulated":
        pytest.skip("the device has a kernel for convolution by now")
    operators.set_operator_policy("aten::convolution", "cpu")
    try:
        changed = {"aten::convolution_overrideable": "cpu", "aten::convolution": "cpu"}
        assert states(operators) == {**before, **changed}
    finally:
        operators.set_operator_policy("aten::convolution", None)
