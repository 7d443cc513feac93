"""PyTorch's guarantees for tensors on any device, compared with the CPU: factories, views, indices, out=, autograd."""

import copy
import re
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from abilities import EMULATE
from compare import check_same
from conftest import memory_in_use
from torch import Tensor, nn
from without_kernel import state

NUMBERS = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.complex128,
    torch.complex64,
    torch.complex32,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.bool,
]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
OTHER_DEVICE = "at least two devices|same device"


@pytest.fixture
def x(device: str) -> Tensor:
    """0 to 23 in float32, of shape (2, 3, 4)."""
    return torch.arange(24.0, device=device).view(2, 3, 4).clone()


def same(actual: Tensor, expected: Tensor) -> None:
    """Check that a device tensor has the values, the shape and the dtype of a CPU tensor."""
    assert actual.device.type != "cpu"
    torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0, equal_nan=True)


# Factories

FACTORIES: dict[str, Callable[..., Tensor]] = {
    "zeros": lambda **k: torch.zeros(2, 3, **k),
    "ones": lambda **k: torch.ones((2, 0, 3), **k),
    "full": lambda **k: torch.full((3,), 1, **k),
    "tensor": lambda **k: torch.tensor([[1, 0], [1, 1]], **k),
    "eye": lambda **k: torch.eye(3, 2, **k),
    "scalar_tensor": lambda **k: torch.scalar_tensor(1, **k),
    "asarray": lambda **k: torch.asarray([1, 0], **k),
    "new_zeros": lambda **k: torch.ones(1, device=k["device"]).new_zeros(2, dtype=k["dtype"]),
    "ones_like": lambda **k: torch.ones_like(torch.ones(3, 2), **k),
    "full_like": lambda **k: torch.full_like(torch.ones(3, 2).T, 1, **k),
}


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("factory", FACTORIES.values(), ids=FACTORIES)
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_factories_give_the_values_of_the_cpu(factory: Callable[..., Tensor], dtype: torch.dtype, device: str) -> None:
    try:
        theirs = factory(dtype=dtype, device="cpu")
    except NotImplementedError:
        if dtype != torch.complex32:  # without a wider type
            with pytest.raises(NotImplementedError):
                factory(dtype=dtype, device=device)
            return
        theirs = factory(dtype=torch.complex64, device="cpu").to(dtype)
    ours = factory(dtype=dtype, device=device)
    assert (ours.dtype, ours.stride(), ours.layout) == (dtype, theirs.stride(), torch.strided)
    assert ours.device == torch.device(device, 0)
    same(ours, theirs)


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_float8_keeps_its_values(dtype: torch.dtype, device: str) -> None:
    values = torch.tensor([0.0, 1.0, -2.0, 0.5])
    ours = values.to(device).to(dtype)
    assert ours.dtype == dtype
    assert torch.equal(ours.float().cpu(), values)
    assert ours[2].item() == -2


@pytest.mark.parametrize(
    "factory",
    [
        lambda **k: torch.arange(1, 10, 2, **k),
        lambda **k: torch.arange(0.5, 2, 0.25, **k),
        lambda **k: torch.linspace(-1, 1, 7, **k),
        lambda **k: torch.logspace(0, 2, 5, **k),
        lambda **k: torch.tril_indices(3, 4, 1, **k),
        lambda **k: torch.triu_indices(3, 4, -1, **k),
        lambda **k: torch.hann_window(9, **k),
        lambda **k: torch.complex(torch.ones(2, **k), torch.zeros(2, **k)),
        lambda **k: torch.vander(torch.arange(3, **k)),
        lambda **k: torch.cartesian_prod(torch.arange(2, **k), torch.arange(3, **k)),
    ],
)
def test_sequences_are_those_of_the_cpu(factory: Callable[..., Tensor], device: str) -> None:
    torch.testing.assert_close(factory(device=device).cpu(), factory(device="cpu"))


@pytest.mark.parametrize(
    ("shape", "memory_format"),
    [((2, 3, 4, 5), torch.channels_last), ((2, 3, 4, 5, 6), torch.channels_last_3d)],
)
def test_memory_formats_have_the_strides_of_the_cpu(
    shape: tuple[int, ...], memory_format: torch.memory_format, device: str
) -> None:
    ours = torch.empty(shape, device=device, memory_format=memory_format)
    theirs = torch.empty(shape, memory_format=memory_format)
    assert ours.stride() == theirs.stride()
    assert ours.is_contiguous(memory_format=memory_format)
    assert torch.empty_like(ours).stride() == theirs.stride()
    assert torch.zeros_like(ours, memory_format=torch.contiguous_format).is_contiguous()
    plain = torch.randn(shape, device=device)
    there = plain.to(memory_format=memory_format)
    assert there.stride() == theirs.stride()
    assert torch.equal(there.cpu(), plain.cpu())
    assert (there + plain).stride() == (theirs + plain.cpu()).stride()


def test_results_preserve_the_strides_of_their_input(x: Tensor) -> None:
    permuted = x.permute(2, 0, 1)
    for result in (torch.empty_like(permuted), permuted.clone(), permuted + 1, permuted.half()):
        assert result.stride() == permuted.stride()
    assert torch.empty_like(x.expand(5, 2, 3, 4)).is_contiguous()


def test_device_tensors_cannot_be_pinned(device: str) -> None:
    with pytest.raises(RuntimeError, match="pinned"):
        torch.empty(2, device=device, pin_memory=True)


