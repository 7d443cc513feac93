"""Describes the operators that are named on the command line, as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from .schema import RefusedError, Schemas


def describe(names: list[str], *, samples: bool = True) -> dict[str, Any]:
    """Returns for each name either ``{"operator": ...}`` or ``{"refused": sentence}``, and the version of torch."""
    import torch

    from .opinfo import database_entries
    from .samples import find_samples

    schemas = Schemas()
    answers: dict[str, Any] = {}
    for name in names:
        try:
            operator = schemas.find(name)
        except RefusedError as refused:
            answers[name] = {"refused": str(refused)}
            continue
        description = operator.describe()
        description["samples"] = find_samples(operator) if samples else []
        description["opinfos"] = database_entries(operator.base)
        answers[name] = {"operator": description}
    return {"torch": torch.__version__, "operators": answers}


if __name__ == "__main__":
    wanted = [argument for argument in sys.argv[1:] if argument != "--no-samples"]
    json.dump(describe(wanted, samples=len(wanted) == len(sys.argv) - 1), sys.stdout)
