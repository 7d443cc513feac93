"""The list of emulated operators, csrc/fallback/operators.def, compared with the schemas of the installed torch and the dispatcher."""

import re
from pathlib import Path

import pytest
import torch
from conftest import PROJECT

LIST = PROJECT / "csrc" / "fallback" / "operators.def"
LINE = re.compile(r'^EMULATED\("(?P<schema>[\w.]+)", (?P<cpp>\w+)\)$')


def entries(path: Path) -> list[tuple[str, str]]:
    """Return the pairs (name in the schema, name in at::_ops) of a list."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("//")]
    found = [(line, LINE.match(line)) for line in lines]
    wrong = [line for line, match in found if match is None]
    assert not wrong, f"{path.name} holds lines that are neither comments nor EMULATED(...): {wrong}"
    return [(match["schema"], match["cpp"]) for _, match in found if match]


ALL = entries(LIST) if LIST.exists() else []


def test_list_is_found() -> None:
    assert ALL, f"there are no operators in {LIST}: run these tests from the source tree, they check its list"


def test_nothing_is_listed_twice() -> None:
    names = [schema for schema, _ in ALL]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(("schema", "cpp"), ALL, ids=[schema for schema, _ in ALL])
def test_each_entry_has_a_schema_and_both_kernels(schema: str, cpp: str) -> None:
    name, _, overload = schema.partition(".")
    torch._C._dispatch_find_schema_or_throw(f"aten::{name}", overload)
    full = f"aten::{schema}"
    assert cpp == schema.replace(".", "_")
    assert torch._C._dispatch_has_kernel_for_dispatch_key(full, "PrivateUse1"), "the library was built without it"
    assert torch._C._dispatch_has_kernel_for_dispatch_key(full, "CPU"), "the CPU has no kernel to emulate with"
    registered_twice = "PrivateUse1 (inactive):" in torch._C._dispatch_dump(full)
    assert not registered_twice, f"the device has a kernel for {full}: delete its line in {LIST.name}"