def test_a_device_context_sets_the_default_device(device: str) -> None:
    with torch.device(device):
        assert torch.ones(2).device == torch.device(device, 0)
        assert nn.Linear(2, 2).weight.device.type == device
        assert torch.tensor([1.0]).device.type == device
        assert torch.ones(2, device="cpu").device.type == "cpu"
    assert torch.ones(2).device.type == "cpu"


# Views

VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "transpose": lambda x: x.transpose(0, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "movedim": lambda x: x.movedim(0, -1),
    "slice": lambda x: x[:, 1:, ::2],
    "select": lambda x: x[1],
    "select of select": lambda x: x[1][2],
    "narrow": lambda x: x.narrow(2, 1, 2),
    "view": lambda x: x.view(6, 4),
    "view as int32": lambda x: x.view(torch.int32),
    "view as uint8": lambda x: x.view(torch.uint8),
    "view as double": lambda x: x.view(torch.float64),
    "reshape": lambda x: x.reshape(4, 6),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "squeeze": lambda x: x[:1].squeeze(0),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "unfold": lambda x: x.unfold(2, 2, 1),
    "as_strided": lambda x: x.as_strided((3, 2), (1, 5), 4),
    "split": lambda x: x.split(2, 2)[1],
    "chunk": lambda x: x.chunk(3, 1)[2],
    "unbind": lambda x: x.unbind(1)[1],
    "tensor_split": lambda x: x.tensor_split([1, 2], 1)[1],
    "detach": lambda x: x.detach(),
    "mT": lambda x: x.mT,
    "expand": lambda x: x[:, :1].expand(2, 5, 4),
    "broadcast_to": lambda x: x.broadcast_to(2, 2, 3, 4),
    "view_as_complex": lambda x: torch.view_as_complex(x.view(2, 3, 2, 2)),
    "imag": lambda x: torch.view_as_complex(x.view(2, 3, 2, 2)).imag,
    "alias": lambda x: torch.ops.aten.alias(x),
    "view_as": lambda x: x.view_as(x),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_share_memory_as_on_the_cpu(view: Callable[[Tensor], Tensor], x: Tensor) -> None:
    ours, theirs = view(x), view(x.cpu())
    assert ours.data_ptr() - x.data_ptr() == theirs.storage_offset() * theirs.element_size()
    assert (ours.shape, ours.stride(), ours.storage_offset()) == (
        theirs.shape,
        theirs.stride(),
        theirs.storage_offset(),
    )
    assert ours._is_view() == theirs._is_view()
    assert ours._base is (x if theirs._is_view() else None)
    same(ours, theirs)
    same(ours.contiguous(), theirs.contiguous())


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_writes_through_views_reach_the_base(view: Callable[[Tensor], Tensor], x: Tensor) -> None:
    expected = x.cpu()
    for base in (x, expected):
        written = view(base)
        if 0 in written.stride():
            with pytest.raises(RuntimeError, match="single memory location"):
                written.add_(1)
        else:
            written.copy_(torch.full_like(written, 3))
            written.add_(1)
    same(x, expected)


def test_gradients_of_views_are_those_of_the_cpu(x: Tensor, device: str) -> None:
    for name, view in VIEWS.items():
        if name not in ("view as int32", "view as uint8", "view as double", "detach"):
            check_same(view, x.cpu().requires_grad_(), device=device)


def test_impossible_views_are_refused(x: Tensor) -> None:
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        x.mT.view(-1)
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        x.view(5, 5)
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        x.as_strided((25,), (1,))
    with pytest.raises(IndexError, match="out of range"):
        x.select(0, 2)


# Shapes and storages that change


def test_resize_keeps_the_elements_that_fit(x: Tensor) -> None:
    address = x.data_ptr()
    flat = x.view(-1)
    x.resize_(3, 2)
    same(x, torch.arange(6.0).view(3, 2))
    assert x.data_ptr() == address
    x.resize_(5, 10)
    assert x.is_contiguous()
    assert x.untyped_storage().nbytes() == 200
    same(x.view(-1)[:24], torch.arange(24.0))
    same(flat, torch.arange(24.0))
    x.resize_(1, 2, 3, 4, memory_format=torch.channels_last)
    assert x.is_contiguous(memory_format=torch.channels_last)
    x.resize_(0)
    assert x.numel() == 0
    x.resize_as_(torch.empty(2, 2))
    assert x.shape == (2, 2)


def test_resize_keeps_the_offset_of_a_view(x: Tensor) -> None:
    tail = x.view(-1)[20:]
    tail.resize_(8).fill_(1)
    assert tail.storage_offset() == 20
    same(x.view(-1)[18:], torch.tensor([18.0, 19, 1, 1, 1, 1]))


def test_resize_refuses_what_the_cpu_refuses(device: str) -> None:
    x = torch.ones(2, device=device, requires_grad=True)
    with pytest.raises(RuntimeError, match="grad"):
        x.resize_(3)
    with pytest.raises(RuntimeError):
        torch.ones(2, device=device).resize_(-1)


def test_set_shares_the_storage(x: Tensor, device: str) -> None:
    y = torch.empty(0, device=device)
    y.set_(x)  # type: ignore[call-overload]
    assert y.data_ptr() == x.data_ptr()
    same(y, x.cpu())
    y.set_(x.untyped_storage(), 4, (2, 2), (8, 1))
    same(y, torch.tensor([[4.0, 5], [12, 13]]))
    y.set_(x.untyped_storage())
    assert y.numel() == 24
    y.set_()  # type: ignore[call-overload]
    assert y.numel() == 0
    with pytest.raises(RuntimeError):
        torch.empty(0).set_(x.untyped_storage())


def test_set_grows_a_storage_that_is_too_small(x: Tensor, device: str) -> None:
    torch.empty(0, device=device).set_(x.untyped_storage(), 20, (8,), (1,))
    assert x.untyped_storage().nbytes() == 28 * 4
    same(x, torch.arange(24.0).view(2, 3, 4))


OUT_OF_BOUNDS: dict[str, Callable[[Tensor], Any]] = {
    "negative stride": lambda x: torch.empty(0, device=x.device).set_(x.untyped_storage(), 0, (3,), (-1,)),
    "negative stride and offset": lambda x: torch.empty(0, device=x.device).set_(x, 5, (3,), (-1,)),
    "negative stride, two elements": lambda x: torch.empty(0, device=x.device).set_(x, 5, (2,), (-1,)),
    "negative stride in less memory": lambda x: x.set_(torch.ones(3, device=x.device), 0, (3,), (-1,)),
    "negative size": lambda x: torch.empty(0, device=x.device).set_(x.untyped_storage(), 0, (-3,), (1,)),
    "negative offset": lambda x: torch.empty(0, device=x.device).set_(x.untyped_storage(), -1, (3,), (1,)),
    "fewer strides": lambda x: torch.empty(0, device=x.device).set_(x.untyped_storage(), 0, (3, 2), (1,)),
    "strides overflow": lambda x: torch.empty(0, device=x.device).set_(x, 0, (3, 2**62), (2**40, 2)),
    "offset overflows": lambda x: torch.empty(0, device=x.device).set_(x, 2**62, (3,), (1,)),
    "offset of the same shape": lambda x: x.set_(x.untyped_storage(), 20, x.shape, x.stride()),
    "as_strided, negative stride": lambda x: x.as_strided((3,), (-1,), 5),
    "as_strided_, negative stride": lambda x: x.as_strided_((3,), (-1,), 5),
    "as_strided, negative offset": lambda x: x.as_strided((3,), (1,), -5),
    "as_strided, offset": lambda x: x.as_strided((3,), (1,), 22),
    "as_strided, overflow": lambda x: x.as_strided((3, 2**62), (2**40, 2)),
    "empty_strided, negative stride": lambda x: torch.empty_strided((3,), (-1,), device=x.device),
    "resize_, overflow": lambda x: x.resize_(2**62, 4),
}


@pytest.mark.parametrize("action", OUT_OF_BOUNDS.values(), ids=OUT_OF_BOUNDS)
def test_shapes_that_no_storage_holds_are_refused(action: Callable[[Tensor], Any], x: Tensor) -> None:
    before = x.shape, x.stride(), x.data_ptr(), x.untyped_storage().nbytes()
    with pytest.raises(RuntimeError) as ours:
        action(x)
    with pytest.raises(RuntimeError) as theirs:
        action(torch.arange(24.0).view(2, 3, 4))  # a copy, because core's own set_ changes the tensor before it raises
    assert ("stride" in str(ours.value)) >= ("stride" in str(theirs.value)), ours.value
    del ours, theirs  # which keep this frame, and so its tensors
    assert (x.shape, x.stride(), x.data_ptr(), x.untyped_storage().nbytes()) == before
    same(x, torch.arange(24.0).view(2, 3, 4))


def test_set_without_elements_does_not_grow(x: Tensor, device: str) -> None:
    y = torch.empty(0, device=device).set_(x.untyped_storage(), 100, (0,), (1,))
    z = x.view(-1)[20:].resize_(0)
    assert (y.storage_offset(), z.shape, x.untyped_storage().nbytes()) == (100, (0,), 96)


# Memory that nobody has written, with torch.use_deterministic_algorithms

UNWRITTEN: dict[str, Callable[[str, torch.dtype], Tensor]] = {
    "empty": lambda d, t: torch.empty(2, 3, device=d, dtype=t),
    "empty, channels last": lambda d, t: torch.empty(1, 2, 2, 2, device=d, dtype=t, memory_format=torch.channels_last),
    "empty_strided": lambda d, t: torch.empty_strided((2, 3), (1, 2), device=d, dtype=t),
    "empty_like": lambda d, t: torch.empty_like(torch.ones(3, 2, device=d).to(t).t()),
    "empty_permuted": lambda d, t: torch.empty_permuted((2, 3), (1, 0), device=d, dtype=t),
    "new_empty": lambda d, t: torch.ones(1, device=d).new_empty(5, dtype=t),
    "new_empty_strided": lambda d, t: torch.ones(1, device=d).new_empty_strided((2, 2), (2, 1), dtype=t),
    "resize_": lambda d, t: torch.ones(3, device=d).to(t).resize_(7),
    "resize_ of a part": lambda d, t: torch.ones(4, device=d).to(t)[2:].resize_(5),
    "resize_ to fewer": lambda d, t: torch.ones(4, device=d).to(t).resize_(2),
    "resize_as_": lambda d, t: torch.ones(3, device=d).to(t).resize_as_(torch.ones(2, 4, device=d)),
    "nothing": lambda d, t: torch.empty(0, 3, device=d, dtype=t),
}


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("policy", [EMULATE, "cpu"])
@pytest.mark.parametrize("make", UNWRITTEN.values(), ids=UNWRITTEN)
def test_unwritten_memory_is_filled(
    make: Callable[[str, torch.dtype], Tensor], policy: str, device: str, device_module: ModuleType
) -> None:
    torch.empty(4096, device=device).fill_(3)  # what the cache hands out next holds something
    torch.use_deterministic_algorithms(True)
    try:
        with device_module.operators.fallback_policy(policy):
            for dtype in NUMBERS + FLOAT8:
                try:
                    expected = make("cpu", dtype)
                except (RuntimeError, NotImplementedError):
                    continue  # core fills no such dtype
                actual = make(device, dtype)
                assert actual.stride() == expected.stride()
                bits = [t.cpu().contiguous().view(-1).view(torch.uint8).tolist() for t in (actual, expected)]
                assert bits[0] == bits[1], (dtype, actual)
    finally:
        torch.use_deterministic_algorithms(False)


def test_unwritten_memory_is_left_alone_on_request(device: str) -> None:
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        x = torch.empty(1000, device=device).zero_()
        address = x.data_ptr()
        del x
        y = torch.empty(1000, device=device)
        assert y.data_ptr() == address  # so that this test says something
        same(y, torch.zeros(1000))
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(False)


def test_data_of_a_parameter_can_be_replaced(device: str) -> None:
    parameter = nn.Parameter(torch.zeros(2, device=device))
    parameter.data = torch.ones(3, device=device)
    same(parameter.detach(), torch.ones(3))


def test_swap_tensors_exchanges_the_content(device: str) -> None:
    x, y = torch.zeros(2, device=device), torch.ones(3, device=device)
    torch.utils.swap_tensors(x, y)
    same(x, torch.ones(3))
    same(y, torch.zeros(2))


# Reading out


def printed(tensor: Tensor) -> str:
    """Return the printed text without the device's name, and without the line breaks, which depend on its length."""
    return " ".join(re.sub(r",\s*device='\w+:\d+'", "", repr(tensor)).split())


@pytest.mark.parametrize("dtype", NUMBERS + FLOAT8, ids=str)
@pytest.mark.parametrize("values", [[], [[]], 1, [0, 1], [[1, 0], [0, 1]]], ids=str)
def test_printed_tensors_look_as_on_the_cpu(dtype: torch.dtype, values: Any, device: str) -> None:
    expected = torch.tensor(values).to(dtype)
    there = expected.to(device)
    assert f"device='{device}:0'" in repr(there)
    assert printed(there) == printed(expected)


@pytest.mark.parametrize(
    "expected",
    [
        torch.tensor([0.1, 1e8, -3.0]),
        torch.tensor([float("nan"), float("inf"), -1.0], dtype=torch.float64),
        torch.arange(3000).view(60, 50),
        torch.tensor([1.5 - 2j, 1e-3j]),
        torch.arange(4.0).expand(2, 4),
    ],
)
def test_printed_values_look_as_on_the_cpu(expected: Tensor, device: str) -> None:
    assert printed(expected.to(device)) == printed(expected)


def test_printing_shows_gradients_parameters_and_lazy_bits(device: str) -> None:
    x = torch.ones(2, device=device, requires_grad=True)
    assert "requires_grad=True" in repr(x)
    assert "grad_fn=<MulBackward0>" in repr(x * 2)
    assert "Parameter containing" in repr(nn.Parameter(x))
    assert repr(torch.tensor([1 + 1j], device=device).conj()).startswith("tensor([1.-1.j]")


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_item_and_tolist_give_the_values_of_the_cpu(dtype: torch.dtype, device: str) -> None:
    expected = torch.tensor([0, 1, 1]).to(dtype)
    there = expected.to(device)
    assert there.tolist() == expected.tolist()
    assert there[1].item() == expected[1].item()
    assert type(there[1].item()) is type(expected[1].item())
    assert bool(there[2]) is True
    assert bool(there[0]) is False
    assert complex(there[1]) == 1
    if not dtype.is_complex:
        assert (int(there[1]), float(there[1])) == (1, 1.0)


def test_a_tensor_of_several_elements_is_no_number(x: Tensor, device: str) -> None:
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        x.item()
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(x)
    with pytest.raises(RuntimeError):
        torch.empty(0, device=device).item()
    with pytest.raises(TypeError, match=re.escape("Tensor.cpu()")):
        x.numpy()
    assert [10, 20, 30][torch.tensor(1, device=device)] == 20
    assert len(x) == 2
    assert [row.shape for row in x] == [(3, 4), (3, 4)]
    assert 5.0 in x
    assert x.cpu().numpy().shape == (2, 3, 4)


# Indices

HOST_INDICES: list[Any] = [
    (torch.tensor([1, 0, 1]),),
    (slice(None), torch.tensor([2, 0])),
    (torch.tensor([[0], [1]]), torch.tensor([0, 2])),
    (slice(None), torch.tensor([0, 1]), torch.tensor([1, 3])),
    (torch.tensor([0, 1]), slice(1, None), torch.tensor([1, 3])),
    (..., torch.tensor([-1, 0])),
    (None, torch.tensor([1])),
    (torch.tensor([True, False]),),
    (slice(None), torch.tensor([True, False, True])),
    (torch.arange(24).view(2, 3, 4) % 3 == 0,),
    (torch.tensor([], dtype=torch.int64),),
    (torch.tensor(1), torch.tensor([0, 1], dtype=torch.int32)),
    ([0, 1], [2, 0]),
    (1, torch.tensor([1, 2])),
]


def there(indices: Any, device: str) -> Any:
    return tuple(i.to(device) if isinstance(i, Tensor) else i for i in indices)


@pytest.mark.parametrize("indices", HOST_INDICES, ids=lambda i: str(i).replace("\n", ""))
def test_indexing_gives_the_values_of_the_cpu(indices: Any, x: Tensor, device: str) -> None:
    expected = x.cpu()[indices]
    same(x[indices], expected)
    same(x[there(indices, device)], expected)
    check_same(lambda x, *i: x[i], x.cpu().requires_grad_(), *indices, device=device)


@pytest.mark.parametrize("indices", HOST_INDICES, ids=lambda i: str(i).replace("\n", ""))
def test_assignment_writes_only_the_indexed_elements(indices: Any, x: Tensor, device: str) -> None:
    for value in (7.0, torch.tensor(8.0), torch.tensor(9.0, device=device)):
        expected = x.cpu()
        expected[indices] = value if isinstance(value, float) else value.cpu()
        for form in (indices, there(indices, device)):
            written = x.clone()
            written[form] = value
            same(written, expected)
    expected = x.cpu()
    values = torch.arange(float(expected[indices].numel())).view(expected[indices].shape)
    expected[indices] = values
    x[indices] = values.to(device)
    same(x, expected)


def test_assignment_to_slices_takes_cpu_values(x: Tensor) -> None:
    with pytest.raises(RuntimeError):
        x[torch.tensor([0, 1])] = torch.ones(2, 3, 4)
    x[0] = torch.ones(3, 4)
    x[1, :, ::2] = torch.zeros(2)
    expected = torch.arange(24.0).view(2, 3, 4)
    expected[0], expected[1, :, ::2] = 1, 0
    same(x, expected)


def test_repeated_indices_accumulate(device: str) -> None:
    indices = torch.tensor([0, 1, 1, 3, 1], device=device)
    x = torch.zeros(4, device=device)
    x.index_put_((indices,), torch.ones(5, device=device), accumulate=True)
    same(x, torch.tensor([1.0, 3, 0, 1]))
    x.index_add_(0, indices, torch.arange(5.0, device=device), alpha=2)
    same(x, torch.tensor([1.0, 17, 0, 7]))


def test_indices_out_of_range_are_refused(x: Tensor, device: str) -> None:
    for indices in (torch.tensor([0, 5]), torch.tensor([-3])):
        for index in (indices, indices.to(device)):
            with pytest.raises(IndexError, match="out of bounds"):
                x[index]
            with pytest.raises(IndexError, match="out of bounds"):
                x.clone()[index] = 0.0
    with pytest.raises(IndexError, match="out of bounds"):
        x[2]
    with pytest.raises(IndexError, match="shape of the mask"):
        x[torch.ones(3, dtype=torch.bool, device=device)]
    with pytest.raises(IndexError):
        torch.index_select(x, 0, torch.tensor([2], device=device))
    same(x, torch.arange(24.0).view(2, 3, 4))


# Tensors of several places

PAIRS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "add": lambda x, y: x + y,
    "add swapped": lambda x, y: y + x,
    "in place": lambda x, y: x.mul_(y),
    "in place, other way": lambda x, y: y.mul_(x),
    "matmul": lambda x, y: x @ y,
    "addmm": lambda x, y: torch.addmm(x, x, y),
    "linear": lambda x, y: nn.functional.linear(x, y),
    "cat": lambda x, y: torch.cat([x, y]),
    "stack": lambda x, y: torch.stack([x, y]),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "comparison": lambda x, y: x < y,
    "index_select": lambda x, y: x.index_select(0, y.long()[0]),
    "gather": lambda x, y: x.gather(0, y.long()),
    "mse_loss": lambda x, y: nn.functional.mse_loss(x, y),
    "convolution": lambda x, y: nn.functional.conv2d(x.view(1, 1, 2, 2), y.view(1, 1, 2, 2)),
    "attention": lambda x, y: nn.functional.scaled_dot_product_attention(x[None, None], y[None, None], x[None, None]),
    "layer_norm": lambda x, y: nn.functional.layer_norm(x, (2,), y[0]),
    "foreach": lambda x, y: torch._foreach_add([x, x], [x, y]),
    "out": lambda x, y: torch.add(x, x, out=y),
    "boxed": lambda x, y: torch.linalg.solve(x + torch.eye(2, device=x.device), y),
    "bool mask": lambda x, y: x.masked_fill(y > 0, 0.0),
}


