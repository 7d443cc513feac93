"""Makes `import torchvision` work beside PyTorch for the CPU. A module of its own: pytest loads it as a plugin, too.

torchvision's wheel is linked with PyTorch for CUDA, so its C++ operators do not load. All that importing it needs is
that two of them are known by name; the functions that call one say that it is not there.
"""

from __future__ import annotations

import torch

library = torch.library.Library("torchvision", "FRAGMENT")
library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
