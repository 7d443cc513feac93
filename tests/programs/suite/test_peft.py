"""peft: adapters of several kinds are trained on a tiny model, merged, saved and loaded, as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from peft.utils.other import infer_device
from safetensors import SafetensorError

from .harness import DEVICE, on_both, train

TARGETS = ["q_proj", "v_proj"]
CONFIGS: dict[str, Callable[[], peft.PeftConfig]] = {
    "LoRA": lambda: peft.LoraConfig(r=4, lora_dropout=0.1, target_modules=TARGETS, modules_to_save=["lm_head"]),
    "DoRA": lambda: peft.LoraConfig(r=4, use_dora=True, target_modules=TARGETS),
    "rsLoRA": lambda: peft.LoraConfig(r=4, use_rslora=True, target_modules=TARGETS, init_lora_weights="gaussian"),
    "PiSSA": lambda: peft.LoraConfig(r=4, target_modules=TARGETS, init_lora_weights="pissa"),
    "AdaLoRA": lambda: peft.AdaLoraConfig(init_r=4, target_r=2, total_step=10, target_modules=TARGETS),
    "IA3": lambda: peft.IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]),
    "LoHa": lambda: peft.LoHaConfig(r=4, target_modules=TARGETS),
    "LoKr": lambda: peft.LoKrConfig(r=4, target_modules=TARGETS),
    "OFT": lambda: peft.OFTConfig(r=0, oft_block_size=4, target_modules=TARGETS),
    "BOFT": lambda: peft.BOFTConfig(boft_block_size=4, target_modules=TARGETS),
    "VeRA": lambda: peft.VeraConfig(r=4, target_modules=TARGETS),
    "HRA": lambda: peft.HRAConfig(r=4, target_modules=TARGETS),
    "Fourier": lambda: peft.FourierFTConfig(n_frequency=10, target_modules=TARGETS),
    "prompt": lambda: peft.PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
    "prefix": lambda: peft.PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
    "P": lambda: peft.PromptEncoderConfig(num_virtual_tokens=3, encoder_hidden_size=16, task_type="CAUSAL_LM"),
    "layer norm": lambda: peft.LNTuningConfig(target_modules=["input_layernorm"]),
}
MERGED = ("LoRA", "DoRA", "rsLoRA", "PiSSA", "IA3", "LoHa", "LoKr", "OFT", "BOFT", "VeRA", "HRA", "Fourier")
QUICK = ("LoRA",)


def base() -> Any:
    torch.manual_seed(7)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=61,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            intermediate_size=48,
            max_position_embeddings=64,
        )
    )


def parameters(names: Any) -> list[Any]:
    return [pytest.param(name, marks=[] if name in QUICK else pytest.mark.matrix) for name in names]


@pytest.mark.parametrize("name", parameters(CONFIGS))
def test_an_adapter_trains_as_on_the_cpu(name: str) -> None:
    def program(device: str) -> Any:
        model = peft.get_peft_model(base(), CONFIGS[name]())
        ids = torch.randint(3, 61, (2, 10)).to(device)
        return train(model, device, lambda m: m(input_ids=ids, labels=ids).loss, lr=1e-2)

    on_both(program)


@pytest.mark.parametrize("name", parameters(MERGED))
def test_a_merged_adapter_gives_the_same_logits(name: str) -> None:
    def program(device: str) -> Any:
        model = peft.get_peft_model(base(), CONFIGS[name]()).to(device).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.01)
            ids = torch.randint(3, 61, (2, 10)).to(device)
            adapted = model(input_ids=ids).logits
            merged = model.merge_and_unload()
            together = merged(input_ids=ids).logits
        torch.testing.assert_close(together, adapted, rtol=1e-3, atol=1e-3)
        return adapted, dict(merged.named_parameters())

    on_both(program)


@pytest.mark.matrix
def test_each_of_several_adapters_gives_the_cpus_logits() -> None:
    def program(device: str) -> Any:
        model = peft.get_peft_model(base(), CONFIGS["LoRA"](), adapter_name="one").to(device).eval()
        model.add_adapter("two", CONFIGS["rsLoRA"]())
        ids = torch.randint(3, 61, (2, 10)).to(device)
        outs = []
        with torch.no_grad():
            for adapter in ("one", "two"):
                model.set_adapter(adapter)
                outs.append(model(input_ids=ids).logits)
            with model.disable_adapter():
                outs.append(model(input_ids=ids).logits)
        assert {p.device.type for p in model.parameters()} == {device}
        return outs

    on_both(program)


def test_a_saved_adapter_is_loaded_onto_the_device(tmp_path: Path) -> None:
    model = peft.get_peft_model(base(), CONFIGS["LoRA"]()).to(DEVICE)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.normal_()
    model.save_pretrained(tmp_path)
    with pytest.raises(SafetensorError, match="is invalid"):  # safetensors does not know the name
        peft.PeftModel.from_pretrained(base().to(DEVICE), tmp_path, torch_device=DEVICE)
    other = peft.PeftModel.from_pretrained(base().to(DEVICE), tmp_path)
    saved, loaded = (dict(m.named_parameters()) for m in (model, other))
    assert saved.keys() == loaded.keys()
    for name, parameter in loaded.items():
        assert parameter.device.type == DEVICE, name
        assert torch.equal(parameter, saved[name]), name


def test_the_default_device_is_the_cpu() -> None:
    """`PeftModel.from_pretrained` without a device loads adapters to the CPU. They follow the model afterwards."""
    assert infer_device() == "cpu"