@pytest.mark.parametrize("function", PAIRS.values(), ids=PAIRS)
def test_two_devices_are_refused(
    function: Callable[[Tensor, Tensor], Any],
    device: str,
    second_device: torch.device,
) -> None:
    x, y = torch.ones(2, 2, device=device), torch.ones(2, 2, device=second_device)
    with pytest.raises(RuntimeError, match=OTHER_DEVICE) as caught:
        function(x, y)
    assert f"{device}:0" in str(caught.value)
    assert f"{device}:1" in str(caught.value)
    same(x, torch.ones(2, 2))
    same(y, torch.ones(2, 2))


@pytest.mark.parametrize("function", PAIRS.values(), ids=PAIRS)
def test_host_tensors_are_refused(function: Callable[[Tensor, Tensor], Any], device: str) -> None:
    x, y = torch.ones(2, 2, device=device), torch.ones(2, 2)
    with pytest.raises(RuntimeError, match=f"{OTHER_DEVICE}|device type") as caught:
        function(x, y)
    assert "cpu" in str(caught.value)
    same(x, torch.ones(2, 2))
    assert torch.equal(y, torch.ones(2, 2))


def test_cpu_tensors_of_one_number_are_operands(x: Tensor, device: str) -> None:
    two = torch.tensor(2.0, dtype=torch.float64)
    expected = x.cpu()
    same(x + two, expected + 2)
    same(two * x, expected * 2)
    same(x.clone().mul_(two), expected * 2)
    if state("aten::clamp.Tensor") in ("emulated", "cpu"):  # PyTorch's own devices refuse it, as other kernels may
        same(x.clamp(max=two), expected.clamp(max=2))
    same(torch.where(x > two, x, two.float()), torch.where(expected > 2, expected, 2.0))
    same(x.masked_fill(x > 1, two), expected.masked_fill(expected > 1, 2))
    same(x.clone().fill_(two), torch.full_like(expected, 2))
    assert (x + two).dtype == torch.float32
    same(x.long() + two, expected.long() + two)
    with pytest.raises(RuntimeError):
        torch.ones(2) + torch.tensor(2.0, device=device)
    assert (torch.tensor(2.0) + torch.tensor(3.0, device=device)).device.type == device


