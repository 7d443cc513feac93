"""The checks of `torch-backend doctor`, one family in each file."""

from .diagnosis import diagnose
from .report import Check, State

__all__ = ["Check", "State", "diagnose"]
