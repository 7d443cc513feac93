"""Trainings of whole networks have the losses of the CPU, step by step. In reduced precision they follow float32."""

import gc
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

STEPS = 20


class ConvNet(nn.Module):
    """Sorts images of shape (N, 1, 8, 8) into 4 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False),  # the normalisation would take it away again
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1, groups=2),
            nn.GroupNorm(4, 16),
            nn.GELU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(64, 4),
        )

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layers(images)
        return logits


class Transformer(nn.Module):
    """Predicts the next of 16 tokens, for tokens of shape (N, T)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 16)

    def forward(self, tokens: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        logits: Tensor = self.head(self.encoder(self.embedding(tokens), mask=mask, is_causal=True))
        return logits.flatten(0, 1)


class Recurrent(nn.Module):
    """Predicts the next of 16 tokens, for tokens of shape (N, T)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 24)
        self.lstm = nn.LSTM(24, 24, 2, batch_first=True)
        self.gru = nn.GRU(24, 24, batch_first=True)
        self.head = nn.Linear(24, 16)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.embedding(tokens))
        hidden, _ = self.gru(hidden)
        logits: Tensor = self.head(hidden)
        return logits.flatten(0, 1)


def images() -> tuple[Tensor, Tensor]:
    """Noise images; the class is the brightest quadrant."""
    classes = torch.arange(32) % 4
    pictures = torch.randn(32, 1, 8, 8) * 0.5
    for picture, which in zip(pictures, classes.tolist(), strict=True):
        picture[0, 4 * (which // 2) :, 4 * (which % 2) :][:4, :4] += 1.0
    return pictures, classes


def tokens() -> tuple[Tensor, Tensor]:
    """Sequences that count in steps of 1 to 3 from a random start, and the token after each."""
    sequence = (torch.randint(0, 16, (16, 1)) + torch.randint(1, 4, (16, 1)) * torch.arange(13)) % 16
    return sequence[:, :-1], sequence[:, 1:].flatten()


TASKS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Tensor, Tensor]]]] = {
    "convolutional": (ConvNet, images),
    "transformer": (Transformer, tokens),
    "recurrent": (Recurrent, tokens),
}


def train(
    task: str,
    device: str,
    dtype: torch.dtype = torch.float32,
    scaler: torch.amp.GradScaler | None = None,
    steps: int = STEPS,
) -> tuple[list[float], nn.Module]:
    """Return the loss of each step, and the model. `dtype` other than float32 trains with autocast."""
    network, batch = TASKS[task]
    torch.manual_seed(0)
    model, (inputs, targets) = network(), batch()
    model, inputs, targets = model.to(device), inputs.to(device), targets.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast(device, dtype, enabled=dtype != torch.float32):
            loss = F.cross_entropy(model(inputs), targets)
        if scaler is None:
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        losses.append(loss.item())
    return losses, model


@pytest.mark.parametrize("task", TASKS)
def test_training_gives_the_losses_of_the_cpu(task: str, device: str) -> None:
    ours, model = train(task, device)
    theirs, reference = train(task, "cpu")
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=0, atol=1e-4)
    assert ours[-1] < ours[0] / 1.5
    for name, value in reference.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name].cpu(), value, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_training_in_reduced_precision_follows_float32(task: str, dtype: torch.dtype, device: str) -> None:
    scaler = torch.amp.GradScaler(device, init_scale=2.0**12) if dtype == torch.float16 else None
    reduced, model = train(task, device, dtype, scaler)
    full, _ = train(task, device)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert reduced != full, "nothing ran in reduced precision"
    assert reduced[-1] < reduced[0] / 1.5
    assert abs(reduced[-1] - full[-1]) < 0.15 * full[0]
    if scaler is not None:
        assert scaler.get_scale() > 0


def test_scaler_recovers_from_infinite_gradients(device: str) -> None:
    scaler = torch.amp.GradScaler(device, init_scale=2.0**40)
    losses, _ = train("convolutional", device, torch.float16, scaler, steps=60)
    assert scaler.get_scale() < 2.0**40
    assert losses[-1] < losses[0] / 1.5


def test_memory_does_not_grow(device: str, device_module: ModuleType) -> None:
    network, batch = TASKS["transformer"]
    model = network().to(device)
    inputs, targets = (x.to(device) for x in batch())
    optimizer = torch.optim.Adam(model.parameters())
    used = []
    gc.collect()  # tensors in the garbage of other tests are not to be freed while this one counts
    for _ in range(5):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        used.append((device_module.memory_allocated(), device_module.memory_reserved()))
    assert used[2] == used[3] == used[4]


def test_a_model_trained_on_the_device_works_on_the_cpu(device: str) -> None:
    _, model = train("convolutional", device, steps=5)
    pictures, _ = images()
    model.eval()
    expected = model(pictures.to(device)).cpu()
    torch.testing.assert_close(model.cpu()(pictures), expected, rtol=1e-4, atol=1e-5)


def test_accumulated_gradients_of_a_model_with_frozen_layers_are_the_cpus(device: str) -> None:
    torch.manual_seed(0)
    model, (inputs, targets) = ConvNet().eval(), images()
    frozen = list(model.layers[0].parameters())
    for parameter in frozen:
        parameter.requires_grad_(False)
    grads = []
    for place, parts in (("cpu", 1), (device, 4)):
        model = model.to(place)
        model.zero_grad()
        for x, y in zip(inputs.to(place).chunk(parts), targets.to(place).chunk(parts), strict=True):
            (F.cross_entropy(model(x), y) / parts).backward()
        grads.append([p.grad.cpu().clone() for p in model.parameters() if p.grad is not None])  # `to` moves gradients
    assert len(grads[0]) == len(list(model.parameters())) - len(frozen)
    for ours, theirs in zip(grads[1], grads[0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