def test_a_gradient_stays_on_the_second_device(second_device: torch.device) -> None:
    x = torch.arange(4.0, device=second_device, requires_grad=True)
    y = (x[x > 1] * 2).sum()
    y.backward()
    assert x.grad is not None
    assert (y.device, x.grad.device) == (second_device, second_device)
    assert x.grad.tolist() == [0, 0, 2, 2]


def test_gradients_flow_across_devices(device: str, second_device: torch.device) -> None:
    x = torch.arange(4.0, device=device, requires_grad=True)
    (x.to(second_device).exp().cpu().to(device) * x).sum().backward()
    expected = torch.arange(4.0, requires_grad=True)
    (expected.exp() * expected).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), expected.grad)


# Outputs that the caller gives


def test_an_empty_out_is_resized(x: Tensor, device: str) -> None:
    out = torch.empty(0, device=device)
    assert torch.add(x, 1, out=out) is out
    same(out, torch.arange(1.0, 25).view(2, 3, 4))
    values, indices = torch.empty(0, device=device), torch.empty(0, dtype=torch.int64, device=device)
    torch.sort(-x, out=(values, indices))
    same(values, torch.sort(-x.cpu()).values)
    same(indices, torch.sort(-x.cpu()).indices)
    inverse = torch.empty(0, device=device)
    torch.linalg.inv(torch.eye(3, device=device) * 2, out=inverse)
    same(inverse, torch.eye(3) / 2)


