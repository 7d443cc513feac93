"""A report of all operators on the device, as text, JSON or an HTML page."""

import json
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib import metadata, resources
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from .. import _C
from .._build_info import DEVICE_NAME, PACKAGE_NAME
from ._coverage import coverage, describe_operators
from ._states import STATES
from ._usage import OperatorUsage, usage

Format: TypeAlias = Literal["text", "json", "html"]

SCHEMA_VERSION = 1
"""The version of the JSON report. It changes if a key is removed or changes its meaning, not if a key is added."""

_PAGE = "operator_report.html"
_DATA = '"DATA OF THE REPORT"'  # the placeholder in the page


def report(format: Format = "text", path: str | PathLike[str] | None = None) -> str:
    """Return a report of how operators run, and of the operators that ran without a native kernel; see ``usage``.

    Args:
        format: ``text`` is a summary, with a table of the operators that ran; ``json`` holds all operators, under keys
            that last, see ``SCHEMA_VERSION``; ``html`` is one page that shows the same as ``json`` in a browser, to be
            sorted and filtered, and needs nothing beside it.
        path: a file to write the report to, in UTF-8, as well.

    Raises:
        ValueError: there is no such format.
        OSError: the file cannot be written.
    """
    if format not in ("text", "json", "html"):
        raise ValueError(f"unknown format {format!r}: choose 'text', 'json' or 'html'")
    data = _collect()
    if format == "text":
        written = _as_text(data)
    elif format == "json":
        written = json.dumps(data, indent=1) + "\n"
    else:
        page = resources.files(__package__).joinpath(_PAGE).read_text(encoding="utf-8")
        written = page.replace(_DATA, _inside_script(data), 1)
    if path is not None:
        Path(path).write_text(written, encoding="utf-8")
    return written


def _collect() -> dict[str, Any]:
    """Return the content of the JSON report."""
    used = usage()
    operators = coverage()
    if of_other_libraries := used.keys() - operators.keys():
        operators |= describe_operators(of_other_libraries)
    states = [operator["state"] for operator in operators.values()]
    policy, warn = _C._get_fallback_policy()
    return {
        "schema_version": SCHEMA_VERSION,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "device": DEVICE_NAME,
        "package": PACKAGE_NAME,
        "package_version": _version(),
        "torch_version": torch.__version__,
        "policy": {"general": policy, "warn": warn, "operators": _C._get_operator_policies()},
        "states": {state: {"meaning": STATES[state], "operators": states.count(state)} for state in STATES},
        "operators": [
            {"name": name, **operator, "usage": _plain(used[name]) if name in used else None}
            for name, operator in operators.items()
        ],
    }


def _version() -> str | None:
    try:
        return metadata.version(PACKAGE_NAME)
    except metadata.PackageNotFoundError:  # imported from the build folder without an installation
        return None


def _plain(used: OperatorUsage) -> dict[str, Any]:
    """Return the same with names such as ``float32`` instead of PyTorch's dtypes."""
    tensors = [{**tensor, "dtype": _dtype_name(tensor["dtype"])} for tensor in used["first_call"]]
    return {**used, "dtypes": [_dtype_name(dtype) for dtype in used["dtypes"]], "first_call": tensors}


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _inside_script(data: dict[str, Any]) -> str:
    """Return JSON that an HTML parser cannot read as markup, for any names."""
    text = json.dumps(data, separators=(",", ":"))  # ASCII
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _as_text(data: dict[str, Any]) -> str:
    lines = [
        f"Operators of torch {data['torch_version']} on {data['device']} ({PACKAGE_NAME} {data['package_version']})",
        f"Policy for operators without a kernel: {data['policy']['general']}",
        *(f"  {name}: {policy}" for name, policy in data["policy"]["operators"].items()),
        "",
        *(f"{told['operators']:6d}  {state:9}  {told['meaning']}" for state, told in data["states"].items()),
        "",
    ]
    ran = [operator for operator in data["operators"] if operator["usage"] is not None]
    if not ran:
        return "\n".join([*lines, "No operator ran without a native kernel.", ""])
    ran.sort(key=lambda operator: (-operator["usage"]["seconds"], operator["name"]))
    calls, seconds = (sum(operator["usage"][key] for operator in ran) for key in ("calls", "seconds"))
    lines += [f"Without a native kernel: operators {len(ran)}, calls {calls}, time {_time(seconds)}", ""]
    rows = [("calls", "wider", "time", "operator", "state", "dtypes", "first call")]
    rows += [
        (
            str(operator["usage"]["calls"]),
            str(operator["usage"]["widened_calls"] or ""),
            _time(operator["usage"]["seconds"]),
            operator["name"],
            operator["state"],
            " ".join(operator["usage"]["dtypes"]),
            _call(operator["usage"]),
        )
        for operator in ran
    ]
    return "\n".join([*lines, *_align(rows), ""])


def _call(used: dict[str, Any]) -> str:
    """Return the tensors of a first call in one line, such as ``self float32[2, 3], other float32[]``."""
    tensors = [
        f"{tensor['argument']} {tensor['dtype']}{'' if tensor['shape'] is None else list(tensor['shape'])}"
        for tensor in used["first_call"]
    ]
    return ", ".join(tensors + ([f"and {used['omitted']} more"] if used["omitted"] else []))


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def _align(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the rows as lines, with numbers aligned to the right and text to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place < 3 else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
