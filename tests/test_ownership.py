"""Every file of a rendered project has one owner: the table of README says which, and updates treat it so."""

from __future__ import annotations

import re

import pytest
from torch_backend.lifecycle.lint import matches, owners
from torch_backend.lifecycle.ownership import WRITTEN_BY_VENDORS
from torch_backend.maintenance.layout import FEATURES
from torch_backend.render import Tree, render_tree
from torch_backend.source import Source

KINDS = ["seed", "the port's", "yours", "shared", "the template's"]


def table_of(tree: Tree) -> dict[str, list[str]]:
    return owners(tree["README.md"].content.decode())


@pytest.mark.parametrize("features", [[], [*FEATURES]], ids=["bare", "all"])
@pytest.mark.parametrize("device_library", ["emulated", "external"])
def test_every_file_has_one_owner(device_library: str, features: list[str], source: Source) -> None:
    tree = render_tree(source, {"vendor_name": "Acme", "device_library": device_library, "features": features})
    table = table_of(tree)
    assert [*table] == KINDS
    used: set[str] = set()
    for path in tree:
        named = {kind: [p for p in patterns if matches(path, p)] for kind, patterns in table.items()}
        kinds = [kind for kind in KINDS if named[kind]]
        assert kinds, f"{path} has no owner"
        used.update(named[kinds[0]])
        # Only the folders of the template and of the port may hold files of another kind, whose row comes first.
        assert len(kinds) == 1 or kinds[1:] in (["the template's"], ["the port's"]), f"{path}: {kinds}"
    assert {pattern for patterns in table.values() for pattern in patterns} - used <= {
        "docs/",
        "benchmarks/",
        ".github/",
    }


def test_updates_treat_files_as_the_table_says(source: Source) -> None:
    table = table_of(render_tree(source, {"vendor_name": "Acme", "device_library": "external"}))
    assert table["the port's"] == [*WRITTEN_BY_VENDORS]
    config = (source.template.parent / "copier.yml").read_text(encoding="utf-8")
    seeds = re.findall(r"_copier_operation == 'update' %\}([^{]+)\{%", config)
    assert table["seed"] == [seed.removesuffix("*") for seed in seeds]