def test_out_of_another_size_warns(x: Tensor, device: str) -> None:
    functions: list[Callable[[Tensor], Tensor]] = [
        lambda out: torch.mul(x, 2, out=out),
        lambda out: torch.abs(x, out=out),
    ]
    for function in functions:
        out = torch.empty(7, device=device)
        with pytest.warns(UserWarning, match="resized"):
            function(out)
        assert out.shape == x.shape


def test_a_strided_out_keeps_its_strides(x: Tensor, device: str) -> None:
    whole = torch.zeros(4, 3, 4, device=device)
    torch.mul(x, 2, out=whole.permute(2, 1, 0)[:, :, ::2].permute(2, 1, 0))
    same(whole[::2], x.cpu() * 2)
    assert not whole[1::2].any()
    column = torch.zeros(3, 2, device=device)
    torch.mm(torch.eye(3, device=device), torch.ones(3, 1, device=device), out=column[:, 1:])
    same(column, torch.tensor([[0.0, 1]]).expand(3, 2))


def test_out_casts_where_the_dtype_can_be_cast(x: Tensor, device: str) -> None:
    out = torch.empty(0, dtype=torch.float64, device=device)
    torch.add(x, x, out=out)
    same(out, (x.cpu() * 2).double())
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(x, x, out=torch.empty(0, dtype=torch.int64, device=device))


