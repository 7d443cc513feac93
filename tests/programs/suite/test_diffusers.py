"""diffusers: tiny networks, schedulers and pipelines from configurations, as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
import transformers
from diffusers.utils import torch_utils
from diffusers.utils.torch_utils import randn_tensor

from .harness import DEVICE, on_both, seed, train

CONDITION = 16
UNET = {
    "sample_size": 8,
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "attention_head_dim": 4,
    "cross_attention_dim": CONDITION,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
}
VAE = {
    "block_out_channels": (8, 16),
    "norm_num_groups": 4,
    "latent_channels": 4,
    "sample_size": 16,
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
}


def text() -> torch.Tensor:
    return torch.randn(2, 5, CONDITION)


# A network, and what it is given besides latents.
Inputs = Callable[[], dict[str, torch.Tensor]]
NETWORKS: dict[str, tuple[Callable[[], torch.nn.Module], Inputs]] = {
    "UNet": (
        lambda: diffusers.UNet2DModel(
            sample_size=8,
            block_out_channels=(8, 16),
            norm_num_groups=4,
            layers_per_block=1,
            attention_head_dim=4,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        ),
        lambda: {"sample": torch.randn(2, 3, 8, 8), "timestep": torch.tensor([3, 7])},
    ),
    "conditional UNet": (
        lambda: diffusers.UNet2DConditionModel(**UNET),
        lambda: {"sample": torch.randn(2, 4, 8, 8), "timestep": torch.tensor([3, 7]), "encoder_hidden_states": text()},
    ),
    "autoencoder": (lambda: diffusers.AutoencoderKL(**VAE), lambda: {"sample": torch.randn(2, 3, 16, 16)}),
    "vector-quantized": (
        lambda: diffusers.VQModel(block_out_channels=(8,), norm_num_groups=4, num_vq_embeddings=12),
        lambda: {"sample": torch.randn(2, 3, 16, 16)},
    ),
    "DiT": (
        lambda: diffusers.DiTTransformer2DModel(
            num_attention_heads=2,
            attention_head_dim=8,
            in_channels=4,
            num_layers=2,
            sample_size=8,
            num_embeds_ada_norm=8,
            norm_num_groups=4,
        ),
        lambda: {
            "hidden_states": torch.randn(2, 4, 8, 8),
            "timestep": torch.tensor([3, 7]),
            "class_labels": torch.tensor([0, 2]),
        },
    ),
    "Stable Diffusion 3": (
        lambda: diffusers.SD3Transformer2DModel(
            sample_size=8,
            patch_size=2,
            in_channels=4,
            num_layers=2,
            attention_head_dim=8,
            num_attention_heads=2,
            joint_attention_dim=CONDITION,
            caption_projection_dim=16,
            pooled_projection_dim=12,
            out_channels=4,
        ),
        lambda: {
            "hidden_states": torch.randn(2, 4, 8, 8),
            "encoder_hidden_states": text(),
            "pooled_projections": torch.randn(2, 12),
            "timestep": torch.tensor([3, 7]),
        },
    ),
    "Flux": (
        lambda: diffusers.FluxTransformer2DModel(
            patch_size=1,
            in_channels=4,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=CONDITION,
            pooled_projection_dim=12,
            axes_dims_rope=(4, 4, 8),
        ),
        lambda: {
            "hidden_states": torch.randn(2, 16, 4),
            "encoder_hidden_states": text(),
            "pooled_projections": torch.randn(2, 12),
            "timestep": torch.tensor([0.3, 0.7]),
            "img_ids": torch.randint(0, 4, (16, 3)).float(),
            "txt_ids": torch.zeros(5, 3),
        },
    ),
}

SCHEDULERS = (
    "DDPMScheduler",
    "DDIMScheduler",
    "PNDMScheduler",
    "LMSDiscreteScheduler",
    "EulerDiscreteScheduler",
    "EulerAncestralDiscreteScheduler",
    "HeunDiscreteScheduler",
    "DPMSolverMultistepScheduler",
    "DPMSolverSinglestepScheduler",
    "KDPM2DiscreteScheduler",
    "UniPCMultistepScheduler",
    "DEISMultistepScheduler",
    "LCMScheduler",
    "FlowMatchEulerDiscreteScheduler",
)


@pytest.mark.matrix
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_trains_as_on_the_cpu(name: str) -> None:
    make, inputs = NETWORKS[name]

    def program(device: str) -> Any:
        model = make()
        batch = {key: value.to(device) for key, value in inputs().items()}
        return train(model, device, lambda m: m(**batch, return_dict=False)[0].square().mean(), steps=2)

    on_both(program)


@pytest.mark.matrix
@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_gives_the_cpus_samples(name: str) -> None:
    """The noise is drawn by a generator of the device, which draws the CPU's numbers."""

    def program(device: str) -> Any:
        scheduler = getattr(diffusers, name)()
        scheduler.set_timesteps(4, device=device)
        generator = torch.Generator(device).manual_seed(5)
        sample = randn_tensor((2, 3, 8, 8), generator=generator, device=torch.device(device))
        takes = scheduler.step.__code__.co_varnames
        extra = {"generator": generator} if "generator" in takes else {}
        seen = []
        for step in scheduler.timesteps:
            scaled = scheduler.scale_model_input(sample, step) if hasattr(scheduler, "scale_model_input") else sample
            sample = scheduler.step(torch.sin(3 * scaled), step, sample, **extra).prev_sample
            seen.append(sample)
        return seen

    on_both(program, rtol=1e-3)


