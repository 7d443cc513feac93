"""copy_ between every two kinds of memory, for every layout, dtype and lazy view; and which copies the host waits for."""

import time
from collections.abc import Callable
from itertools import product

import pytest
import torch
from abilities import has, skip_without
from busy import MiB, needs_queues, occupy
from conftest import DEVICE, MODULE
from torch import Tensor
from torch.testing import make_tensor

PLACES = ["pageable", "pinned", "device", "other device"]
if MODULE.device_count() < 2:
    PLACES.pop()
if not has("pinned_memory"):
    PLACES.remove("pinned")
PAIRS = [pair for pair in product(PLACES, PLACES) if {"device", "other device"} & set(pair)]


def put(x: Tensor, place: str) -> Tensor:
    """Return `x` in memory of this kind. The whole storage moves; strides and lazy bits stay."""
    whole = x.untyped_storage()
    flat = torch.empty(0, dtype=x.dtype).set_(whole)
    if place == "pinned":
        moved = flat.pin_memory()
    elif place == "pageable":
        moved = flat.clone()
    else:
        moved = flat.to(torch.device(DEVICE, 1 if place == "other device" else 0))
    view = moved.as_strided(x.size(), x.stride(), x.storage_offset())
    view = view.conj() if x.is_conj() else view
    return view._neg_view() if x.is_neg() else view


LAYOUTS: dict[str, Callable[[torch.dtype], Tensor]] = {
    "contiguous": lambda dtype: values(4, 6, 5, dtype=dtype),
    "offset": lambda dtype: values(5, 6, 5, dtype=dtype)[1:],
    "strided": lambda dtype: values(4, 12, 10, dtype=dtype)[:, ::2, 1::2],
    "permuted": lambda dtype: values(5, 4, 6, dtype=dtype).permute(1, 2, 0),
    "channels last": lambda dtype: values(4, 5, 6, dtype=dtype).transpose(1, 2),
}
SOURCES = LAYOUTS | {
    "expanded": lambda dtype: values(4, 1, 5, dtype=dtype).expand(4, 6, 5),
    "broadcast": lambda dtype: values(6, 1, dtype=dtype),
    "number": lambda dtype: values(dtype=dtype),
}


def values(*shape: int, dtype: torch.dtype) -> Tensor:
    return make_tensor(shape, dtype=dtype, device="cpu", low=0, high=9)


def check_copy(source: Tensor, target: Tensor, places: tuple[str, str], non_blocking: bool) -> None:
    there, into = put(source, places[0]), put(target, places[1])
    returned = into.copy_(there, non_blocking=non_blocking)
    torch.accelerator.synchronize(0)
    if "other device" in places:
        torch.accelerator.synchronize(1)
    assert returned is into
    expected = put(target, "pageable").copy_(source)
    assert torch.equal(into.cpu().resolve_conj().resolve_neg(), expected.resolve_conj().resolve_neg())
    # Nothing beside the elements of the view is written, and nothing of the source.
    written = torch.empty(0, dtype=target.dtype).set_(expected.untyped_storage())
    assert torch.equal(
        torch.empty(0, dtype=target.dtype, device=into.device).set_(into.untyped_storage()).cpu(), written
    )
    assert torch.equal(there.cpu(), source)


@pytest.mark.parametrize("non_blocking", [False, True], ids=["blocking", "non_blocking"])
@pytest.mark.parametrize("places", PAIRS, ids=" to ".join)
def test_a_copy_keeps_the_values_in_any_layout(places: tuple[str, str], non_blocking: bool) -> None:
    for make_source, make_target in product(SOURCES.values(), LAYOUTS.values()):
        check_copy(make_source(torch.float32), make_target(torch.float32), places, non_blocking)


DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.int64,
    torch.int8,
    torch.uint8,
    torch.uint16,
    torch.bool,
    torch.complex64,
]


