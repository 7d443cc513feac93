"""timm: models without weights are trained as on the CPU, and timm's own tests pass on the device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import timm
import torch

from .harness import DEVICE, on_both, train

# Models that timm made for tests, and one of each of many families, drawn once from the small ones. The size of the
# images, where a model takes others than its own.
QUICK = {"test_vit": 64, "test_resnet": 64, "test_efficientnet": 64}
SAMPLE: dict[str, int | None] = {
    "test_convnext2": 64,
    "test_mambaout": 64,
    "test_nfnet": 64,
    "test_byobnet": 64,
    "test_vit2": 64,
    "cait_xxs24_224": 64,
    "coat_lite_tiny": 64,
    "convit_tiny": 64,
    "crossvit_tiny_240": None,
    "cspnext_tiny": 64,
    "deit_tiny_patch16_224": 64,
    "densenet121": 64,
    "dla46x_c": 64,
    "dpn48b": 64,
    "eca_botnext26ts_256": 64,
    "edgenext_xx_small": 64,
    "efficientvim_m1_dist": 64,
    "efficientvit_b0": 64,
    "efficientvit_m0": 64,
    "fastvit_sa12": 64,
    "gernet_s": 64,
    "gmlp_ti16_224": 64,
    "inception_next_atto": 64,
    "lcnetv2_small": 64,
    "levit_conv_128s": 64,
    "maxvit_pico_rw_256": 64,
    "mobilevit_xxs": 64,
    "pit_ti_distilled_224": 64,
    "pvt_v2_b0": 64,
    "regnetx_002": 64,
    "repghostnet_050": 64,
    "repvit_m0_9": 64,
    "resnest14d": 64,
    "rexnet_100": 64,
    "shvit_s1": 64,
    "starnet_s1": 64,
    "swiftformer_xs": 64,
    "tiny_vit_5m_224": 64,
    "visformer_tiny": 64,
    "xcit_nano_12_p16_224": 64,
}
SIZES = QUICK | SAMPLE

# timm's own tests. What is left out of them takes minutes on any device, is compiled, downloads weights, or, with
# TorchScript, gives a model on the device an input on the CPU.
OWN = {
    "layers": ("tests/test_layers.py", "tests/test_layers_pool.py"),
    "optimizers": ("tests/test_optim.py", "-k", "not kron and not low_precision and not parity and not compiled"),
    "models": (
        "tests/test_models.py",
        "-k",
        "(test_vit or test_resnet or test_convnext3 or test_efficientnet_ln)"
        " and not inference and not pretrained and not torchscript",
    ),
}


def build(name: str) -> torch.nn.Module:
    size = SIZES[name]
    if size is None:
        return timm.create_model(name, num_classes=7)
    try:
        return timm.create_model(name, num_classes=7, img_size=size)
    except TypeError:  # a model of any size
        return timm.create_model(name, num_classes=7)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.matrix) for name in SIZES]
)
def test_a_model_trains_as_on_the_cpu(name: str) -> None:
    def program(device: str) -> Any:
        model = build(name)
        size = SIZES[name] or timm.get_pretrained_cfg_value(name, "input_size")[-1]
        x = torch.randn(2, 3, size, size).to(device)
        labels = torch.tensor([1, 4], device=device)

        def loss(m: torch.nn.Module) -> torch.Tensor:
            out = m(x)
            parts = out if isinstance(out, tuple) else (out,)  # distilled models have two heads
            total: torch.Tensor = sum(torch.nn.functional.cross_entropy(part, labels) for part in parts)
            return total

        return train(model, device, loss, steps=2)

    on_both(program)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", QUICK)
def test_a_scripted_model_computes_as_on_the_cpu(name: str) -> None:
    def program(device: str) -> Any:
        model = torch.jit.script(timm.create_model(name, num_classes=7, scriptable=True).eval()).to(device)
        x = torch.randn(2, 3, 160, 160).to(device)
        with torch.no_grad():
            return [model(x) for _ in range(3)]  # the third time what was learned of the first two is compiled in

    on_both(program)


@pytest.mark.matrix
@pytest.mark.parametrize("part", OWN)
def test_timms_own_tests_pass_on_the_device(part: str) -> None:
    """The tests are in the source distribution. They read the device from the environment."""
    sources = Path(os.environ.get("PROGRAMS_SOURCES", "")) / f"timm-{timm.__version__}"
    if not sources.is_dir():
        pytest.skip(f"timm's source distribution is not in {sources}: run this by way of test_programs.py")
    here = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "without_operators", *OWN[part]]
    done = subprocess.run(
        command,
        cwd=sources,
        env=os.environ | {"TORCH_DEVICE": DEVICE, "PYTHONPATH": str(here)},
        capture_output=True,
        text=True,
        check=False,
    )
    print("\n".join(done.stdout.splitlines()[-12:]))
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