def test_out_may_be_an_input(x: Tensor) -> None:
    address = x.data_ptr()
    expected = x.cpu()
    torch.add(x, x, out=x)
    same(x, expected * 2)
    torch.abs(x, out=x)
    torch.sqrt(x, out=x)
    same(x, (expected * 2).sqrt())
    assert x.data_ptr() == address


def test_overlapping_operands_are_refused(x: Tensor, device: str) -> None:
    flat = x.view(-1)
    with pytest.raises(RuntimeError, match="unsupported operation"):
        flat[1:].add_(flat[:-1])
    with pytest.raises(RuntimeError, match="unsupported operation"):
        torch.gather(flat, 0, torch.zeros(24, dtype=torch.int64, device=device), out=flat)
    with pytest.raises(RuntimeError, match="unsupported operation"):
        torch.ones(1, device=device).expand(3).mul_(2)
    same(x, torch.arange(24.0).view(2, 3, 4))


def test_in_place_operators_write_strided_tensors(x: Tensor) -> None:
    expected = x.cpu()
    for t in (x, expected):
        t[:, ::2].add_(1)
        t.mT.mul_(2)
        t[..., 1].exp_()
        t.diagonal(0, 1, 2).zero_()
        t[1].copy_(t[0].clone().flip(0))
        t.clamp_(max=30).sub_(t[0, 0, 1].clone())
        t[0].masked_fill_(t[1] > 3, -1)
        t.transpose(0, 1).contiguous().fill_(99)
        t.permute(2, 1, 0).cumsum_(0)
    torch.testing.assert_close(x.cpu(), expected)