@pytest.mark.parametrize("non_blocking", [False, True], ids=["blocking", "non_blocking"])
@pytest.mark.parametrize("places", PAIRS, ids=" to ".join)
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_a_copy_converts_every_dtype_to_every_other(places: tuple[str, str], non_blocking: bool) -> None:
    for (i, source), target in product(enumerate(DTYPES), DTYPES):
        layout = list(LAYOUTS.values())[i % len(LAYOUTS)]
        a, b = values(4, 6, 5, dtype=torch.float32), layout(torch.float32)
        check_copy(a.to(source), b.to(target), places, non_blocking)


@pytest.mark.parametrize("non_blocking", [False, True], ids=["blocking", "non_blocking"])
@pytest.mark.parametrize("places", PAIRS, ids=" to ".join)
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_a_copy_resolves_conjugated_and_negated_views(places: tuple[str, str], non_blocking: bool) -> None:
    views: list[Callable[[Tensor], Tensor]] = [
        lambda x: x,
        lambda x: x.conj(),
        lambda x: x._neg_view(),
        lambda x: x.conj()._neg_view(),
        lambda x: x.conj().transpose(0, 1).contiguous().transpose(0, 1).conj(),
    ]
    x, y = values(6, 4, dtype=torch.complex64), values(6, 4, dtype=torch.complex64)
    for of_source, of_target in product(views, views):
        check_copy(of_source(x), of_target(y.clone()), places, non_blocking)
        check_copy(of_source(x), torch.zeros(6, 4), places, non_blocking)
    imaginary = x.conj().imag  # a negated view of real numbers
    assert imaginary.is_neg()
    check_copy(imaginary, torch.zeros(4, 6).t(), places, non_blocking)


@pytest.mark.parametrize("places", PAIRS, ids=" to ".join)
def test_a_copy_without_elements_does_nothing(places: tuple[str, str]) -> None:
    check_copy(torch.empty(0, 3), torch.empty(0, 3), places, non_blocking=True)


@pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "pageable"])
@pytest.mark.parametrize("non_blocking", [False, True], ids=["blocking", "non_blocking"])
def test_64_megabytes_return_unchanged(non_blocking: bool, pinned: bool, device: str) -> None:
    if pinned:
        skip_without("pinned_memory")
    source = torch.arange(16 * MiB, dtype=torch.int32)
    source = source.pin_memory() if pinned else source
    there = source.to(device, non_blocking=non_blocking)
    again = torch.empty_like(there).copy_(there, non_blocking=non_blocking)
    back = torch.empty_like(source, pin_memory=pinned).copy_(again, non_blocking=non_blocking)
    torch.accelerator.synchronize()
    assert torch.equal(back, source)


def test_64_megabytes_cross_devices_unchanged(device: str, second_device: torch.device) -> None:
    source = torch.arange(16 * MiB, dtype=torch.int32)
    assert torch.equal(source.to(device).to(second_device, non_blocking=True).cpu(), source)


@needs_queues
@pytest.mark.parametrize("direction", ["to the device", "to the host"])
@pytest.mark.parametrize("size", [10, 16 * MiB], ids=["small", "large"])
def test_pinned_copies_overlap_with_the_host(size: int, direction: str, device: str) -> None:
    stream = torch.Stream(device)
    pinned = torch.arange(size, dtype=torch.float32).pin_memory()
    landing = torch.zeros(size).pin_memory()
    with stream:
        there = pinned.to(device) if direction == "to the host" else torch.zeros(size, device=device)
        occupy(stream)
        started = time.perf_counter()
        (there if direction == "to the device" else landing).copy_(
            pinned if direction == "to the device" else there, non_blocking=True
        )
        submission = time.perf_counter() - started
        assert not stream.query()
        stream.synchronize()
        total = time.perf_counter() - started
    assert submission < 0.5 * total
    assert torch.equal(there.cpu() if direction == "to the device" else landing, pinned)


@needs_queues
def test_pinned_memory_is_not_used_again_before_its_copy(device: str) -> None:
    """The caching host allocator must keep a freed block until the copies from it are over."""
    stream = torch.Stream(device)
    with stream:
        results = []
        occupy(stream)
        for i in range(20):
            results.append(torch.full((1000,), float(i)).pin_memory().to(device, non_blocking=True))
        assert not stream.query()
        for i, x in enumerate(results):
            assert torch.equal(x.cpu(), torch.full((1000,), float(i)))


