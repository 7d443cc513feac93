"""What a check found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "warn", "fail", "skip"]


@dataclass(frozen=True)
class Check:
    """A finding.

    Attributes:
        name: what was looked at.
        state: "fail" stops a build or the backend, "warn" does not, "skip" was not looked at.
        found: what is there.
        mend: what to do about it; empty where there is nothing to do.
        group: the heading to print it under.
    """

    name: str
    state: State
    found: str
    mend: str = ""
    group: str = ""

    def to_json(self) -> dict[str, str]:
        """The check as the command prints it with --json."""
        return asdict(self)