def test_in_place_returns_its_tensor(x: Tensor) -> None:
    operations: list[Callable[[], Tensor]] = [
        lambda: x.add_(1),
        lambda: x.zero_(),
        lambda: x.abs_(),
        lambda: x.copy_(torch.ones(4)),
        lambda: x.tril_(),
        lambda: x.index_fill_(0, torch.tensor([0], device=x.device), 1),
        lambda: x.normal_(),
        lambda: x.to(x.device),
        lambda: x.contiguous(),
        lambda: x.requires_grad_(False),
    ]
    for operation in operations:
        assert operation() is x


# Conjugated, negated and zero tensors


def test_conjugation_is_lazy(device: str) -> None:
    z = torch.randn(3, 3, dtype=torch.complex64)
    there = z.to(device)
    assert there.conj().is_conj()
    assert there.conj().data_ptr() == there.data_ptr()
    assert there.conj().imag.is_neg()
    check_same(
        lambda z: [
            z.conj().resolve_conj(),
            z.conj() @ z.mH,
            z.conj().imag * 2,
            z.conj().imag.resolve_neg(),
            z.conj().abs(),
            z.conj().sum(0),
            torch.linalg.inv(z.conj()),
            torch.cat([z, z.conj()]),
            z.conj()[1, 0],
            z.conj().clone(),
            -z.conj().real,
        ],
        z.requires_grad_(),
        device=device,
    )
    assert there.conj()[0, 0].item() == there[0, 0].item().conjugate()


def test_writes_through_lazy_bits_are_those_of_the_cpu(device: str) -> None:
    results = []
    for place in ("cpu", device):
        z = torch.ones(4, dtype=torch.complex64, device=place) * (1 + 2j)
        z.conj().mul_(1j)
        z.conj().imag.add_(3)
        z[1:].conj().copy_(torch.full((3,), 5 - 1j, device=place))
        torch._neg_view(z[:2]).zero_()
        torch.mul(z, 2, out=z.conj())
        results.append(z.cpu())
    assert torch.equal(results[0], results[1])


def test_zero_tensors_take_no_memory(device: str, device_module: ModuleType) -> None:
    before = memory_in_use()
    zero = torch._efficientzerotensor((1000, 1000), device=device)
    assert zero._is_zerotensor()
    assert zero.device == torch.device(device, 0)
    assert device_module.memory_allocated() == before
    x = torch.ones(1000, 1000, device=device)
    same(zero + x, torch.ones(1000, 1000))
    assert (zero * x)._is_zerotensor()
    same(zero.clone(), torch.zeros(1000, 1000))
    with pytest.raises(RuntimeError, match="immutable"):
        zero.add_(1)


# Autograd

WRITES: dict[str, Callable[[Tensor], Any]] = {
    "add_": lambda x: x.add_(1),
    "mul_ of a view": lambda x: x[0].mul_(2),
    "zero_": lambda x: x.zero_(),
    "abs_": lambda x: x.abs_(),
    "leaky_relu_": lambda x: nn.functional.leaky_relu_(x),
    "fill_": lambda x: x.fill_(3),
    "copy_": lambda x: x.copy_(torch.ones(4)),
    "set item": lambda x: x.__setitem__(0, 1.0),
    "index_put_": lambda x: x.index_put_((torch.tensor([0]),), torch.tensor(1.0)),
    "masked_fill_": lambda x: x.masked_fill_(x > 1, 0),
    "out": lambda x: torch.exp(x.clone(), out=x),
    "boxed out": lambda x: torch.erfinv(x.clone(), out=x),
    "normal_": lambda x: x.normal_(),
    "foreach": lambda x: torch._foreach_add_([x], 1),
    "boxed in place": lambda x: x.erfinv_(),
    "resize_": lambda x: x.resize_(2, 2),
    "nothing": lambda x: x.add(1),
    "detached": lambda x: x.detach().add_(1),
    "data": lambda x: x.data.add_(1),
    "batch norm": lambda x: nn.functional.batch_norm(
        torch.ones(2, 4, device=x.device), x[0], x[1].abs(), training=True
    ),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_version_counts_are_those_of_the_cpu(write: Callable[[Tensor], Any], device: str) -> None:
    versions = []
    for place in ("cpu", device):
        x = torch.rand(2, 4, device=place)
        write(x)
        versions.append(x._version)
    assert versions[0] == versions[1]


@pytest.mark.parametrize(
    "write", [v for k, v in WRITES.items() if k not in ("resize_", "nothing", "data", "batch norm")]
)
def test_writing_what_backward_needs_is_noticed(write: Callable[[Tensor], Any], device: str) -> None:
    saved = torch.rand(2, 4, device=device)
    result = (torch.ones(2, 4, device=device, requires_grad=True) * saved).sum()
    write(saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


def test_writing_a_leaf_is_refused(device: str) -> None:
    x = torch.ones(2, device=device, requires_grad=True)
    writes: list[Callable[[], Tensor]] = [lambda: x.add_(1), lambda: x.zero_(), lambda: x[0].mul_(2)]
    for write in writes:
        with pytest.raises(RuntimeError, match="leaf"):
            write()
    with torch.no_grad():
        x.add_(1)
    same(x.detach(), torch.full((2,), 2.0))


def test_inference_mode_makes_inference_tensors(device: str) -> None:
    parameter = torch.ones(3, device=device, requires_grad=True)
    with torch.inference_mode():
        x = torch.arange(3.0, device=device)
        for result in (
            x + parameter,
            x.exp(),
            x[1:],
            x.view(3, 1),
            x.abs(),
            torch.erfinv(x),
            x.cpu().to(device),
            torch.nn.functional.softmax(x, 0),
            *torch.sort(x),
        ):
            assert result.is_inference()
            assert not result.requires_grad
        x.add_(1).abs_().erfinv_()
        x[1:].zero_()
        x.copy_(torch.arange(3.0))
        plain_view = parameter[:2]
        assert not plain_view.is_inference()
    same(x + 1, torch.arange(1.0, 4))
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        parameter * x
    with pytest.raises(RuntimeError, match="[Ii]n-?place"):
        x.add_(1)
    check_same(lambda p, x: p * x.clone(), torch.ones(3, requires_grad=True), torch.arange(3.0), device=device)


def test_second_derivatives_are_those_of_the_cpu(device: str) -> None:
    def second(x: Tensor) -> Tensor:
        (first,) = torch.autograd.grad((x.exp() * x.sin()).sum(), x, create_graph=True)
        return first

    x = torch.linspace(-1, 1, 5, dtype=torch.float64)
    check_same(second, x.clone().requires_grad_(), device=device)
    there = x.to(device).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: x.exp() * x.sin(), there)
    assert torch.autograd.gradgradcheck(lambda x: x.exp() * x.sin(), there)


def test_function_transforms_give_the_values_of_the_cpu(device: str) -> None:
    def loss(w: Tensor, x: Tensor) -> Tensor:
        return ((x @ w).tanh() ** 2).sum()

    def all_of_them(w: Tensor, x: Tensor) -> list[Tensor]:
        return [
            torch.vmap(loss, (None, 0))(w, x),
            torch.func.grad(loss)(w, x[0]),
            torch.func.hessian(loss)(w, x[0]),
            torch.func.jvp(loss, (w, x[0]), (torch.ones_like(w), x[0]))[1],
            torch.vmap(torch.func.grad(loss), (None, 0))(w, x),
        ]

    check_same(all_of_them, torch.randn(3), torch.randn(4, 2, 3), device=device)


def test_a_checkpointed_layer_has_the_same_gradients(device: str) -> None:
    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU())

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Any:
            return torch.utils.checkpoint.checkpoint(self.layer, x, use_reentrant=False)

    check_same(Checkpointed(), torch.randn(3, 4, requires_grad=True), device=device)