def latent_diffusion() -> Any:
    torch.manual_seed(0)
    words = transformers.CLIPTextConfig(
        vocab_size=40,
        hidden_size=CONDITION,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=12,
    )
    return diffusers.StableDiffusionPipeline(
        unet=diffusers.UNet2DConditionModel(**UNET),
        vae=diffusers.AutoencoderKL(**VAE),
        text_encoder=transformers.CLIPTextModel(words),
        tokenizer=None,  # what the tokenizer would give is passed in
        scheduler=diffusers.DDIMScheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def draw(pipe: Any, device: str, generator: torch.Generator) -> Any:
    pipe.set_progress_bar_config(disable=True)
    tokens = torch.tensor([[1, 5, 7, 2]], device=device)
    with torch.no_grad():
        words = pipe.text_encoder(tokens)[0]
    return pipe(
        prompt_embeds=words,
        negative_prompt_embeds=torch.zeros_like(words),
        num_inference_steps=3,
        generator=generator,
        height=16,
        width=16,
        output_type="pt",
    ).images


@pytest.mark.matrix
@pytest.mark.parametrize("where", ["the CPU", "the device"])
def test_a_pipeline_draws_the_cpus_images(where: str) -> None:
    """The noise is from a generator of the CPU, and diffusers copies it, or from a generator of the device."""

    def program(device: str) -> Any:
        pipe = latent_diffusion().to(device)
        assert pipe.device.type == device
        return draw(pipe, device, torch.Generator(device if where == "the device" else "cpu").manual_seed(3))

    on_both(program)


@pytest.mark.matrix
def test_a_saved_pipeline_is_loaded_with_its_weights(tmp_path: Path) -> None:
    pipe = diffusers.DDPMPipeline(NETWORKS["UNet"][0](), diffusers.DDPMScheduler()).to(DEVICE)
    pipe.save_pretrained(tmp_path)
    other = diffusers.DDPMPipeline.from_pretrained(tmp_path).to(DEVICE)
    for one, two in zip(pipe.unet.parameters(), other.unet.parameters(), strict=True):
        assert two.device.type == DEVICE
        assert torch.equal(one, two)


@pytest.mark.matrix
def test_a_pipeline_with_offloaded_models_draws_the_cpus_images() -> None:
    """Each part is on the device while it runs, if the pipeline is told the device."""
    expected = draw(latent_diffusion(), "cpu", torch.Generator().manual_seed(3))
    pipe = latent_diffusion()
    pipe.enable_model_cpu_offload(device=DEVICE)
    pipe.set_progress_bar_config(disable=True)
    words = torch.nn.Module.__call__(pipe.text_encoder, torch.tensor([[1, 5, 7, 2]], device=DEVICE))[0].detach()
    found = pipe(
        prompt_embeds=words,
        negative_prompt_embeds=torch.zeros_like(words),
        num_inference_steps=3,
        generator=torch.Generator().manual_seed(3),
        height=16,
        width=16,
        output_type="pt",
    ).images
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)
    assert {p.device.type for p in pipe.unet.parameters()} == {"cpu"}


def test_an_exponential_average_follows_the_parameters_as_on_the_cpu() -> None:
    def program(device: str) -> Any:
        seed()
        model = torch.nn.Linear(3, 3).to(device)
        average = diffusers.training_utils.EMAModel(model.parameters(), decay=0.9)
        average.to(device)
        for _ in range(3):
            with torch.no_grad():
                model.weight.add_(1.0)
            average.step(model.parameters())
        average.store(model.parameters())
        average.copy_to(model.parameters())
        copied = [p.clone() for p in model.parameters()]
        average.restore(model.parameters())
        return copied, list(model.parameters())

    on_both(program)


def test_the_default_device_is_this_device() -> None:
    assert torch_utils.get_device() == DEVICE
