"""The list of operators, csrc/fallback/operators.def, held against the schemas of the installed torch and the sources."""

import re
from pathlib import Path

import pytest
import torch
from conftest import PROJECT

CSRC = PROJECT / "csrc"
LIST = CSRC / "fallback" / "operators.def"
LINE = re.compile(r'^(?P<how>EMULATED|NATIVE)\("(?P<schema>[\w.]+)", (?P<cpp>\w+)\)$')
BLOCK = re.compile(r"^TORCH_LIBRARY_IMPL\(aten, PrivateUse1, m\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
EMULATION = "RegisterEmulated.cpp"
HOST = "HostOperators.cpp"


def entries(path: Path) -> list[tuple[str, str, str]]:
    """Return the triples (how it runs, name in the schema, name in at::_ops) of a list."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("//")]
    found = [(line, LINE.match(line)) for line in lines]
    wrong = [line for line, match in found if match is None]
    assert not wrong, f"{path.name} holds lines that are no comment, EMULATED(...) or NATIVE(...): {wrong}"
    return [(match["how"], match["schema"], match["cpp"]) for _, match in found if match]


ALL = entries(LIST) if LIST.exists() else []


def test_list_is_found() -> None:
    assert ALL, f"there are no operators in {LIST}: run these tests from the source tree, they check its list"


def test_nothing_is_listed_twice() -> None:
    names = [schema for _, schema, _ in ALL]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(("how", "schema", "cpp"), ALL, ids=[schema for _, schema, _ in ALL])
def test_entry(how: str, schema: str, cpp: str) -> None:
    name, _, overload = schema.partition(".")
    torch._C._dispatch_find_schema_or_throw(f"aten::{name}", overload)
    full = f"aten::{schema}"
    assert cpp == schema.replace(".", "_")
    assert torch._C._dispatch_has_kernel_for_dispatch_key(full, "PrivateUse1"), "the library was built without it"
    table = torch._C._dispatch_dump_table(full).splitlines()
    (row,) = [line for line in table if line.startswith("PrivateUse1:")]
    if how == "EMULATED":
        assert torch._C._dispatch_has_kernel_for_dispatch_key(full, "CPU"), "the CPU has no kernel to emulate with"
        assert EMULATION in row
    else:
        assert "/aten/native/" in row, "the kernel is not in csrc/aten/native"


def test_every_native_kernel_is_listed() -> None:
    listed = {schema for how, schema, _ in ALL if how == "NATIVE"}
    written = {
        schema
        for path in (CSRC / "aten" / "native").glob("*.cpp")
        if path.name != HOST
        for block in BLOCK.findall(path.read_text())
        for schema in re.findall(r'm\.impl\(\s*"([\w.]+)"', block)
    }
    assert written == listed, "csrc/aten/native and the NATIVE lines of csrc/fallback/operators.def differ"
