"""Mixed precision: the classes of ``torch.amp`` for this device."""

from functools import partial
from typing import Any

import torch
from torch.amp import custom_bwd as _custom_bwd
from torch.amp import custom_fwd as _custom_fwd

from .._build_info import DEVICE_NAME

custom_fwd = partial(_custom_fwd, device_type=DEVICE_NAME)
custom_bwd = partial(_custom_bwd, device_type=DEVICE_NAME)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes that ``torch.autocast`` may cast to on this device. Core calls this by name."""
    return [torch.float16, torch.bfloat16]


def is_autocast_available() -> bool:
    """Return whether ``torch.autocast`` supports this device."""
    return torch.amp.is_autocast_available(DEVICE_NAME)


class autocast(torch.autocast):
    """``torch.autocast`` for this device."""

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool | None = None
    ) -> None:
        super().__init__(DEVICE_NAME, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler`` for this device."""

    def __init__(self, **options: Any) -> None:
        super().__init__(DEVICE_NAME, **options)
