"""torchvision without its C++ operators: models, transforms of tensors, and the operators that it has in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchvision
from torchvision.transforms import v2

from .harness import DEVICE, on_both, seed, train

MODELS = {
    "densenet121": 32,
    "efficientnet_b0": 32,
    "googlenet": 32,
    "mnasnet0_5": 32,
    "mobilenet_v2": 32,
    "mobilenet_v3_small": 32,
    "regnet_y_400mf": 32,
    "resnet18": 32,
    "resnext50_32x4d": 32,
    "shufflenet_v2_x0_5": 32,
    "squeezenet1_0": 32,
    "swin_t": 32,
    "swin_v2_t": 64,
    "convnext_tiny": 32,
}
QUICK = ("resnet18", "mobilenet_v3_small")
OTHERS: dict[str, tuple[Callable[[], torch.nn.Module], Callable[[], torch.Tensor]]] = {
    "fcn_resnet50": (
        lambda: torchvision.models.segmentation.fcn_resnet50(weights_backbone=None, num_classes=4),
        lambda: torch.randn(2, 3, 32, 32),
    ),
    "lraspp": (
        lambda: torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights_backbone=None, num_classes=4),
        lambda: torch.randn(2, 3, 32, 32),
    ),
    "r3d_18": (lambda: torchvision.models.video.r3d_18(num_classes=4), lambda: torch.randn(2, 3, 4, 32, 32)),
    "vision transformer": (
        lambda: torchvision.models.VisionTransformer(32, 8, 2, 4, 32, 48, num_classes=4),
        lambda: torch.randn(2, 3, 32, 32),
    ),
    "VGG": (
        lambda: torchvision.models.vgg.make_layers([8, "M", 16, "M"], batch_norm=True),
        lambda: torch.randn(2, 3, 32, 32),
    ),
    "raft_small": (
        lambda: torchvision.models.optical_flow.raft_small(weights=None),
        lambda: torch.randn(1, 3, 128, 128),
    ),
}

TRANSFORMS: dict[str, Any] = {
    "resize": v2.Resize((9, 13), antialias=True),
    "resize nearest": v2.Resize((9, 13), interpolation=v2.InterpolationMode.NEAREST),
    "resize bicubic": v2.Resize((19, 33), interpolation=v2.InterpolationMode.BICUBIC),
    "crop": v2.RandomCrop(8),
    "resized crop": v2.RandomResizedCrop(8, antialias=True),
    "flip": v2.Compose([v2.RandomHorizontalFlip(1.0), v2.RandomVerticalFlip(1.0)]),
    "rotate": v2.RandomRotation(30, interpolation=v2.InterpolationMode.BILINEAR),
    "affine": v2.RandomAffine(20, translate=(0.1, 0.1), scale=(0.8, 1.2), shear=5),
    "perspective": v2.RandomPerspective(p=1.0),
    "elastic": v2.ElasticTransform(sigma=1.0),
    "jitter": v2.ColorJitter(0.3, 0.3, 0.3, 0.1),
    "gray": v2.Grayscale(3),
    "blur": v2.GaussianBlur(3),
    "noise": v2.GaussianNoise(),
    "erase": v2.RandomErasing(p=1.0),
    "normalize": v2.Normalize([0.5] * 3, [0.2] * 3),
    "posterize": v2.Compose([v2.ToDtype(torch.uint8, scale=True), v2.RandomPosterize(3, p=1.0)]),
    "equalize": v2.Compose([v2.ToDtype(torch.uint8, scale=True), v2.RandomEqualize(p=1.0)]),
    "autocontrast": v2.RandomAutocontrast(p=1.0),
    "sharpness": v2.RandomAdjustSharpness(2.0, p=1.0),
    "solarize": v2.RandomSolarize(0.5, p=1.0),
    "trivial augment": v2.Compose([v2.ToDtype(torch.uint8, scale=True), v2.TrivialAugmentWide()]),
}


def test_the_operators_in_cpp_do_not_load() -> None:
    """The other tests therefore run Python code only. If the operators load, add tests for them here."""
    assert not torchvision.extension._has_ops()
    with pytest.raises(RuntimeError, match="Couldn't load custom C\\+\\+ ops"):
        torchvision.ops.nms(torch.ones(1, 4), torch.ones(1), 0.5)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.matrix) for name in MODELS]
)
def test_a_classifier_trains_as_on_the_cpu(name: str) -> None:
    size = MODELS[name]

    def program(device: str) -> Any:
        options: dict[str, Any] = {"num_classes": 5, "weights": None}
        if name == "googlenet":
            options |= {"init_weights": True, "aux_logits": False}
        model = torchvision.models.get_model(name, **options)
        x = torch.randn(2, 3, size, size).to(device)
        labels = torch.tensor([1, 4], device=device)
        return train(model, device, lambda m: torch.nn.functional.cross_entropy(m(x), labels), steps=2)

    on_both(program)


@pytest.mark.matrix
@pytest.mark.parametrize("name", OTHERS)
def test_a_model_of_another_kind_trains_as_on_the_cpu(name: str) -> None:
    build, data = OTHERS[name]

    def program(device: str) -> Any:
        model = build()
        x = data().to(device)

        def loss(m: torch.nn.Module) -> torch.Tensor:
            out = m(x, -x, num_flow_updates=2) if name == "raft_small" else m(x)
            parts = out.values() if isinstance(out, dict) else out if isinstance(out, list) else [out]
            total: torch.Tensor = sum(part.square().mean() for part in parts)
            return total

        return train(model, device, loss, steps=1)

    on_both(program)


@pytest.mark.matrix
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_gives_the_cpus_images(name: str) -> None:
    def program(device: str) -> Any:
        x = torch.rand(2, 3, 16, 24).to(device)
        seed()
        return TRANSFORMS[name](x)

    on_both(program)


def test_operators_in_python_give_the_cpus_results() -> None:
    ops = torchvision.ops

    def program(device: str) -> Any:
        low = torch.rand(6, 2) * 8
        boxes = torch.cat([low, low + 1 + torch.rand(6, 2) * 8], 1).to(device)
        other = boxes.flip(0) + 0.5
        logits = torch.randn(6, 4).to(device).requires_grad_()
        focal = ops.sigmoid_focal_loss(logits, (logits > 0).to(logits.dtype), reduction="mean")
        focal.backward()
        blocks, masks = torch.rand(2, 3, 8, 8).to(device), torch.rand(3, 8, 8).to(device) > 0.8
        seed()
        return {
            "area": ops.box_area(boxes),
            "iou": ops.box_iou(boxes, other),
            "generalized": ops.generalized_box_iou(boxes, other),
            "distance": ops.distance_box_iou_loss(boxes, other),
            "complete": ops.complete_box_iou_loss(boxes, other),
            "converted": ops.box_convert(boxes, "xyxy", "cxcywh"),
            "clipped": ops.clip_boxes_to_image(boxes, (10, 10)),
            "large": ops.remove_small_boxes(boxes, 4.0),
            "masks": ops.masks_to_boxes(masks),
            "focal": focal,
            "gradient": logits.grad,
            "dropped": ops.drop_block2d(blocks, 0.3, 3),
        }

    on_both(program)


def test_alignment_of_regions_needs_the_operators_in_cpp() -> None:
    """The version in Python must be compiled, and PyTorch says that it cannot compile for this device."""
    boxes = torch.tensor([[0.0, 1.0, 1.0, 5.0, 5.0]], device=DEVICE)
    with pytest.raises(RuntimeError, match="Couldn't load custom C\\+\\+ ops"):
        torchvision.ops.roi_align(torch.ones(1, 3, 8, 8, device=DEVICE), boxes, (3, 3))


def test_drawn_pictures_are_the_cpus() -> None:
    def program(device: str) -> Any:
        grid = torchvision.utils.make_grid(torch.rand(5, 3, 8, 8).to(device), nrow=3, normalize=True)
        flow = torchvision.utils.flow_to_image(torch.randn(2, 8, 8).to(device))
        image = (grid * 255).to(torch.uint8)
        masks = torch.rand(2, *image.shape[1:]).to(device) > 0.5
        return grid, flow, torchvision.utils.draw_segmentation_masks(image, masks, colors=["red", "blue"])

    on_both(program)
