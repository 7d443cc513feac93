"""The cases of `operators.py`: operators on small and large operands, and whole training steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Call = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """One measurement: the call, and its kind, which decides the highest accepted ratio."""

    name: str
    call: Call
    kind: str  # "small" (4 elements), "large", "boxed" (without a line in operators.def) or "training"


def operators(device: str) -> Iterator[Case]:
    """Yield the operators by family, each on 4 elements and on many."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(device)

    def integers(limit: int, *shape: int) -> Tensor:
        return torch.randint(0, limit, shape, generator=generator).to(device)

    a, b = random(4), random(4)
    c, d = random(1 << 20), random(1 << 20)
    positive = c.abs() + 0.1
    mask, wide_mask = a > 0, c > 0
    row, rows = random(1, 4), random(256, 512)
    square, other = random(2, 2), random(2, 2)
    matrix, matrix_other = random(256, 256), random(256, 256)
    batch, batch_other = random(16, 64, 64), random(16, 64, 64)
    image, filters = random(8, 16, 32, 32), random(16, 16, 3, 3)
    pixels, pixel_filter = random(1, 1, 2, 2), random(1, 1, 1, 1)
    signal, taps = random(8, 16, 512), random(16, 16, 5)
    scale, shift = random(16), random(16)
    mean, variance = torch.zeros(16, device=device), torch.ones(16, device=device)
    query, short = random(4, 4, 128, 32), random(1, 1, 2, 2)
    table, places, entry = random(1000, 64), integers(1000, 4096), random(64)
    four, labels = integers(4, 4), integers(512, 256)
    grid = random(1024, 1024)
    columns = integers(1024, 1024, 1024)
    halves = c.half()
    parameters = [random(64, 64) for _ in range(20)]
    gradients = [random(64, 64) for _ in range(20)]

    def case(kind: str) -> Callable[[str, Call], Case]:
        return lambda name, call: Case(f"{name} {kind}" if kind != "boxed" else f"{name} (boxed)", call, kind)

    small, large, boxed = case("small"), case("large"), case("boxed")

    # element by element
    yield small("add", lambda: a + b)
    yield small("add_", lambda: a.add_(b))
    yield small("add number", lambda: a + 1.5)
    yield small("mul", lambda: a * b)
    yield small("abs, native,", lambda: a.abs())
    yield small("relu", lambda: a.relu())
    yield small("eq", lambda: a == b)
    yield small("where", lambda: torch.where(mask, a, b))
    yield large("add", lambda: c + d)
    yield large("add_", lambda: c.add_(d, alpha=0.0))
    yield large("mul", lambda: c * d)
    yield large("div", lambda: c / positive)
    yield large("exp", lambda: c.exp())
    yield large("sqrt", lambda: positive.sqrt())
    yield large("relu", lambda: c.relu())
    yield large("leaky_relu, native,", lambda: F.leaky_relu(c))
    yield large("gelu", lambda: F.gelu(c))
    yield large("sigmoid", lambda: c.sigmoid())
    yield large("clamp", lambda: c.clamp(-1, 1))
    yield large("gt", lambda: c > d)
    yield large("where", lambda: torch.where(wide_mask, c, d))

    # reductions
    yield small("sum", lambda: a.sum())
    yield small("max", lambda: a.max())
    yield large("sum", lambda: c.sum())
    yield large("mean of rows", lambda: grid.mean(1))
    yield large("std", lambda: grid.std(0))
    yield large("argmax", lambda: grid.argmax(1))
    yield large("cumsum", lambda: grid.cumsum(1))

    # products
    yield small("mm", lambda: square @ other)
    yield small("linear", lambda: F.linear(row, row))
    yield large("mm", lambda: matrix @ matrix_other)
    yield large("bmm", lambda: batch @ batch_other)
    yield large("linear", lambda: F.linear(rows, table.view(125, 512)))

    # layers
    yield small("softmax", lambda: a.softmax(0))
    yield small("layer_norm", lambda: F.layer_norm(row, (4,)))
    yield small("conv2d", lambda: F.conv2d(pixels, pixel_filter))
    yield small("attention", lambda: F.scaled_dot_product_attention(short, short, short))
    yield large("softmax", lambda: rows.softmax(1))
    yield large("log_softmax", lambda: rows.log_softmax(1))
    yield large("cross_entropy", lambda: F.cross_entropy(rows, labels))
    yield large("layer_norm", lambda: F.layer_norm(rows, (512,)))
    yield large("batch_norm", lambda: F.batch_norm(image, mean, variance, scale, shift, training=True))
    yield large("group_norm", lambda: F.group_norm(image, 4, scale, shift))
    yield large("conv1d", lambda: F.conv1d(signal, taps))
    yield large("conv2d", lambda: F.conv2d(image, filters, padding=1))
    yield large("max_pool2d", lambda: F.max_pool2d(image, 2))
    yield large("attention", lambda: F.scaled_dot_product_attention(query, query, query))

    # indexing
    yield small("index", lambda: a[four])
    yield small("gather", lambda: a.gather(0, four))
    yield large("index", lambda: table[places])
    yield large("index_put_", lambda: table.index_put_((places,), entry))
    yield large("embedding", lambda: F.embedding(places, table))
    yield large("gather", lambda: grid.gather(1, columns))
    yield large("masked_fill", lambda: c.masked_fill(wide_mask, 0.0))

    # views, factories, copies
    yield small("view", lambda: a.view(2, 2))
    yield small("slice", lambda: a[1:3])
    yield small("transpose", lambda: square.t())
    yield small("expand", lambda: row.expand(4, 4))
    yield small("empty", lambda: torch.empty(4, device=device))
    yield small("zeros", lambda: torch.zeros(4, device=device))
    yield small("arange", lambda: torch.arange(4, device=device))
    yield small("cat", lambda: torch.cat([a, b]))
    yield small("clone", lambda: a.clone())
    yield small("item", lambda: a[0].item())
    yield large("empty", lambda: torch.empty(1 << 20, device=device))
    yield large("zeros", lambda: torch.zeros(1 << 20, device=device))
    yield large("randn", lambda: torch.randn(1 << 18, device=device))
    yield large("cat", lambda: torch.cat([c, d]))
    yield large("copy_", lambda: c.copy_(d))
    yield large("to half", lambda: d.half())
    yield large("from half", lambda: halves.float())
    yield large("contiguous", lambda: grid.t().contiguous())

    # lists
    yield large("_foreach_add_", lambda: torch._foreach_add_(parameters, gradients, alpha=0.0))
    yield large("_foreach_norm", lambda: torch._foreach_norm(gradients))

    # optimizers with an explicit implementation; by default PyTorch uses single tensors on the CPU and lists on devices
    def step(make: Callable[..., torch.optim.Optimizer], count: int, *shape: int, **how: bool) -> Call:
        wanted = [nn.Parameter(random(*shape)) for _ in range(count)]
        for parameter in wanted:
            parameter.grad = random(*shape)
        return make(wanted, lr=1e-3, **how).step

    yield small("SGD step", step(torch.optim.SGD, 1, 4, foreach=False))
    yield small("Adam step", step(torch.optim.Adam, 1, 4, foreach=True))
    yield large("SGD step", step(torch.optim.SGD, 20, 256, 256, foreach=True))
    yield large("Adam step", step(torch.optim.Adam, 20, 256, 256, foreach=True))
    yield large("AdamW step, fused,", step(torch.optim.AdamW, 20, 256, 256, fused=True))

    # operators without a line in operators.def
    yield boxed("cummax", lambda: a.cummax(0))
    yield boxed("logcumsumexp", lambda: a.logcumsumexp(0))
    yield boxed("kthvalue", lambda: a.kthvalue(2))
    yield boxed("hypot", lambda: torch.hypot(a, b))


