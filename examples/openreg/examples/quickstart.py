"""A first look at the device: tensors, a convolutional network, a transformer, and the operators left to port.

Run it from anywhere: ``python examples/quickstart.py``. It needs the package installed and nothing else.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DEVICE = "openreg"


class SmallConvNet(nn.Module):
    """Classifies images of shape (N, 1, 16, 16) into 4 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
        )
        self.classifier = nn.Linear(32 * 4 * 4, 4)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.features(images).flatten(1))
        return scores


class SmallTransformer(nn.Module):
    """Predicts the next of 32 tokens for each position of a sequence of shape (N, T)."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, width)
        self.position = nn.Parameter(torch.randn(32, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 32)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        causal = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        hidden = self.embedding(tokens) + self.position[:length]
        scores: Tensor = self.head(self.encoder(hidden, mask=causal, is_causal=True))
        return scores


def image_batches(steps: int) -> list[tuple[Tensor, Tensor]]:
    """Noisy images whose bright quadrant is their class."""
    generator = torch.Generator().manual_seed(0)
    batches = []
    for _ in range(steps):
        labels = torch.randint(0, 4, (64,), generator=generator)
        images = torch.randn(64, 1, 16, 16, generator=generator)
        for image, label in zip(images, labels.tolist(), strict=True):
            row, column = 8 * (label // 2), 8 * (label % 2)
            image[0, row : row + 8, column : column + 8] += 1.0
        batches.append((images, labels))
    return batches


def token_batches(steps: int) -> list[tuple[Tensor, Tensor]]:
    """Counting sequences with random starts and strides; the target is the next token."""
    generator = torch.Generator().manual_seed(0)
    batches = []
    for _ in range(steps):
        start = torch.randint(0, 32, (32, 1), generator=generator)
        stride = torch.randint(1, 4, (32, 1), generator=generator)
        sequence = (start + stride * torch.arange(25)) % 32
        batches.append((sequence[:, :-1], sequence[:, 1:]))
    return batches


def train(model: nn.Module, batches: list[tuple[Tensor, Tensor]], device: str) -> tuple[list[float], float]:
    """Trains on a device; returns the loss of each step, and the seconds of all steps but the first."""
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    started = 0.0
    for step, (inputs, targets) in enumerate(batches):
        if step == 1:
            started = time.perf_counter()
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, time.perf_counter() - started


def compare(title: str, make: Callable[[], nn.Module], batches: list[tuple[Tensor, Tensor]]) -> None:
    """Trains the same model on the device and on the CPU, and prints both results."""
    torch.manual_seed(0)
    model = make()
    twin = copy.deepcopy(model)
    losses, seconds = train(model, batches, DEVICE)
    cpu_losses, cpu_seconds = train(twin, batches, "cpu")
    difference = max(abs(a - b) for a, b in zip(losses, cpu_losses, strict=True))
    print(f"\n{title}, {len(batches)} steps of AdamW")
    print(f"  loss on {DEVICE:<12} {losses[0]:.4f} -> {losses[-1]:.4f}")
    print(f"  loss on cpu          {cpu_losses[0]:.4f} -> {cpu_losses[-1]:.4f}   largest difference {difference:.1e}")
    print(f"  time                 {seconds:.2f} s on the device, {cpu_seconds:.2f} s on the CPU")
    print(f"  ratio                {seconds / cpu_seconds:.2f}")


def main() -> None:
    module = torch.get_device_module(DEVICE)
    print(f"{module.device_count()} x {module.get_device_name(0)}, torch {torch.__version__}")

    x = torch.arange(4.0, device=DEVICE)
    print("\nx       =", x)
    print("x + 2   =", x + 2)
    print(".cpu()  =", (x + 2).cpu())

    compare("Convolutional network", SmallConvNet, image_batches(40))
    compare("Transformer", SmallTransformer, token_batches(60))

    counts = module.operators.fallback_counts()
    print(f"\nOperators without a native kernel: {len(counts)}, called {sum(counts.values())} times.")
    print("Port these, the most frequent first:")
    for name, calls in sorted(counts.items(), key=lambda item: -item[1])[:10]:
        print(f"  {calls:7d}  {name}")


if __name__ == "__main__":
    main()