@needs_queues
@pytest.mark.parametrize("direction", ["to the device", "to the host"])
def test_pageable_copies_are_synchronous(direction: str, device: str) -> None:
    stream = torch.Stream(device)
    with stream:
        there = torch.arange(10.0, device=device)
        pageable = torch.zeros(10)
        occupy(stream)
        if direction == "to the device":
            there.copy_(pageable, non_blocking=True)
            pageable.fill_(7)
        else:
            pageable.copy_(there, non_blocking=True)
            assert torch.equal(pageable, torch.arange(10.0))
        assert stream.query()
        assert torch.equal(there.cpu(), torch.zeros(10) if direction == "to the device" else pageable)


@needs_queues
def test_copies_between_devices_wait_for_both_streams(device: str, second_device: torch.device) -> None:
    here, there = torch.Stream(torch.device(device, 0)), torch.Stream(second_device)
    source = torch.arange(1000.0).pin_memory()
    with here:
        a = torch.zeros(1000, device=device)
    with there:
        b = torch.ones(1000, device=second_device)
        before = -torch.ones(1000, device=second_device)
    landing = torch.zeros(1000).pin_memory()
    here.synchronize()
    there.synchronize()
    occupy(here)
    occupy(there)
    with here, there:
        a.copy_(source, non_blocking=True)
        b.copy_(before, non_blocking=True)
        b.copy_(a, non_blocking=True)
        landing.copy_(b, non_blocking=True)
    assert not there.query()
    there.synchronize()
    assert here.query()
    assert torch.equal(landing, source)
    with here, there:
        assert torch.equal(b.cpu(), source)


def test_impossible_copies_are_refused(device: str) -> None:
    x = torch.ones(3, device=device)
    with pytest.raises(RuntimeError, match="expand|size"):
        x.copy_(torch.ones(4))
    with pytest.raises(RuntimeError, match="overlap|single memory location|meta"):
        torch.ones(1, device=device).expand(3).copy_(torch.ones(3))
    with pytest.raises((NotImplementedError, RuntimeError), match="meta"):
        x.copy_(torch.ones(3, device="meta"))


OWN_MEMORY: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x.__setitem__(0, x[0]),
    "slice": lambda x: x.__setitem__(slice(0, 3), x[:3]),
    "view": lambda x: x.copy_(x.view(6)),
    "data": lambda x: x.data.copy_(x),
    "detached": lambda x: x.detach().copy_(x),
    "transposed": lambda x: x.view(2, 3).t().copy_(x.view(2, 3).t()),
    "strided": lambda x: x[::2].copy_(x.view(3, 2)[:, 0]),
    "foreach": lambda x: torch._foreach_copy_([x.view(6)], [x]),
    "storage": lambda x: x.untyped_storage().copy_(x.untyped_storage()),
}


@pytest.mark.parametrize("copy", OWN_MEMORY.values(), ids=OWN_MEMORY)
def test_a_copy_onto_its_own_memory_changes_nothing(copy: Callable[[Tensor], object], device: str) -> None:
    x = torch.arange(6.0, device=device)
    copy(x)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_module_loads_its_own_state(device: str) -> None:
    model = torch.nn.Linear(2, 2).to(device)
    expected = model.weight.tolist()
    model.load_state_dict(model.state_dict())
    assert model.weight.tolist() == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_copies_within_overlapping_memory_are_refused(dtype: torch.dtype, device: str) -> None:
    for place in ("cpu", device):
        x = torch.arange(6.0, device=place).to(dtype)
        with pytest.raises(RuntimeError, match="single memory location"):
            x[1:].copy_(x[:-1])
        assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_lazy_clone_is_a_copy(device: str) -> None:
    x = torch.arange(4.0, device=device, requires_grad=True)
    y = torch._lazy_clone(x)
    with torch.no_grad():
        y.add_(1)
    assert (x.tolist(), y.tolist()) == ([0, 1, 2, 3], [1, 2, 3, 4])
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 1, 1, 1]
