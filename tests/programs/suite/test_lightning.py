"""Lightning: a trainer and Fabric with an accelerator of the device's own, as its documentation describes one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.fabric import Fabric
from lightning.fabric.strategies import SingleDeviceStrategy as FabricStrategy
from lightning.pytorch.accelerators import Accelerator
from lightning.pytorch.plugins import MixedPrecision
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch.utils.data import DataLoader, TensorDataset

from .harness import DEVICE, on_both, seed


class DeviceAccelerator(Accelerator):  # type: ignore[misc]
    """What a vendor writes: everything else goes by the device that the strategy is given."""

    def setup_device(self, device: torch.device) -> None:
        torch.accelerator.set_device_index(device)

    def teardown(self) -> None:
        torch.accelerator.empty_cache()

    @staticmethod
    def parse_devices(devices: Any) -> Any:
        return list(range(devices)) if isinstance(devices, int) else devices

    @staticmethod
    def get_parallel_devices(devices: Any) -> list[torch.device]:
        return [torch.device(DEVICE, index) for index in devices]

    @staticmethod
    def auto_device_count() -> int:
        return int(torch.accelerator.device_count())

    @staticmethod
    def is_available() -> bool:
        return bool(torch.accelerator.is_available())

    @staticmethod
    def name() -> str:
        return DEVICE

    def get_device_stats(self, device: torch.device) -> dict[str, Any]:
        return dict(torch.accelerator.memory_stats(device))


class Net(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.GELU(), torch.nn.Linear(8, 3)
        )
        self.losses: list[torch.Tensor] = []
        self.validated: list[torch.Tensor] = []

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        x, y = batch
        assert x.device == self.device
        loss = torch.nn.functional.cross_entropy(self.net(x), y)
        self.losses.append(loss.detach())
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        x, y = batch
        self.validated.append(torch.nn.functional.cross_entropy(self.net(x), y))
        self.log("validated", self.validated[-1])

    def predict_step(self, batch: Any, index: int) -> torch.Tensor:
        scores: torch.Tensor = self.net(batch[0])
        return scores

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2, eps=1e-5)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


def loader() -> DataLoader[Any]:
    torch.manual_seed(1)
    return DataLoader(TensorDataset(torch.randn(16, 6), torch.randint(0, 3, (16,))), batch_size=4)


def trainer(device: str, folder: Path, **options: Any) -> Any:
    accelerator: Any = "cpu"
    if device != "cpu":
        accelerator = DeviceAccelerator()
        place = torch.device(device, 0)
        options["strategy"] = SingleDeviceStrategy(device=place, accelerator=accelerator)
    return lightning.Trainer(
        accelerator=accelerator if device == "cpu" else "auto",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **options,
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"accumulate_grad_batches": 2, "gradient_clip_val": 0.5},
        {"precision": "64-true"},
        {"precision": "bf16-true"},
    ],
    ids=["plain", "accumulation", "float64", "bfloat16"],
)
def test_the_trainer_trains_as_on_the_cpu(options: dict[str, Any], tmp_path: Path) -> None:
    def program(device: str) -> Any:
        torch.manual_seed(0)
        net = Net()
        seed()
        run = trainer(device, tmp_path / device, max_epochs=2, **options)
        run.fit(net, loader(), loader())
        saved = torch.load(run.checkpoint_callback.best_model_path, weights_only=False)
        assert {value.device.type for value in saved["state_dict"].values()} == {device}
        scores = run.predict(net, loader())
        net.to(device)  # Lightning moves it to the CPU in the end
        return (
            [x.to(device) for x in net.losses + net.validated],
            list(net.parameters()),
            [x.to(device) for x in scores],
        )

    loose = "bf16" in str(options)
    on_both(program, rtol=2e-2 if loose else 1e-4, atol=2e-2 if loose else 1e-5)


@pytest.mark.matrix
def test_training_resumes_from_a_checkpoint_as_on_the_cpu(tmp_path: Path) -> None:
    def program(device: str) -> Any:
        torch.manual_seed(0)
        first = trainer(device, tmp_path / device, max_epochs=1)
        first.fit(Net(), loader())
        torch.manual_seed(5)
        net = Net()
        again = trainer(device, tmp_path / device, max_epochs=2)
        again.fit(net, loader(), ckpt_path=first.checkpoint_callback.best_model_path)
        return [x.to(device) for x in net.losses], list(net.to(device).parameters())

    on_both(program)


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_mixed_precision_computes_in_16_bits_and_keeps_float32_parameters(kind: str, tmp_path: Path) -> None:
    """The plugin gets the device explicitly. If Lightning chose the plugin, it would be CUDA's."""
    torch.manual_seed(0)
    net = Net()
    short = {"bfloat16": "bf16-mixed", "float16": "16-mixed"}[kind]
    seen: list[torch.dtype] = []
    net.net[0].register_forward_hook(lambda module, given, out: seen.append(out.dtype))
    plugin = MixedPrecision(short, DEVICE)
    trainer(DEVICE, tmp_path, max_epochs=1, plugins=[plugin]).fit(net, loader())
    assert set(seen) == {getattr(torch, kind)}
    losses = [float(loss) for loss in net.losses]
    assert len(losses) == 4
    assert all(map(math.isfinite, losses)), losses
    assert {p.dtype for p in net.parameters()} == {torch.float32}


def test_fabric_trains_as_on_the_cpu() -> None:
    def program(device: str) -> Any:
        torch.manual_seed(0)
        net = torch.nn.Linear(6, 3)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, eps=1e-5)
        if device == "cpu":
            fabric = Fabric(accelerator="cpu", devices=1)
        else:
            fabric = Fabric(
                strategy=FabricStrategy(torch.device(device, 0), accelerator=DeviceAccelerator()), devices=1
            )
        wrapped, optimizer = fabric.setup(net, optimizer)
        losses = []
        for x, y in fabric.setup_dataloaders(loader()):
            assert x.device.type == device
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(wrapped(x), y)
            fabric.backward(loss)
            fabric.clip_gradients(wrapped, optimizer, max_norm=0.5)
            optimizer.step()
            losses.append(loss.detach())
        return losses, list(net.parameters())

    on_both(program)


def test_the_default_device_is_the_cpu(tmp_path: Path) -> None:
    run = lightning.Trainer(logger=False, default_root_dir=tmp_path, enable_progress_bar=False)
    assert run.strategy.root_device.type == "cpu"


def test_the_name_of_the_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="invalid accelerator name"):
        lightning.Trainer(accelerator=DEVICE, default_root_dir=tmp_path)


def test_an_accelerator_without_a_strategy_runs_on_the_cpu(tmp_path: Path) -> None:
    """Lightning does not know the class, and silently chooses the strategy of the CPU."""
    run = lightning.Trainer(accelerator=DeviceAccelerator(), devices=1, logger=False, default_root_dir=tmp_path)
    assert run.strategy.root_device.type == "cpu"
