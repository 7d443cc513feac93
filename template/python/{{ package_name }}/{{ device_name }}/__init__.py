"""The device module: ``torch.<name of the device>``."""

from typing import Any

from .. import features
from . import _utils as _utils
from . import amp, devices, library, memory, operators, random, streams
from .amp import get_amp_supported_dtype, is_autocast_available
from .devices import (
    _is_in_bad_fork as _is_in_bad_fork,
)
from .devices import (
    _lazy_init as _lazy_init,
)
from .devices import (
    can_device_access_peer,
    capabilities,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    missing_capabilities,
    set_device,
    synchronize,
)
from .memory import (
    empty_cache,
    empty_host_cache,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)

SUBMODULES = ("amp", "devices", "library", "memory", "operators", "random", "streams", *features.MODULES)

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "capabilities",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "devices",
    "empty_cache",
    "empty_host_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "is_autocast_available",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "library",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "missing_capabilities",
    "operators",
    "random",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
]

for _name, _module in features.MODULES.items():
    globals().update({_name: _module} | {name: getattr(_module, name) for name in _module.__all__})
    __all__ += [_name, *_module.__all__]
__all__.sort()


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return random._default_generators()
    if name == "_initialized":
        # `torch.utils.checkpoint` reads this to decide whether to save the random state.
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
