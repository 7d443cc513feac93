"""The result of a check."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "warn", "fail", "skip"]


@dataclass(frozen=True)
class Check:
    """A finding.

    Attributes:
        name: the subject of the check.
        state: "fail" prevents a build or the backend from working, "warn" does not, "skip" was not checked.
        found: what the check found.
        mend: the remedy; empty if none is needed.
        group: the heading in the report.
    """

    name: str
    state: State
    found: str
    mend: str = ""
    group: str = ""

    def to_json(self) -> dict[str, str]:
        """Returns the check as the command prints it with --json."""
        return asdict(self)
