"""The torch release that projects are rendered for by default, as copier.yml has it, and those before and after."""

from __future__ import annotations

from torch_backend.source import find_source

RELEASES: dict[str, dict[str, str]] = find_source().config["torch_releases"]["default"]

MINOR = list(RELEASES)[-1]
RANGE = RELEASES[MINOR]["requirement"]
FIRST = f"{MINOR}.0"

_major, _minor = map(int, MINOR.split("."))
OLDER, NEWER = f"{_major}.{_minor - 1}", f"{_major}.{_minor + 1}"
