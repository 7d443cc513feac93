"""How an operator can run on the device. torch-backend runs this file too: it imports the standard library alone."""

from typing import Literal, TypeAlias

State: TypeAlias = Literal["native", "emulated", "cpu", "composite", "none"]

STATES: dict[State, str] = {
    "native": "a kernel of the device's own",
    "emulated": "PyTorch's CPU kernel, in place on device memory",
    "cpu": "PyTorch's CPU kernel, with copies to the host and back",
    "composite": "taken apart by PyTorch into other operators",
    "none": "cannot run on the device",
}
"""The states that an operator can be in, with what they mean."""
