"""The lint of template files finds every kind of corruption and names its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from torch_backend.maintenance.line_length import long_lines
from torch_backend.maintenance.lint import lint
from torch_backend.source import Source

LEFTOVER = re.compile("openreg", re.IGNORECASE)


@pytest.fixture
def tree(tmp_path: Path) -> Source:
    (tmp_path / "template").mkdir()
    (tmp_path / "copier.yml").write_text("device_name: {type: str}\nfeatures: {type: yaml}\n_subdirectory: template\n")
    return Source(tmp_path)


def problems(tree: Source, name: str, text: str) -> list[str]:
    path = tree.template / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return [str(problem) for problem in lint(tree, LEFTOVER)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.cpp.jinja", "namespace {{ device_name }} { int a[2][1] = {{ '{{' }}1}, {2}}; }\n"),
        ("a.md.jinja", "{{ device_name | upper }}\n{%- if 'docs' in features %}\nx\n{%- endif %}\n"),
        ("{{ device_name }}/{% if 'docs' in features %}docs{% endif %}/a.h", "int a[2][1] = { {1}, {2}};\n"),
        ("ci.yml", "run: ${{ github.ref }} ${#array[@]}\n"),
        (".github/workflows/ci.yml", "name: ${{ format('{{{0}}} {{%', github.ref) }} x\n"),
        (".github/workflows/ci.yml.jinja", "run: ${{ '{{' }} github.ref }} {{ device_name }}\n"),
        ("f.py.jinja", 'x = f"{{ \'{\' }}{{ device_name }}}"\n'),
    ],
)  # fmt: skip
def test_correct_files_have_no_problems(tree: Source, name: str, text: str) -> None:
    assert problems(tree, name, text) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.cpp.jinja", "ok\nint a = {{1,2}};\n", "template/a.cpp.jinja:2: {{1,2}} is not a placeholder"),
        ("a.cpp.jinja", "{{ -1, 1 }}\n", "is not a placeholder"),
        ("a.cpp.jinja", "{{device_name}}\n", "is not a placeholder"),
        ("a.cpp.jinja", "{{ divice_name }}\n", "copier.yml has no variable divice_name"),
        ("a.cpp.jinja", "{% if features %}\n", "no logic in sources"),
        ("a.py.jinja", "{% for x in features %}\n", "no logic in sources"),
        ("a.md.jinja", "{% for x in features %}\n", "only if, elif, else and endif"),
        ("a.md.jinja", "## Title {#anchor}\n", "is a comment of Jinja"),
        ("a.md.jinja", "a {{ device_name\n", '"{{" is not closed'),
        (".github/workflows/ci.yml.jinja", "run: ${{ github.ref }} {{ device_name }}\n", "has no variable github"),
        (".github/workflows/ci.yml.jinja", "run: ${{ format('x') }} {{ device_name }}\n", "is not a placeholder"),
        (".github/workflows/ci.yml.jinja", "run: ${{ github }}\n", "copier.yml has no variable github"),
        (".github/workflows/ci.yml", "run: ${{ a }} {{ device_name }}\n", "copied as it is"),
        ("a.cpp", "int a[2][1] = {{1}, {2}};\n", 'template/a.cpp:1: "{{" in a file that is copied as it is'),
        ("a.md", "{{ device_name }}\n", "copied as it is"),
        ("a.cpp", "// see OpenReg\n", 'template/a.cpp:1: "OpenReg" is the example\'s name'),
        ("openreg/a.cpp", "\n", 'path: "openreg" is the example\'s name'),
        ("{{ divice_name }}/a.cpp", "\n", "path: {{ divice_name }}: copier.yml has no variable"),
        ('a"b.cpp', "\n", "path: double quote"),
        ("a.cpp", "a\r\n", "carriage return"),
        ("a.cpp.jinja", "", "empty: it needs no suffix"),
    ],
)
def test_each_corruption_is_found(tree: Source, name: str, text: str, expected: str) -> None:
    found = problems(tree, name, text)
    assert len(found) >= 1
    assert expected in found[0]


def test_a_file_beside_its_rendered_twin_is_found(tree: Source) -> None:
    problems(tree, "a.h", "x\n")
    assert "would be ignored" in problems(tree, "a.h.jinja", "{{ device_name }}\n")[0]


def test_lines_over_140_columns_are_found(tmp_path: Path) -> None:
    external = "{% if device_library == 'external' %}device{% endif %}"
    files = {
        "a.py": "x" * 141,
        "ok.py": "x" * 140,
        "table.md": "| " + "x" * 200,
        "prose.md": "x" * 141,
        "docs/porting.md": "x" * 200,
        "template/a.cpp.jinja": "x" * 200,
        f"template/csrc/{external}/a.cpp.jinja": "{{ device_name }}" * 10 + "x" * 60,
        f"template/csrc/{external}/b.cpp.jinja": "{{ device_name }}" * 10 + "x" * 80,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"ok\n{text}\n")
    found = [str(problem) for problem in long_lines(tmp_path)]
    assert found == [
        "a.py:2: 141 columns; break the line before column 140",
        "prose.md:2: 141 columns; break the line before column 140",
        f"template/csrc/{external}/b.cpp.jinja:2: 150 columns; break the line before column 140",
    ]