class _Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 100)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.encoder(self.embed(tokens)))
        return logits.transpose(1, 2)


def training(device: str) -> Iterator[Case]:
    """Yield whole training steps (forward, loss, backward, optimizer) of small models."""
    generator = torch.Generator().manual_seed(0)

    def step(name: str, model: nn.Module, inputs: Tensor, labels: Tensor, make: type[torch.optim.Optimizer]) -> Case:
        model = model.to(device)
        inputs, labels = inputs.to(device), labels.to(device)
        optimizer = make(model.parameters(), lr=1e-3)  # type: ignore[call-arg]

        def call() -> None:
            optimizer.zero_grad()
            with torch.enable_grad():
                F.cross_entropy(model(inputs), labels).backward()
            optimizer.step()

        return Case(f"{name} step", call, "training")

    def labels(limit: int, *shape: int) -> Tensor:
        return torch.randint(0, limit, shape, generator=generator)

    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    yield step("MLP, SGD", mlp, torch.randn(128, 256, generator=generator), labels(10, 128), torch.optim.SGD)
    cnn = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Linear(32, 10)),
    )
    yield step("CNN, Adam", cnn, torch.randn(32, 3, 32, 32, generator=generator), labels(10, 32), torch.optim.Adam)
    yield step("transformer, AdamW", _Transformer(), labels(100, 16, 64), labels(100, 16, 64), torch.optim.AdamW)
