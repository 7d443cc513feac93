"""Random numbers of the devices. Each device has its own generator; the CPU's generator is never used or changed."""

import copyreg
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch

from .. import _C
from .._build_info import DEVICE_NAME
from ._utils import DeviceLike, existing_index


def install() -> None:
    """Register a reducer, so that pickle and copy support generators of this device.

    PyTorch's own reducer reads the offset of every generator but the CPU's, and this generator has no offset.
    """
    copyreg.pickle(torch.Generator, _reduce)


def _reduce(generator: torch.Generator) -> tuple[Any, ...]:
    if generator.device.type != DEVICE_NAME:
        by_core: tuple[Any, ...] = generator.__reduce__()
        return by_core
    return torch.Generator, (generator.device,), (generator.initial_seed(), None, generator.get_state())


@cache
def _default_generators() -> tuple[torch.Generator, ...]:
    return tuple(_C._get_default_generator(index) for index in range(_C._get_device_count()))


def _generator(device: DeviceLike = None) -> torch.Generator:
    return _default_generators()[existing_index(device)]


def get_rng_state(device: DeviceLike = None) -> torch.Tensor:
    """Return the state of the generator of `device`, a uint8 tensor on the CPU."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the states of the generators of all devices."""
    return [generator.get_state() for generator in _default_generators()]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = None) -> None:
    """Restore the generator of `device` to a state from `get_rng_state`."""
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Restore the generators of all devices to the states from `get_rng_state_all`."""
    for generator, state in zip(_default_generators(), new_states, strict=True):
        generator.set_state(state)


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device."""
    _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices. ``torch.manual_seed`` calls this."""
    for generator in _default_generators():
        generator.manual_seed(int(seed))


def seed() -> None:
    """Seed the generator of the current device with a random number."""
    _generator().seed()


def seed_all() -> None:
    """Seed the generators of all devices with the same random number."""
    manual_seed_all(torch.Generator().seed())


def initial_seed() -> int:
    """Return the seed of the generator of the current device."""
    return _generator().initial_seed()
