"""Random numbers of the devices. Each device has a generator of its own; that of the CPU is never touched."""

import copyreg
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch

from .. import _C
from .._build_info import DEVICE_NAME
from ._utils import DeviceLike, existing_index


def install() -> None:
    """Let pickle and copy keep generators of this device.

    Core's own way asks the generator of each device but the CPU for its offset, and this one has none.
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
    """Put the generator of `device` into a state that `get_rng_state` returned."""
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Put the generators of all devices into the states that `get_rng_state_all` returned."""
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
    """Seed the generator of the current device with a number that nobody can predict."""
    _generator().seed()


def seed_all() -> None:
    """Seed the generators of all devices with one number that nobody can predict."""
    manual_seed_all(torch.Generator().seed())


def initial_seed() -> int:
    """Return the seed of the generator of the current device."""
    return _generator().initial_seed()
