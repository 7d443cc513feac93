"""How an operator can run on the device. torch-backend imports this file too, so it uses only the standard library."""

from typing import Literal, TypeAlias

State: TypeAlias = Literal["native", "host body", "emulated", "cpu", "composite", "none"]

STATES: dict[State, str] = {
    "native": "the device's own kernel",
    "host body": "a kernel in the project's sources whose body still computes on the host",
    "emulated": "PyTorch's CPU kernel, in place on device memory",
    "cpu": "PyTorch's CPU kernel, with copies to the host and back",
    "composite": "PyTorch computes it from other operators",
    "none": "cannot run on the device",
}
"""The states of an operator, with their meanings."""
