"""Sparse, quantized and nested tensors, which consist of several dense tensors, give the values of the CPU."""

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from compare import seed
from torch import Tensor
from torch.nn import functional as F

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse (CSR|CSC|BSR|BSC) tensor support is in beta"),
    pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions.*"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype"),
]

INDICES = torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])
VALUES = torch.tensor([3.0, 4.0, 5.0, 1.0])


def coo(device: str) -> Tensor:
    return torch.sparse_coo_tensor(INDICES, VALUES, (2, 3)).to(device)


def dense(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(dense, x))
    if x.is_quantized:
        return x.cpu().int_repr()
    if x.is_nested:
        return torch.nested.to_padded_tensor(x, 0.0).cpu()
    return x.to_dense().cpu() if x.layout != torch.strided else x.cpu()


def check(function: Callable[[str], Any], device: str) -> None:
    """Compare the function's result on the device with that on the CPU: kind, layout and values."""
    seed(device)
    actual = function(device)
    seed("cpu")
    expected = function("cpu")
    if isinstance(expected, Tensor):
        assert (actual.device.type, actual.layout, actual.dtype, actual.shape if not actual.is_nested else None) == (
            device,
            expected.layout,
            expected.dtype,
            expected.shape if not expected.is_nested else None,
        )
    torch.testing.assert_close(dense(actual), dense(expected))


@pytest.mark.parametrize(
    "function",
    [
        lambda d: torch.sparse_coo_tensor(INDICES.to(d), VALUES.to(d), (2, 3)),
        lambda d: torch.sparse_coo_tensor(INDICES, VALUES, (2, 3), device=d),
        lambda d: torch.eye(4, device=d).to_sparse(),
        lambda d: torch.empty(2, 3, layout=torch.sparse_coo, device=d),
        lambda d: torch.zeros_like(coo(d)),
        lambda d: coo(d).clone(),
        lambda d: coo(d).to(torch.float64),
        lambda d: coo(d).coalesce(),
        lambda d: coo(d).coalesce().indices(),
        lambda d: coo(d).coalesce().values(),
        lambda d: coo(d)._values(),
        lambda d: coo(d) + coo(d),
        lambda d: coo(d).coalesce() * coo(d).coalesce(),
        lambda d: coo(d) * 2,
        lambda d: coo(d).add_(coo(d)),
        lambda d: coo(d).zero_(),
        lambda d: coo(d).neg(),
        lambda d: torch.ones(2, 3, device=d) + coo(d),
        lambda d: torch.sparse.mm(coo(d), torch.ones(3, 4, device=d)),
        lambda d: coo(d) @ torch.ones(3, 4, device=d),
        lambda d: torch.sparse.mm(coo(d), coo(d).t()),
        lambda d: coo(d).t(),
        lambda d: coo(d)[1],
        lambda d: coo(d).index_select(0, torch.tensor([1], device=d)),
        lambda d: torch.cat([coo(d), coo(d)]),
        lambda d: torch.stack([coo(d), coo(d)]),
        lambda d: torch.sparse.sum(coo(d)),
        lambda d: torch.sparse.sum(coo(d), 0),
        lambda d: torch.sparse.softmax(coo(d), 1),
        lambda d: torch.ones(2, 3, device=d).sparse_mask(coo(d).coalesce()),
    ],
)
def test_coo_tensors_give_the_values_of_the_cpu(function: Callable[[str], Any], device: str) -> None:
    check(function, device)


def test_coo_keeps_what_is_known_of_it(device: str) -> None:
    x = coo(device)
    assert (x.is_sparse, x.is_coalesced(), x._nnz(), x.sparse_dim(), x.dense_dim()) == (True, False, 4, 2, 0)
    assert x.coalesce().is_coalesced()
    assert x.cpu().device.type == "cpu"
    assert device in repr(x)


def test_coo_parts_are_the_tensors_own(device: str) -> None:
    x = coo(device).coalesce()
    x.values().mul_(2)
    torch.testing.assert_close(dense(x), dense(coo("cpu")) * 2)


