"""Hugging Face transformers: tiny models from configurations are trained, and generate, as on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from accelerate.state import AcceleratorState, GradientState, PartialState

from .harness import DEVICE, moved, on_both, seed, ties, train

# A model of text: sizes by the names that most configurations share.
TEXT: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = TEXT | {"num_key_value_heads": 2}
GPT = {
    "vocab_size": 61,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SEQ2SEQ = {
    "vocab_size": 61,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
T5 = {
    "vocab_size": 61,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
IMAGE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 5,
}
WINDOWS = {
    "image_size": 32,
    "patch_size": 4,
    "embed_dim": 16,
    "depths": [1, 1],
    "num_heads": [2, 4],
    "window_size": 4,
    "num_labels": 5,
}
SOUND = {
    "vocab_size": 17,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "conv_dim": [16, 16],
    "conv_kernel": [8, 4],
    "conv_stride": [4, 4],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0,
    "layerdrop": 0.0,
    "pad_token_id": 0,
}
SERIES = {
    "prediction_length": 4,
    "context_length": 16,
    "lags_sequence": [1, 2, 8],
    "num_time_features": 2,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
}
# For what draws from the CPU's generator while it runs: on the CPU, that changes what dropout draws after it.
WITHOUT_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
EXPERTS = GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2}


def tokens(size: int = 61, *shape: int) -> torch.Tensor:
    return torch.randint(3, size, shape or (2, 12))


def causal() -> dict[str, Any]:
    ids = tokens()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def padded() -> dict[str, Any]:
    ids = tokens()
    mask = torch.ones_like(ids)
    mask[1, 8:] = 0
    labels = torch.where(torch.rand(ids.shape) < 0.4, ids, -100)
    labels[0, 0] = ids[0, 0]
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": labels}


def translation() -> dict[str, Any]:
    return {"input_ids": tokens(), "attention_mask": torch.ones(2, 12, dtype=torch.long), "labels": tokens(61, 2, 7)}


def images() -> dict[str, Any]:
    return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([1, 4])}


def captions() -> dict[str, Any]:
    ids = tokens()
    ids[:, -1] = 2
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": torch.randn(2, 3, 32, 32),
        "return_loss": True,
    }


def sound() -> dict[str, Any]:
    return {"input_values": torch.randn(2, 800), "labels": torch.randint(1, 17, (2, 5))}


def spectrogram() -> dict[str, Any]:
    return {"input_features": torch.randn(2, 16, 60), "labels": tokens(61, 2, 7)}


def series() -> dict[str, Any]:
    return {
        "past_values": torch.randn(2, 24),
        "past_time_features": torch.randn(2, 24, 2),
        "past_observed_mask": torch.ones(2, 24),
        "future_values": torch.randn(2, 4),
        "future_time_features": torch.randn(2, 4, 2),
    }


def objects() -> dict[str, Any]:
    labels = [
        {"class_labels": torch.tensor(kinds), "boxes": torch.rand(len(kinds), 4) * 0.3 + 0.2} for kinds in ([1, 2], [0])
    ]
    return {"pixel_values": torch.randn(2, 3, 64, 64), "labels": labels}


@dataclass(frozen=True)
class Case:
    """A model class, what its configuration is told, what it is fed, and what it is to generate from."""

    model: str
    options: dict[str, Any]
    batch: Callable[[], dict[str, Any]]
    prompt: tuple[str, ...] = ()
    quick: bool = False
    tied: bool = False
    ways: tuple[str, ...] = ("greedy", "sampled", "beams")

    def build(self) -> Any:
        model_class = getattr(transformers, self.model)
        return model_class(model_class.config_class(**self.options))


IDS = ("input_ids",)
MASKED = ("input_ids", "attention_mask")

CASES = {
    # decoders
    "gpt2": Case("GPT2LMHeadModel", GPT, causal, MASKED, quick=True, tied=True),
    "gpt_neo": Case(
        "GPTNeoForCausalLM",
        TEXT | {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 4},
        causal,
        MASKED,
        tied=True,
    ),
    "gpt_neox": Case("GPTNeoXForCausalLM", TEXT, causal, MASKED),
    "gptj": Case("GPTJForCausalLM", GPT | {"rotary_dim": 4}, causal, MASKED),
    "codegen": Case("CodeGenForCausalLM", GPT | {"rotary_dim": 4}, causal, MASKED),
    "opt": Case("OPTForCausalLM", TEXT | {"ffn_dim": 48, "word_embed_proj_dim": 32}, causal, MASKED, tied=True),
    "bloom": Case("BloomForCausalLM", TEXT | {"n_layer": 2, "n_head": 4}, causal, MASKED, tied=True),
    "mpt": Case(
        "MptForCausalLM",
        {"vocab_size": 61, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64},
        causal,
        MASKED,
        tied=True,
    ),
    "falcon": Case("FalconForCausalLM", TEXT, causal, MASKED, tied=True),
    "llama": Case("LlamaForCausalLM", GROUPED, causal, MASKED, quick=True),
    "mistral": Case("MistralForCausalLM", GROUPED | {"sliding_window": 4}, causal, MASKED),
    "qwen2": Case("Qwen2ForCausalLM", GROUPED, causal, MASKED),
    "qwen3": Case("Qwen3ForCausalLM", GROUPED | {"head_dim": 8}, causal, MASKED),
    "gemma": Case("GemmaForCausalLM", GROUPED | {"head_dim": 8}, causal, MASKED, tied=True),
    "gemma2": Case("Gemma2ForCausalLM", GROUPED | {"head_dim": 8, "sliding_window": 4}, causal, MASKED, tied=True),
    "gemma3": Case("Gemma3ForCausalLM", GROUPED | {"head_dim": 8, "sliding_window": 4}, causal, MASKED, tied=True),
    "phi": Case("PhiForCausalLM", TEXT, causal, MASKED),
    "phi3": Case("Phi3ForCausalLM", GROUPED, causal, MASKED),
    "stablelm": Case("StableLmForCausalLM", GROUPED, causal, MASKED),
    "olmo2": Case("Olmo2ForCausalLM", GROUPED, causal, MASKED),
    "cohere": Case("CohereForCausalLM", GROUPED, causal, MASKED, tied=True),
    "starcoder2": Case("Starcoder2ForCausalLM", GROUPED, causal, MASKED, tied=True),
    "persimmon": Case("PersimmonForCausalLM", TEXT, causal, MASKED),
    "nemotron": Case("NemotronForCausalLM", GROUPED, causal, MASKED),
    "granite": Case("GraniteForCausalLM", GROUPED, causal, MASKED),
    "biogpt": Case("BioGptForCausalLM", TEXT, causal, MASKED, tied=True),
    "ctrl": Case("CTRLLMHeadModel", GPT | {"dff": 48}, causal, IDS, tied=True),
    "xlm": Case(
        "XLMWithLMHeadModel",
        {"vocab_size": 61, "emb_dim": 32, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64},
        padded,
        tied=True,
    ),
    # mixtures of experts
    "mixtral": Case("MixtralForCausalLM", EXPERTS, causal, MASKED),
    "qwen3_next": Case(
        "Qwen3NextForCausalLM",
        GROUPED
        | {
            "head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"],
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 16,
        },
        causal,
        MASKED,
    ),
    "qwen2_moe": Case(
        "Qwen2MoeForCausalLM",
        GROUPED
        | {
            "num_experts": 4,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 16,
            "num_experts_per_tok": 2,
        },
        causal,
        MASKED,
    ),
    "olmoe": Case("OlmoeForCausalLM", GROUPED | {"num_experts": 4, "num_experts_per_tok": 2}, causal, MASKED),
    "gpt_oss": Case("GptOssForCausalLM", EXPERTS | {"head_dim": 8, "sliding_window": 4}, causal, MASKED),
    "deepseek_v3": Case(
        "DeepseekV3ForCausalLM",
        TEXT
        | {
            "moe_intermediate_size": 16,
            "n_routed_experts": 4,
            "n_group": 2,
            "topk_group": 1,
            "num_experts_per_tok": 2,
            "first_k_dense_replace": 1,
            "kv_lora_rank": 8,
            "q_lora_rank": 8,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 4,
            "v_head_dim": 8,
        },
        causal,
        MASKED,
    ),
    # recurrent and state space
    "mamba": Case("MambaForCausalLM", TEXT | {"state_size": 4}, causal, IDS, tied=True, quick=True),
    "mamba2": Case(
        "Mamba2ForCausalLM",
        TEXT
        | {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 4, "tie_word_embeddings": True},
        causal,
        IDS,
        tied=True,
    ),
    "rwkv": Case(
        "RwkvForCausalLM",
        TEXT | {"attention_hidden_size": 32, "context_length": 64},
        causal,
        IDS,
        ways=("greedy", "sampled"),
    ),
    "recurrent_gemma": Case(
        "RecurrentGemmaForCausalLM",
        GROUPED | {"lru_width": 32, "attention_window_size": 8, "num_hidden_layers": 3, "head_dim": 8},
        causal,
        MASKED,
        tied=True,
    ),
    "falcon_mamba": Case("FalconMambaForCausalLM", TEXT | {"state_size": 4}, causal, IDS, tied=True),
    "bamba": Case(
        "BambaForCausalLM",
        GROUPED
        | {
            "mamba_d_state": 8,
            "mamba_n_heads": 8,
            "mamba_d_head": 8,
            "mamba_n_groups": 1,
            "mamba_chunk_size": 4,
            "attn_layer_indices": [1],
        },
        causal,
        MASKED,
    ),
    "lfm2": Case(
        "Lfm2ForCausalLM",
        GROUPED | {"layer_types": ["conv", "full_attention"], "conv_L_cache": 3},
        causal,
        MASKED,
        tied=True,
    ),
    "jamba": Case(
        "JambaForCausalLM",
        GROUPED
        | {
            "num_experts": 2,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "use_mamba_kernels": False,
            "mamba_d_state": 4,
        },
        causal,
        MASKED,
    ),
    # encoders
    "bert": Case("BertForMaskedLM", TEXT, padded, tied=True, quick=True),
    "roberta": Case("RobertaForMaskedLM", TEXT, padded, tied=True),
    "distilbert": Case(
        "DistilBertForMaskedLM", TEXT | {"dim": 32, "hidden_dim": 48, "n_heads": 4, "n_layers": 2}, padded, tied=True
    ),
    "electra": Case("ElectraForMaskedLM", TEXT | {"embedding_size": 16}, padded, tied=True),
    "albert": Case("AlbertForMaskedLM", TEXT | {"embedding_size": 16}, padded, tied=True),
    "deberta_v2": Case(
        "DebertaV2ForMaskedLM",
        TEXT | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
        padded,
        tied=True,
    ),
    "mobilebert": Case(
        "MobileBertForMaskedLM",
        TEXT
        | {"embedding_size": 16, "true_hidden_size": 32, "intra_bottleneck_size": 32, "num_feedforward_networks": 2},
        padded,
        tied=True,
    ),
    "modernbert": Case("ModernBertForMaskedLM", TEXT | {"local_attention": 8}, padded, tied=True),
    "longformer": Case("LongformerForMaskedLM", TEXT | {"attention_window": 4}, padded, tied=True),
    "big_bird": Case("BigBirdForMaskedLM", TEXT | {"attention_type": "original_full"}, padded, tied=True),
    "xlnet": Case(
        "XLNetLMHeadModel",
        {"vocab_size": 61, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
        causal,
        tied=True,
    ),
    "squeezebert": Case("SqueezeBertForMaskedLM", TEXT | {"embedding_size": 32}, padded, tied=True),
    "fnet": Case("FNetForMaskedLM", TEXT, causal, tied=True),
    "convbert": Case("ConvBertForMaskedLM", TEXT | {"embedding_size": 32}, padded, tied=True),
    "esm": Case("EsmForMaskedLM", TEXT | {"mask_token_id": 3, "position_embedding_type": "rotary"}, padded, tied=True),
    "funnel": Case(
        "FunnelForMaskedLM",
        {
            "vocab_size": 61,
            "d_model": 32,
            "n_head": 4,
            "d_head": 8,
            "d_inner": 48,
            "block_sizes": [1, 1],
            "num_decoder_layers": 1,
        },
        padded,
        tied=True,
    ),
    "canine": Case(
        "CanineForSequenceClassification",
        TEXT | {"num_hash_buckets": 32, "local_transformer_stride": 8, "num_labels": 3},
        lambda: {"input_ids": tokens(900, 2, 32), "labels": torch.tensor([0, 1])},
    ),
    "layoutlm": Case(
        "LayoutLMForMaskedLM",
        TEXT,
        lambda: padded() | {"bbox": torch.randint(0, 500, (2, 12, 4)).sort(-1).values},
        tied=True,
    ),
    # encoders with decoders
    "t5": Case("T5ForConditionalGeneration", T5, translation, MASKED, tied=True, quick=True),
    "umt5": Case("UMT5ForConditionalGeneration", T5, translation, MASKED, tied=True),
    "switch_transformers": Case(
        "SwitchTransformersForConditionalGeneration",
        T5
        | {
            "num_decoder_layers": 2,
            "num_experts": 2,
            "num_sparse_encoder_layers": 1,
            "num_sparse_decoder_layers": 1,
            "expert_capacity": 16,
        },
        translation,
        MASKED,
        tied=True,
    ),
    "bart": Case("BartForConditionalGeneration", SEQ2SEQ, translation, MASKED, tied=True),
    "mbart": Case("MBartForConditionalGeneration", SEQ2SEQ, translation, MASKED, tied=True),
    "pegasus": Case("PegasusForConditionalGeneration", SEQ2SEQ, translation, MASKED, tied=True),
    "marian": Case("MarianMTModel", SEQ2SEQ, translation, MASKED, tied=True),
    "blenderbot": Case("BlenderbotForConditionalGeneration", SEQ2SEQ, translation, MASKED, tied=True),
    "led": Case(
        "LEDForConditionalGeneration",
        SEQ2SEQ | {"attention_window": 4, "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64},
        translation,
        MASKED,
        tied=True,
    ),
    # images
    "vit": Case("ViTForImageClassification", IMAGE, images, quick=True),
    "deit": Case("DeiTForImageClassification", IMAGE, images),
    "beit": Case("BeitForImageClassification", IMAGE, images),
    "dinov2": Case("Dinov2ForImageClassification", IMAGE, images),
    "vit_mae": Case(
        "ViTMAEForPreTraining",
        IMAGE
        | {
            "decoder_hidden_size": 16,
            "decoder_num_hidden_layers": 1,
            "decoder_num_attention_heads": 2,
            "decoder_intermediate_size": 16,
        },
        lambda: {"pixel_values": torch.randn(2, 3, 32, 32)},
    ),
    "swin": Case("SwinForImageClassification", WINDOWS, images),
    "swinv2": Case("Swinv2ForImageClassification", WINDOWS, images),
    "convnext": Case(
        "ConvNextForImageClassification",
        {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "num_labels": 5},
        images,
    ),
    "resnet": Case(
        "ResNetForImageClassification",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 5},
        images,
    ),
    "mobilevit": Case(
        "MobileViTForImageClassification",
        {
            "image_size": 32,
            "hidden_sizes": [16, 20, 24],
            "neck_hidden_sizes": [8, 8, 16, 16, 20, 24, 32],
            "num_labels": 5,
        },
        images,
    ),
    "segformer": Case(
        "SegformerForSemanticSegmentation",
        {
            "hidden_sizes": [8, 16],
            "depths": [1, 1],
            "num_encoder_blocks": 2,
            "num_attention_heads": [1, 2],
            "sr_ratios": [2, 1],
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "mlp_ratios": [2, 2],
            "decoder_hidden_size": 16,
            # It is after a convolution, whose result may be laid out otherwise than the CPU's, and draws in that order.
            "classifier_dropout_prob": 0.0,
            "num_labels": 5,
        },
        lambda: {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.randint(0, 5, (2, 32, 32))},
    ),
    "videomae": Case(
        "VideoMAEForVideoClassification",
        IMAGE | {"num_frames": 4, "tubelet_size": 2},
        lambda: {"pixel_values": torch.randn(2, 4, 3, 32, 32), "labels": torch.tensor([1, 4])},
    ),
    "levit": Case(
        "LevitForImageClassification",
        {
            "image_size": 32,
            "hidden_sizes": [16, 24, 32],
            "num_attention_heads": [1, 2, 2],
            "depths": [1, 1, 1],
            "key_dim": [8, 8, 8],
            "num_labels": 5,
        },
        images,
    ),
    "pvt_v2": Case(
        "PvtV2ForImageClassification",
        {
            "image_size": 32,
            "hidden_sizes": [8, 16, 16, 24],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 1, 2, 2],
            "num_labels": 5,
        },
        images,
    ),
    "mobilenet_v2": Case(
        "MobileNetV2ForImageClassification", {"image_size": 32, "depth_multiplier": 0.25, "num_labels": 5}, images
    ),
    "yolos": Case("YolosForObjectDetection", IMAGE | {"image_size": [64, 64], "num_detection_tokens": 4}, objects),
    "detr": Case(
        "DetrForObjectDetection",
        SEQ2SEQ
        | {
            "use_timm_backbone": False,
            "backbone": None,
            "use_pretrained_backbone": False,
            "backbone_config": {
                "model_type": "resnet",
                "embedding_size": 8,
                "hidden_sizes": [8, 8, 16, 16],
                "depths": [1, 1, 1, 1],
                "out_features": ["stage4"],
            },
            "num_queries": 6,
            "num_labels": 5,
        },
        objects,
    ),
    # several kinds of input
    "clip": Case("CLIPModel", {"text_config": TEXT, "vision_config": IMAGE, "projection_dim": 16}, captions),
    "siglip": Case("SiglipModel", {"text_config": TEXT, "vision_config": IMAGE}, captions),
    "blip": Case(
        "BlipForConditionalGeneration",
        {"text_config": TEXT | {"encoder_hidden_size": 32, "sep_token_id": 2}, "vision_config": IMAGE},
        lambda: captions() | {"return_loss": None, "labels": tokens()},
        ("pixel_values",),
        tied=True,
    ),
    "perceiver": Case(
        "PerceiverForMaskedLM",
        {
            "vocab_size": 61,
            "d_model": 32,
            "d_latents": 32,
            "num_latents": 8,
            "num_blocks": 1,
            "num_self_attends_per_block": 2,
            "num_self_attention_heads": 4,
            "num_cross_attention_heads": 4,
            "max_position_embeddings": 12,
        },
        padded,
    ),
    "groupvit": Case(
        "GroupViTModel",
        {
            "text_config": TEXT,
            "vision_config": IMAGE | {"depths": [1, 1], "num_group_tokens": [4, 2], "num_output_groups": [4, 2]},
        },
        captions,
    ),
    "owlvit": Case("OwlViTModel", {"text_config": TEXT, "vision_config": IMAGE}, captions),
    "vilt": Case(
        "ViltForQuestionAnswering",
        TEXT | IMAGE,
        lambda: {"input_ids": tokens(), "pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.rand(2, 5)},
    ),
    # sound
    "wav2vec2": Case("Wav2Vec2ForCTC", SOUND, sound),
    "hubert": Case("HubertForCTC", SOUND, sound),
    "wavlm": Case("WavLMForCTC", SOUND, sound),
    "whisper": Case(
        "WhisperForConditionalGeneration",
        SEQ2SEQ
        | {
            "num_mel_bins": 16,
            "max_source_positions": 30,
            "max_target_positions": 32,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        },
        spectrogram,
        ("input_features",),
        tied=True,
    ),
    "audio_spectrogram_transformer": Case(
        "ASTForAudioClassification",
        {k: v for k, v in IMAGE.items() if k != "image_size"}
        | {"num_mel_bins": 16, "max_length": 32, "frequency_stride": 4, "time_stride": 4},
        lambda: {"input_values": torch.randn(2, 32, 16), "labels": torch.tensor([1, 4])},
    ),
    "musicgen": Case(
        "MusicgenForCausalLM",
        TEXT | {"ffn_dim": 48, "num_codebooks": 2},
        lambda: {"input_ids": tokens(61, 4, 8), "labels": tokens(61, 2, 8, 2)},
    ),
    # series
    "time_series_transformer": Case("TimeSeriesTransformerForPrediction", SERIES, series),
    "informer": Case("InformerForPrediction", SERIES | WITHOUT_DROPOUT, series),
    "autoformer": Case("AutoformerForPrediction", SERIES | {"moving_average": 5, "label_length": 8}, series),
    "patchtst": Case(
        "PatchTSTForPrediction",
        {
            "num_input_channels": 2,
            "context_length": 16,
            "patch_length": 4,
            "patch_stride": 4,
            "d_model": 16,
            "num_attention_heads": 2,
            "num_hidden_layers": 2,
            "ffn_dim": 32,
            "prediction_length": 4,
        },
        lambda: {"past_values": torch.randn(2, 16, 2), "future_values": torch.randn(2, 4, 2)},
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if case.quick else pytest.mark.matrix) for name, case in CASES.items()]
)
def test_an_architecture_trains_as_on_the_cpu(name: str) -> None:
    case = CASES[name]

    def program(device: str) -> Any:
        model = case.build()
        batch = moved(case.batch(), device)
        result = train(model, device, lambda m: m(**batch).loss)
        assert bool(result["ties"]) == case.tied, result["ties"]
        model.eval()
        with torch.no_grad():
            result["logits"] = list(model(**batch).values())[1]
        return result

    on_both(program)


WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"do_sample": True, "top_k": 20, "top_p": 0.9, "temperature": 0.7},
    "beams": {"num_beams": 3},
}


def generations() -> list[Any]:
    """Greedy generation by the quick models runs in `make test`, the rest only in the matrix."""
    return [
        pytest.param(name, how, id=f"{name}-{how}", marks=[] if case.quick and how == "greedy" else pytest.mark.matrix)
        for name, case in CASES.items()
        for how in case.ways
        if case.prompt
    ]


@pytest.mark.parametrize(("name", "how"), generations())
def test_an_architecture_generates_the_cpus_tokens(name: str, how: str) -> None:
    case = CASES[name]

    def program(device: str) -> Any:
        model = case.build().eval().to(device)
        batch = moved(case.batch(), device)
        prompt = {key: batch[key] for key in case.prompt}
        seed()
        return model.generate(**prompt, max_new_tokens=6, **WAYS[how])

    on_both(program)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_16_bits_computes_as_on_the_cpu(dtype: torch.dtype, attention: str) -> None:
    """All parameters have 16 bits, so rounding differs in some results."""

    def program(device: str) -> Any:
        model = CASES["llama"].build().to(device, dtype)
        model.set_attn_implementation(attention)
        batch = moved(causal(), device)
        out = model(**batch)
        out.loss.backward()
        return out.loss, out.logits, [p.grad for p in model.parameters()]

    on_both(program, rtol=3e-2, atol=3e-3)


def test_autocast_trains_as_on_the_cpu() -> None:
    def program(device: str) -> Any:
        model = CASES["bert"].build()
        batch = moved(padded(), device)

        def loss(m: Any) -> Any:
            with torch.autocast(device, torch.bfloat16):
                out = m(**batch)
            assert out.logits.dtype == torch.bfloat16
            return out.loss.float()

        return train(model, device, loss)["losses"]

    on_both(program, rtol=2e-2, atol=2e-2)


def test_gradient_checkpointing_trains_as_on_the_cpu() -> None:
    """Dropout draws the same numbers when a layer is computed again."""

    def program(device: str) -> Any:
        model = CASES["gpt2"].build()
        model.gradient_checkpointing_enable({"use_reentrant": False})
        batch = moved(causal(), device)
        return train(model, device, lambda m: m(**batch).loss)

    on_both(program)


def cached(device: str, cache: str) -> Any:
    model = CASES["llama"].build().eval().to(device)
    batch = moved(causal(), device)
    prompt = {key: batch[key] for key in MASKED}
    return model.generate(**prompt, max_new_tokens=6, do_sample=False, cache_implementation=cache, disable_compile=True)


def test_a_static_cache_generates_the_cpus_tokens() -> None:
    on_both(lambda device: cached(device, "static"))


def test_an_offloaded_cache_needs_cuda() -> None:
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        cached(DEVICE, "offloaded")


def test_a_saved_model_is_loaded_onto_the_device(tmp_path: Path) -> None:
    """`device_map` loads the weights directly onto the device. Tied weights stay tied."""
    model = CASES["gpt2"].build().to(DEVICE)
    model.save_pretrained(tmp_path)
    loaded = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, device_map=DEVICE)
    assert ties(loaded) == ties(model) != []
    saved = dict(model.named_parameters())
    for name, parameter in loaded.named_parameters():
        assert parameter.device.type == DEVICE, name
        assert torch.equal(parameter, saved[name]), name


def words() -> Any:
    vocabulary = {
        word: number for number, word in enumerate(["[PAD]", "[BOS]", "[EOS]", *(f"w{i}" for i in range(58))])
    }
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[PAD]"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="[PAD]", eos_token="[EOS]")


def test_a_pipeline_generates_the_cpus_text() -> None:
    def run(device: str) -> Any:
        torch.manual_seed(0)
        model = CASES["gpt2"].build()
        pipe = transformers.pipeline("text-generation", model=model, tokenizer=words(), device=device)
        assert pipe.model.device.type == device
        return pipe(["w1 w2 w3", "w7"], max_new_tokens=5, do_sample=False, pad_token_id=0)

    assert run(DEVICE) == run("cpu")


def test_a_pipeline_with_a_device_index_runs_on_the_cpu() -> None:
    """The library takes a number as the index of an accelerator that it knows, and otherwise silently uses the CPU."""
    pipe = transformers.pipeline("text-generation", model=CASES["gpt2"].build(), tokenizer=words(), device=0)
    assert pipe.device.type == "cpu"


@pytest.fixture
def trainer_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """The library's own training loop. accelerate chooses its device, once in the life of a process."""

    def forget() -> None:
        for state in (AcceleratorState, GradientState, PartialState):
            state._reset_state()

    def make(device: str | None, **options: Any) -> Any:
        forget()
        if device:
            monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", device)
        torch.manual_seed(0)
        rows = [{"input_ids": row, "labels": row} for row in tokens(61, 24, 12)]
        arguments = transformers.TrainingArguments(
            str(tmp_path / str(device)),
            num_train_epochs=2,
            per_device_train_batch_size=4,
            learning_rate=1e-3,
            adam_epsilon=1e-5,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            **options,
        )
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED))
        return transformers.Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:8])

    yield make
    forget()


def test_the_trainer_trains_as_on_the_cpu(trainer_on: Callable[..., Any]) -> None:
    def program(device: str) -> Any:
        trainer = trainer_on(device)
        assert trainer.args.device.type == device
        trainer.train()
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        return losses, trainer.evaluate()["eval_loss"], dict(trainer.model.named_parameters())

    on_both(program)


def test_the_trainer_uses_the_cpu_by_default(trainer_on: Callable[..., Any]) -> None:
    assert trainer_on(None).args.device.type == "cpu"


def test_the_trainer_refuses_bfloat16(trainer_on: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="doesn't support bf16/gpu"):
        trainer_on(DEVICE, bf16=True)
