"""The steps that make the device known to PyTorch, in their order."""

import atexit
import sys
from importlib import import_module

import torch
from torch.utils.backend_registration import generate_methods_for_privateuse1_backend, rename_privateuse1_backend

from ._build_info import DEVICE_NAME, PACKAGE_NAME, TORCH_MINOR


def check_torch_version() -> None:
    """Raise ImportError before a library built for another torch is loaded: its symbols would not fit."""
    if torch.__version__.split(".")[:2] == TORCH_MINOR.split("."):
        return
    raise ImportError(
        f"{PACKAGE_NAME} was built for torch {TORCH_MINOR}, but this is torch {torch.__version__}. "
        f"Install torch {TORCH_MINOR}.*, or a {PACKAGE_NAME} made for this torch. "
        f"To use torch without it, set TORCH_DEVICE_BACKEND_AUTOLOAD=0 or uninstall {PACKAGE_NAME}."
    )


def check_no_other_backend() -> None:
    """Raise RuntimeError if the place of the one out-of-tree backend of a process is taken."""
    name = torch._C._get_privateuse1_backend_name()
    accelerator = torch.accelerator.current_accelerator()
    if name in ("privateuseone", DEVICE_NAME) and (accelerator is None or accelerator.type != name):
        return
    from importlib.metadata import entry_points

    others = {e.value.split(":")[0] for e in entry_points(group="torch.backends")} - {PACKAGE_NAME}
    raise RuntimeError(
        f"{PACKAGE_NAME} cannot register its device '{DEVICE_NAME}': this process already has the out-of-tree "
        f"backend '{name}', and PyTorch has room for one. "
        f"Other installed backends: {', '.join(sorted(others)) or 'none'}. Uninstall one of them, or set "
        f"TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import only the one to use."
    )


def load_library() -> None:
    """Load `_C`, which registers the kernels, the allocator, the guard and the hooks."""
    try:
        import_module(f"{__package__}._C")
    except ImportError as error:
        raise ImportError(
            f"the native library of {PACKAGE_NAME} does not load: {error}. "
            f"If it was built for another Python or torch, build and install it again."
        ) from error


def register_fallbacks() -> None:
    """Take over the operators that PyTorch would take apart, though the CPU has a kernel for the whole."""
    from . import _C

    _C._register_fallbacks()


def prepare_exit() -> None:
    """Let no thread of autograd hold a Python object that it would drop while the interpreter shuts down."""
    from . import _C

    atexit.register(_C._settle_autograd_threads)


def rename_backend() -> None:
    """Let users write the device's own name where PyTorch has ``privateuseone``."""
    rename_privateuse1_backend(DEVICE_NAME)


def register_module() -> None:
    """Make the device module an attribute of torch, and its submodules importable below it."""
    module = import_module(f"{__package__}.{DEVICE_NAME}")
    torch._register_device_module(DEVICE_NAME, module)
    for name in module.SUBMODULES:
        # Otherwise `import torch.<device>.<name>` would load a second copy of it.
        sys.modules[f"torch.{DEVICE_NAME}.{name}"] = getattr(module, name)


def generate_methods() -> None:
    """Give Tensor, Module, PackedSequence and storages a method and a property named after the device."""
    generate_methods_for_privateuse1_backend(for_storage=True)


def share_between_processes() -> None:
    """Let tensors of the device travel through the queues and pipes of ``torch.multiprocessing``."""
    import_module(f"{__package__}.{DEVICE_NAME}.multiprocessing").install()


def watch_optimizers() -> None:
    """Let no optimizer that counts its steps on the host be captured into a graph."""
    from . import _capture

    _capture.watch_optimizers()


def keep_generators() -> None:
    """Let generators of the device be pickled and copied with their state."""
    import_module(f"{__package__}.{DEVICE_NAME}.random").install()


def apply_patches() -> None:
    """Repair what PyTorch has no registration for."""
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
    share_between_processes,
    watch_optimizers,
    keep_generators,
    apply_patches,
)