def test_gradients_accumulate_and_hooks_see_them(device: str) -> None:
    seen = []
    x = torch.ones(2, device=device, requires_grad=True)
    x.register_hook(lambda grad: seen.append(grad.device.type))
    for _ in range(2):
        (x * 3).sum().backward()
    assert seen == [device, device]
    assert x.grad is not None
    same(x.grad, torch.full((2,), 6.0))


# Copies of objects


def test_deepcopy_keeps_gradient_and_sharing(device: str) -> None:
    x = torch.arange(4.0, device=device, requires_grad=True)
    x.grad = torch.ones(4, device=device)
    y = copy.deepcopy(x)
    assert y.data_ptr() != x.data_ptr()
    assert y.requires_grad
    assert y.grad is not None
    same(y.detach(), torch.arange(4.0))
    same(y.grad, torch.ones(4))
    base = torch.arange(6.0, device=device)
    base_copy, view_copy = copy.deepcopy([base, base[2:4]])
    view_copy.fill_(9)
    same(base_copy, torch.tensor([0.0, 1, 9, 9, 4, 5]))
    same(base, torch.arange(6.0))
    assert copy.copy(base).data_ptr() == base.data_ptr()


def test_deepcopy_of_a_module_keeps_shared_tensors(device: str) -> None:
    first, second = nn.Linear(2, 2), nn.BatchNorm1d(2)
    model = nn.Sequential(first, second).to(device)
    first.bias = second.weight
    twin = copy.deepcopy(model)
    for ours, theirs in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        assert ours.data_ptr() != theirs.data_ptr()
        same(theirs, ours.cpu())
    assert twin[0].bias is twin[1].weight


def test_no_operator_warns(device: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.randn(4, 4, device=device, requires_grad=True)
        torch.nn.functional.layer_norm(x @ x, (4,)).softmax(-1).sum().backward()
        torch.linalg.qr(x.detach())


def test_in_place_operators_work_that_pytorch_composes_for_its_own_devices(device: str) -> None:
    x = torch.tensor([[1 + 2j, 3 - 4j]])
    same(x.to(device).conj_physical_(), x.conj_physical())
    same(torch.ones(2, device=device).conj_physical_(), torch.ones(2))
    column, row = torch.arange(3.0), torch.arange(4.0)
    y = torch.ones(3, 4)
    same(
        y.to(device).addr_(column.to(device), row.to(device), beta=2, alpha=0.5),
        torch.addr(y, column, row, beta=2, alpha=0.5),
    )


@pytest.mark.parametrize("shape", [(), (3,), (1, 4)])
def test_an_outer_product_does_not_grow_the_tensor_that_it_is_added_to(shape: tuple[int, ...], device: str) -> None:
    x = torch.ones(shape, device=device)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        x.addr_(torch.ones(3, device=device), torch.ones(4, device=device))
    same(x, torch.ones(shape))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_gradients_of_mish_are_those_of_the_whole_kernel(dtype: torch.dtype, device: str) -> None:
    x = torch.linspace(-4, 4, 40).to(dtype).requires_grad_()
    check_same(torch.nn.functional.mish, x, device=device, rtol=0, atol=0)
