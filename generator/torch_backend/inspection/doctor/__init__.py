"""What `torch-backend doctor` looks at: one family of checks a file."""

from .diagnosis import diagnose
from .report import Check, State

__all__ = ["Check", "State", "diagnose"]
