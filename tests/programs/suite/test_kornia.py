"""kornia: filters, geometry, colour, losses and augmentations, as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kornia
import pytest
import torch
from kornia import augmentation

from .harness import on_both

K = kornia
OPERATIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "rgb to gray": K.color.rgb_to_grayscale,
    "rgb to hsv": K.color.rgb_to_hsv,
    "rgb to lab": K.color.rgb_to_lab,
    "rgb to yuv420": K.color.rgb_to_yuv420,
    "gaussian blur": lambda x: K.filters.gaussian_blur2d(x, (3, 5), (1.0, 2.0)),
    "bilateral blur": lambda x: K.filters.bilateral_blur(x, (3, 3), 0.1, (1.5, 1.5)),
    "median blur": lambda x: K.filters.median_blur(x, (3, 3)),
    "sobel": K.filters.sobel,
    "canny": lambda x: K.filters.canny(x)[0],
    "laplacian": lambda x: K.filters.laplacian(x, 3),
    "unsharp mask": lambda x: K.filters.unsharp_mask(x, (3, 3), (1.5, 1.5)),
    "rotate": lambda x: K.geometry.transform.rotate(x, torch.tensor([30.0, -20.0], device=x.device)),
    "affine": lambda x: K.geometry.transform.affine(x, torch.eye(2, 3, device=x.device).repeat(2, 1, 1) * 0.9),
    "warp perspective": lambda x: K.geometry.transform.warp_perspective(
        x, torch.eye(3, device=x.device).repeat(2, 1, 1) + 0.001, (10, 12)
    ),
    "resize": lambda x: K.geometry.transform.resize(x, (9, 11), antialias=True),
    "pyramid": lambda x: K.geometry.transform.build_pyramid(x, 2),
    "elastic": lambda x: K.geometry.transform.elastic_transform2d(x, torch.ones(2, 2, 16, 16, device=x.device) * 0.1),
    "homography": lambda x: K.geometry.homography.find_homography_dlt(
        x[:, 0, :6, :2], x[:, 1, :6, :2], torch.ones(2, 6, device=x.device)
    ),
    "equalize": K.enhance.equalize,
    "clahe": lambda x: K.enhance.equalize_clahe(x, grid_size=(4, 4)),
    "adjust": lambda x: K.enhance.adjust_hue(K.enhance.adjust_gamma(x, 0.7), 0.3),
    "histogram": lambda x: K.enhance.histogram(
        x[:, 0].flatten(1), torch.linspace(0, 1, 8, device=x.device), torch.tensor(0.1, device=x.device)
    ),
    "zca": lambda x: K.enhance.zca_whiten(x.flatten(2)[0]),
    "erosion": lambda x: K.morphology.erosion(x, torch.ones(3, 3, device=x.device)),
    "gradient": lambda x: K.morphology.gradient(x, torch.ones(3, 3, device=x.device)),
    "harris": K.feature.harris_response,
    "hessian": K.feature.hessian_response,
    "hog": lambda x: K.feature.dense_sift_descriptor(x[:, :1]) if hasattr(K.feature, "dense_sift_descriptor") else x,
    "ssim": lambda x: K.metrics.ssim(x, x.flip(0), 5),
    "psnr": lambda x: K.metrics.psnr(x, x.flip(0), 1.0),
    "dice loss": lambda x: K.losses.dice_loss(x, x.argmax(1)),
    "total variation": K.losses.total_variation,
    "connected components": lambda x: K.contrib.connected_components((x[:, :1] > 0.5).float(), 20),
    "distance transform": lambda x: K.contrib.distance_transform((x[:, :1] > 0.8).float()),
}
# Kornia has no gradient for these, or only on a set of measure zero.
NO_GRADIENT = {"canny", "equalize", "clahe", "connected components", "distance transform", "histogram"}

AUGMENTATIONS: dict[str, Callable[[], Any]] = {
    "affine": lambda: augmentation.RandomAffine(20.0, (0.1, 0.1), (0.8, 1.2), p=1.0),
    "perspective": lambda: augmentation.RandomPerspective(0.4, p=1.0),
    "rotation": lambda: augmentation.RandomRotation(30.0, p=1.0),
    "resized crop": lambda: augmentation.RandomResizedCrop((12, 12), p=1.0),
    "jitter": lambda: augmentation.ColorJiggle(0.3, 0.3, 0.3, 0.1, p=1.0),
    "erasing": lambda: augmentation.RandomErasing(p=1.0),
    "blur": lambda: augmentation.RandomGaussianBlur((3, 3), (0.5, 1.5), p=1.0),
    "noise": lambda: augmentation.RandomGaussianNoise(p=1.0),
    "motion": lambda: augmentation.RandomMotionBlur(3, 35.0, 0.5, p=1.0),
    "elastic": lambda: augmentation.RandomElasticTransform((5, 5), (2.0, 2.0), p=1.0),
    "thin plate": lambda: augmentation.RandomThinPlateSpline(p=1.0),
    "mix up": lambda: augmentation.RandomMixUpV2(p=1.0, data_keys=["input"]),
    "sequence": lambda: augmentation.AugmentationSequential(
        augmentation.RandomHorizontalFlip(p=0.5),
        augmentation.RandomAffine(10.0, p=0.7),
        augmentation.Normalize(0.5, 0.2),
        data_keys=["input"],
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "rotate" else pytest.mark.matrix) for n in OPERATIONS]
)
def test_an_operation_and_its_gradient_are_the_cpus(name: str) -> None:
    def program(device: str) -> Any:
        x = torch.rand(2, 3, 16, 16).to(device).requires_grad_(name not in NO_GRADIENT)
        out = OPERATIONS[name](x)
        if not x.requires_grad:
            return out
        leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(out) if leaf.requires_grad]
        torch.autograd.backward([leaf.square().mean() for leaf in leaves])
        return out, x.grad

    on_both(program)


@pytest.mark.matrix
@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_an_augmentation_gives_the_cpus_images(name: str) -> None:
    def program(device: str) -> Any:
        return AUGMENTATIONS[name]()(torch.rand(4, 3, 16, 16).to(device))

    on_both(program)


@pytest.mark.matrix
def test_registration_by_gradient_descent_finds_the_cpus_transform() -> None:
    """The transform between two images is found by an optimizer: kornia's own loop on the device."""

    def program(device: str) -> Any:
        x = K.filters.gaussian_blur2d(torch.rand(1, 1, 32, 32), (7, 7), (2.0, 2.0)).to(device)
        moved = K.geometry.transform.translate(x, torch.tensor([[2.0, 1.0]], device=device))
        registrator = K.geometry.ImageRegistrator("similarity", num_iterations=5, pyramid_levels=2)
        return registrator.to(device).register(x, moved)

    on_both(program)
