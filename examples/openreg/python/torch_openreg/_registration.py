"""The steps that register the device with PyTorch, in their order."""

import atexit
import sys
from importlib import import_module

import torch
from torch.utils.backend_registration import generate_methods_for_privateuse1_backend, rename_privateuse1_backend

from . import _missing_library
from ._build_info import DEVICE_NAME, PACKAGE_NAME, TORCH_MINOR


class _NoLibrary(Exception):
    """A library of the SDK is missing; the text is its name."""


def check_torch_version() -> None:
    """Raise ImportError if the library was built for another torch, because its symbols would not resolve."""
    if torch.__version__.split(".")[:2] == TORCH_MINOR.split("."):
        return
    raise ImportError(
        f"{PACKAGE_NAME} was built for torch {TORCH_MINOR}, but this is torch {torch.__version__}. "
        f"Install torch {TORCH_MINOR}.*, or a {PACKAGE_NAME} built for this torch. "
        f"To use torch without it, set TORCH_DEVICE_BACKEND_AUTOLOAD=0 or uninstall {PACKAGE_NAME}."
    )


def check_no_other_backend() -> None:
    """Raise RuntimeError if the process has already loaded another out-of-tree backend."""
    name = torch._C._get_privateuse1_backend_name()
    accelerator = torch.accelerator.current_accelerator()
    if name in ("privateuseone", DEVICE_NAME) and (accelerator is None or accelerator.type != name):
        return
    from importlib.metadata import entry_points

    others = {e.value.split(":")[0] for e in entry_points(group="torch.backends")} - {PACKAGE_NAME}
    raise RuntimeError(
        f"{PACKAGE_NAME} cannot register its device '{DEVICE_NAME}': this process already has the out-of-tree "
        f"backend '{name}', and PyTorch supports one. "
        f"Other installed backends: {', '.join(sorted(others)) or 'none'}. Uninstall one of them, or set "
        f"TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import only the backend that you want."
    )


def load_library() -> None:
    """Load `_C`, which registers the kernels, the allocator, the guard and the hooks."""
    try:
        import_module(f"{__package__}._C")
    except ImportError as error:
        library = _missing_library.named_in(str(error))
        if library is not None:
            raise _NoLibrary(library) from error
        raise ImportError(
            f"the native library of {PACKAGE_NAME} does not load: {error}. "
            f"If it was built for another Python or torch, build and install it again."
        ) from error


def register_fallbacks() -> None:
    """Register a fallback for operators that PyTorch would decompose although the CPU has a kernel for them."""
    from . import _C

    _C._register_fallbacks()


def prepare_exit() -> None:
    """Make autograd threads release their Python objects at exit, before the interpreter shuts down."""
    from . import _C

    atexit.register(_C._settle_autograd_threads)


def rename_backend() -> None:
    """Rename PyTorch's ``privateuseone`` to the device's name."""
    rename_privateuse1_backend(DEVICE_NAME)


def register_module() -> None:
    """Make the device module an attribute of torch, and its submodules importable as ``torch.<device>.<name>``."""
    module = import_module(f"{__package__}.{DEVICE_NAME}")
    torch._register_device_module(DEVICE_NAME, module)
    for name in module.SUBMODULES:
        # Otherwise `import torch.<device>.<name>` would load a second copy of the submodule.
        sys.modules[f"torch.{DEVICE_NAME}.{name}"] = getattr(module, name)


def generate_methods() -> None:
    """Add a method and a property with the device's name to Tensor, Module, PackedSequence and storages."""
    generate_methods_for_privateuse1_backend(for_storage=True)


def install_features() -> None:
    """Register what the optional parts of the project have for PyTorch."""
    from . import features

    for module in features.MODULES.values():
        module.install()


def keep_generators() -> None:
    """Register the reducer that pickles and copies generators of the device with their state."""
    import_module(f"{__package__}.{DEVICE_NAME}.random").install()


def apply_patches() -> None:
    """Change functions of PyTorch that have no registration."""
    from . import _patches

    _patches.apply()


STEPS = (
    check_torch_version,
    check_no_other_backend,
    load_library,
    register_fallbacks,
    prepare_exit,
    rename_backend,
    register_module,
    generate_methods,
    install_features,
    keep_generators,
    apply_patches,
)


def register() -> None:
    """Register the device, or a stand-in if this machine has no library of the SDK."""
    try:
        for step in STEPS:
            step()
    except _NoLibrary as library:
        _missing_library.register(str(library))