def test_gradients_of_coo_tensors_are_those_of_the_cpu(device: str) -> None:
    def gradients(where: str) -> tuple[Tensor, ...]:
        x = coo(where).coalesce().requires_grad_()
        y = torch.arange(12.0, device=where).view(3, 4).requires_grad_()
        (torch.sparse.mm(x, y) ** 2).sum().backward()
        assert x.grad is not None and y.grad is not None
        return x.grad, y.grad

    check(gradients, device)


def test_an_embedding_with_sparse_gradients_trains_as_on_the_cpu(device: str) -> None:
    def train(where: str) -> Tensor:
        torch.manual_seed(0)
        embedding = torch.nn.Embedding(10, 4, sparse=True).to(where)
        optimizer = torch.optim.SparseAdam(embedding.parameters())
        for _ in range(3):
            embedding(torch.tensor([1, 2, 2, 5], device=where)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return embedding.weight.detach()

    check(train, device)


def test_coo_and_host_tensors_do_not_mix(device: str) -> None:
    with pytest.raises(RuntimeError, match="same device"):
        coo(device) + torch.ones(2, 3)


def test_coo_is_saved_and_loaded(device: str) -> None:
    file = io.BytesIO()
    torch.save(coo(device), file)
    file.seek(0)
    loaded = torch.load(file)
    assert (loaded.device.type, loaded.is_sparse) == (device, True)
    torch.testing.assert_close(dense(loaded), dense(coo("cpu")))


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
def test_compressed_tensors_give_the_values_of_the_cpu(layout: str, device: str) -> None:
    def make(where: str) -> Tensor:
        x = torch.zeros(4, 4, device=where)
        x[0, 1], x[3, 2] = 2, 5
        block = {"blocksize": (2, 2)} if layout.startswith("b") else {}
        return getattr(x, f"to_sparse_{layout}")(**block)

    check(make, device)
    check(lambda d: make("cpu").to(d), device)
    check(lambda d: make(d).values(), device)
    check(lambda d: make(d) * 2, device)
    check(lambda d: torch.sin(make(d)), device)
    assert device in repr(make(device))
    if layout == "csr":
        check(lambda d: make(d) @ torch.ones(4, 3, device=d), device)
        check(lambda d: make(d).crow_indices(), device)


def test_a_csr_tensor_can_be_made_from_lists(device: str) -> None:
    def make(where: str) -> Tensor:
        return torch.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], (2, 2), device=where)

    check(make, device)


def per_tensor(device: str) -> Tensor:
    x = torch.linspace(-10, 10, 192).view(1, 3, 8, 8).to(device)
    return torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)


def per_channel(device: str) -> Tensor:
    scales, zero_points = torch.tensor([0.1, 0.2, 0.3], dtype=torch.double), torch.tensor([1, 2, 3])
    x = torch.linspace(-10, 10, 12).view(3, 4)
    return torch.quantize_per_channel(x.to(device), scales.to(device), zero_points.to(device), 0, torch.qint8)


@pytest.mark.parametrize(
    "function",
    [
        per_tensor,
        per_channel,
        lambda d: per_tensor("cpu").to(d),
        lambda d: per_channel("cpu").to(d),
        lambda d: per_tensor(d).dequantize(),
        lambda d: per_channel(d).dequantize(),
        lambda d: per_channel(d).q_per_channel_scales(),
        lambda d: per_channel(d).q_per_channel_zero_points(),
        lambda d: per_tensor(d).int_repr(),
        lambda d: per_tensor(d)[0, 1],
        lambda d: per_tensor(d).view(-1),
        lambda d: per_tensor(d).transpose(2, 3).contiguous(),
        lambda d: per_tensor(d).clone(),
        lambda d: F.max_pool2d(per_tensor(d), 2),
        lambda d: F.avg_pool2d(per_tensor(d), 2),
        lambda d: per_tensor(d).relu(),
        lambda d: per_tensor(d) > per_tensor(d).clone(),
        lambda d: torch.cat([per_tensor(d), per_tensor(d)]),
        lambda d: torch.quantize_per_tensor_dynamic(torch.linspace(-1, 1, 9, device=d), torch.quint8, False),
        lambda d: torch.fake_quantize_per_tensor_affine(torch.linspace(-1, 1, 9, device=d), 0.1, 0, 0, 255),
    ],
)
def test_quantized_tensors_give_the_values_of_the_cpu(function: Callable[[str], Any], device: str) -> None:
    check(function, device)


