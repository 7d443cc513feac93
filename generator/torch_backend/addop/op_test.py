"""The test of an operator."""

from __future__ import annotations

from typing import Any

from .kernel import environment, functions_of, read

LINE_LENGTH = 120

# Check of the tests with PyTorch's database -> the key of the entries that support it.
CHECKS = {
    "values": "values",
    "gradients": "gradients",
    "other_dtypes": "forward",
    "in_place": "in_place",
    "out": "out",
}


def test_source(operator: dict[str, Any], file: str) -> str:
    """Returns the source of the test for an operator.

    Args:
        operator: its description, as ``schemas`` prints it.
        file: the name of the file that has its kernel.
    """
    opinfos: list[dict[str, Any]] = operator["opinfos"]
    samples: list[dict[str, Any]] = operator["samples"]
    texts = " ".join(text for sample in samples for text in sample["arguments"])
    return (
        environment()
        .from_string(read("op_test.py.jinja"))
        .render(
            name=operator["name"],
            file=file,
            functions=functions_of(operator),
            opinfos=[opinfo["name"] for opinfo in opinfos],
            checks=_checks(opinfos),
            samples=[_sample(sample) for sample in samples],
            variants=_variants(operator),
            uses_tensor="tensor(" in texts,
            uses_torch="torch." in texts,
        )
    )


def _sample(sample: dict[str, Any]) -> str:
    """Returns an entry of SAMPLES in the form of the formatter: one line if it is short enough."""
    arguments = sample["arguments"]
    line = f'    ("{sample["op"]}", lambda device: given({", ".join(arguments)})),'
    if len(line) <= LINE_LENGTH:
        return line
    head = ["    (", f'        "{sample["op"]}",', "        lambda device: given("]
    return "\n".join([*head, *(f"            {argument}," for argument in arguments), "        ),", "    ),"])


def _checks(opinfos: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Returns the checks that any entry supports, each with the text of its list of entries."""
    checks = []
    for name, mark in CHECKS.items():
        # Only the gradients of a forward test its backward.
        fit = [opinfo[mark] and (opinfo["forward"] or name == "gradients") for opinfo in opinfos]
        if any(fit):
            chosen = ", ".join(f"OPERATORS[{number}]" for number, yes in enumerate(fit) if yes)
            checks.append(
                {"name": name, "function": f"check_{name}", "operators": "OPERATORS" if all(fit) else f"[{chosen}]"}
            )
    return checks


def _variants(operator: dict[str, Any]) -> dict[str, list[str]]:
    """Returns the in-place and out variants of each functional overload that has samples."""
    sampled = {sample["op"] for sample in operator["samples"]}
    by_signature: dict[str, list[dict[str, Any]]] = {}
    for function in functions_of(operator):
        by_signature.setdefault(function["signature"], []).append(function)
    variants = {}
    for functions in by_signature.values():
        names = [f["python"] for f in functions if f["kind"] == "functional"]
        others = [f["python"] for f in functions if f["kind"] != "functional"]
        if names and others and names[0] in sampled:
            variants[names[0]] = others
    return variants