def test_a_quantized_tensor_keeps_scale_and_zero_point(device: str) -> None:
    x = per_tensor(device)
    assert (x.is_quantized, x.q_scale(), x.q_zero_point(), x.qscheme()) == (True, 0.1, 3, torch.per_tensor_affine)
    assert per_channel(device).q_per_channel_axis() == 0
    assert device in repr(x)


def nested(device: str) -> Tensor:
    parts = [torch.arange(6.0).view(2, 3), torch.arange(12.0).view(4, 3) - 5]
    return torch.nested.nested_tensor(parts, device=device)


@pytest.mark.parametrize(
    "function",
    [
        nested,
        lambda d: nested("cpu").to(d),
        lambda d: nested(d).unbind(),
        lambda d: nested(d) * 2,
        lambda d: nested(d).relu_(),
        lambda d: torch.softmax(nested(d), -1),
        lambda d: F.linear(nested(d), torch.linspace(-1, 1, 15, device=d).view(5, 3)),
        lambda d: F.layer_norm(nested(d), (3,), torch.ones(3, device=d), torch.zeros(3, device=d)),
        lambda d: nested(d).transpose(1, 2).contiguous(),
        lambda d: torch.bmm(nested(d), nested(d).transpose(1, 2)),
        lambda d: torch.nested.as_nested_tensor([torch.ones(2, 3, device=d), torch.zeros(1, 3, device=d)]),
        lambda d: torch.nested.to_padded_tensor(nested(d), -1.0),
        lambda d: nested(d).cpu().to(d),
    ],
)
def test_nested_tensors_give_the_values_of_the_cpu(function: Callable[[str], Any], device: str) -> None:
    check(function, device)


def test_gradients_of_nested_tensors_are_those_of_the_cpu(device: str) -> None:
    def gradients(where: str) -> Tensor:
        parts = [torch.arange(6.0, device=where).view(2, 3), torch.ones(4, 3, device=where)]
        x = torch.nested.nested_tensor(parts, requires_grad=True)
        (torch.nested.to_padded_tensor(F.gelu(x), 0.0) ** 2).sum().backward()
        assert x.grad is not None
        return x.grad

    check(gradients, device)


def test_jagged_tensors_give_the_values_of_the_cpu(device: str) -> None:
    def run(where: str) -> tuple[Tensor, ...]:
        parts = [torch.arange(6.0).double().view(2, 3), torch.linspace(-1, 2, 12).double().view(4, 3)]
        x = torch.nested.nested_tensor(parts, layout=torch.jagged, device=where, requires_grad=True)
        y = F.layer_norm(F.gelu(x), (3,))
        (y.values() ** 3).sum().backward()
        assert x.grad is not None and x.grad.device.type == torch.device(where).type
        return y.values().detach(), x.grad.values()

    check(run, device)


def test_attention_of_jagged_tensors_is_that_of_the_cpu(device: str) -> None:
    def run(where: str) -> Tensor:
        parts = [torch.linspace(-1, 1, 48).view(3, 2, 8), torch.linspace(0, 2, 80).view(5, 2, 8)]
        x = torch.nested.nested_tensor(parts, layout=torch.jagged).to(where).transpose(1, 2)
        return F.scaled_dot_product_attention(x, x, x).transpose(1, 2).values()

    check(run, device)


@pytest.mark.needs("graphs")
def test_a_graph_refuses_multi_part_tensors(device: str) -> None:
    x = coo(device)
    stream, graph = torch.Stream(), torch.accelerator.Graph()
    with stream, graph, pytest.raises(NotImplementedError, match="graph cannot record"):
        x + x
