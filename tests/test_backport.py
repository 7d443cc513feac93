"""Carrying edits from the example back into the template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from torch_backend.errors import UserError
from torch_backend.maintenance.example import Example
from torch_backend.maintenance.layout import conditions
from torch_backend.maintenance.lint import lint
from torch_backend.maintenance.names import Names, hints_from
from torch_backend.maintenance.trace import trace

from .running import ROOT
from .torch_release import MINOR, RANGE

STREAM = Path("csrc") / "runtime" / "Stream.h"


def _template(scratch: Example, name: str) -> str:
    return (scratch.source.template / name).read_text(encoding="utf-8")


def _snapshot(scratch: Example) -> Mapping[Path, bytes]:
    return {p: p.read_bytes() for p in scratch.source.template.rglob("*") if p.is_file()}


def _prepend(path: Path, line: str) -> None:
    path.write_text(f"{line}\n{path.read_text(encoding='utf-8')}", encoding="utf-8")


def test_without_edits_nothing_changes(scratch: Example) -> None:
    before = _snapshot(scratch)
    assert scratch.backport().empty
    assert _snapshot(scratch) == before


def test_an_edited_line_gets_placeholders(scratch: Example) -> None:
    before = _template(scratch, f"{STREAM}.jinja").splitlines()
    _prepend(scratch.folder / STREAM, "// ::openreg::Stream of torch_openreg, TORCH_OPENREG_X, on OpenReg")
    report = scratch.backport()
    assert [p.as_posix() for p in report.changed] == [f"{STREAM.as_posix()}.jinja"]
    first, *rest = _template(scratch, f"{STREAM}.jinja").splitlines()
    expected = "// ::{{ device_name }}::Stream of {{ package_name }}, {{ package_macro }}_X, on {{ vendor_name }}"
    assert first == expected
    assert rest == before
    assert scratch.check() == ""


def test_names_in_the_sdk_are_those_of_the_sdk(scratch: Example) -> None:
    path = scratch.folder / "third_party" / "openreg" / "include" / "openreg" / "openreg.h"
    _prepend(path, "// OPENREG_API orError_t orX, openreg, libopenreg.so; color or Color")
    scratch.backport()
    text = _template(scratch, "third_party/{{ sdk_name }}/include/{{ sdk_name }}/{{ sdk_name }}.h.jinja")
    expected = (
        "// {{ sdk_macro }}_API {{ sdk_prefix }}Error_t orX, {{ sdk_name }}, lib{{ sdk_name }}.so; color or Color"
    )
    assert text.splitlines()[0] == expected


def test_outside_the_sdk_its_names_are_told_from_the_devices(scratch: Example) -> None:
    path = scratch.folder / "csrc" / "device" / "New.cpp"
    path.write_text("#include <openreg/openreg.h>\nnamespace openreg { int x = orMalloc; }  // OPENREG_LAUNCH\n")
    report = scratch.backport()
    added = "csrc/{% if device_library == 'emulated' %}device{% endif %}/New.cpp.jinja"
    assert [p.as_posix() for p in report.added] == [added]
    assert _template(scratch, added) == (
        "#include <{{ sdk_name }}/{{ sdk_name }}.h>\n"
        "namespace {{ device_name }} { int x = {{ sdk_prefix }}Malloc; }  // {{ sdk_macro }}_LAUNCH\n"
    )


def test_what_is_the_emulated_devices_is_rendered_with_it_only() -> None:
    emulated = "device_library == 'emulated'"
    assert conditions("third_party/openreg/src/a.cpp") == {1: emulated}
    assert conditions("csrc/device/New.cpp") == conditions("csrc/device/Handles.h") == {2: emulated}
    assert conditions("cmake/DeviceLibrary.cmake") == {2: emulated}
    assert (
        conditions("csrc/device/New.h") == conditions("csrc/runtime/New.cpp") == conditions("cmake/Torch.cmake") == {}
    )
    assert conditions("docs/device.md") == {1: "'docs' in features"}


def test_a_file_may_depend_on_two_answers() -> None:
    graphs = "'graphs' in features"
    assert conditions("csrc/device/Graph.cpp") == {2: "device_library == 'emulated'", 3: graphs}
    assert conditions("docs/graphs.md") == {1: "'docs' in features", 2: graphs}
    assert conditions("csrc/graph/New.h") == {2: graphs}
    assert conditions("python/torch_openreg/features/graphs.py") == {4: graphs}
    assert conditions("python/torch_openreg/features/graphs_of_others.py") == {}


def test_an_edit_beside_a_choice_of_a_page_keeps_it(scratch: Example) -> None:
    """The real pages have tables with rows that only a feature renders."""
    name = "{% if 'docs' in features %}docs{% endif %}/index.md.jinja"
    (origin,) = ROOT.joinpath("template").rglob("index.md.jinja")
    page = scratch.source.template / name
    page.parent.mkdir(exist_ok=True)
    page.write_text(origin.read_text(encoding="utf-8"), encoding="utf-8")
    scratch.render(force=True)
    index = scratch.folder / "docs" / "index.md"
    index.write_text(index.read_text(encoding="utf-8").replace("capture and replay of graphs", "graphs of work"))
    scratch.backport()
    assert scratch.check() == ""
    text = page.read_text(encoding="utf-8")
    assert "{% if 'graphs' in features -%}\n| [graphs.md](graphs.md) | graphs of work |\n{% endif -%}\n" in text


def test_new_files_become_template_files(scratch: Example) -> None:
    (scratch.folder / "csrc" / "Plain.h").write_text("#pragma once\n")
    (scratch.folder / "benchmarks").mkdir(exist_ok=True)
    (scratch.folder / "benchmarks" / "run.sh").write_text("#!/bin/sh\necho openreg\n")
    (scratch.folder / "benchmarks" / "run.sh").chmod(0o755)
    (scratch.folder / "python" / "torch_openreg" / "openreg" / "_data.bin").write_bytes(b"\0\xff")
    report = scratch.backport()
    assert sorted(p.as_posix() for p in report.added) == [
        "csrc/Plain.h",
        "python/{{ package_name }}/{{ device_name }}/_data.bin",
        "{% if 'benchmarks' in features %}benchmarks{% endif %}/run.sh.jinja",
    ]
    (script,) = [p for p in report.added if p.name == "run.sh.jinja"]
    assert (scratch.source.template / script).stat().st_mode & 0o100
    assert scratch.check() == ""


def test_deleted_files_leave_the_template(scratch: Example) -> None:
    (scratch.folder / STREAM).unlink()
    report = scratch.backport()
    assert [p.as_posix() for p in report.removed] == [f"{STREAM.as_posix()}.jinja"]
    assert scratch.check() == ""


def test_other_licences_stay(scratch: Example) -> None:
    (scratch.folder / "LICENSE").unlink()
    assert scratch.backport().empty
    assert (scratch.folder / "LICENSE").exists()
    assert len(list(scratch.source.template.glob("*LICENSE*"))) == 4


def test_the_run_bit_is_carried_over(scratch: Example) -> None:
    (scratch.folder / STREAM).chmod(0o755)
    assert not scratch.backport().empty
    assert (scratch.source.template / f"{STREAM}.jinja").stat().st_mode & 0o100


def test_suffix_comes_and_goes(scratch: Example) -> None:
    path = scratch.folder / "csrc" / "Plain.h"
    for text, name in (("int a;\n", "Plain.h"), ("int openreg;\n", "Plain.h.jinja"), ("int b;\n", "Plain.h")):
        path.write_text(text)
        scratch.backport()
        assert [p.name for p in (scratch.source.template / "csrc").glob("Plain.h*")] == [name]


def test_delimiters_are_escaped(scratch: Example) -> None:
    (scratch.folder / "notes.md").write_text("openreg {{ x }} {% y %} {# z #}\n{{{openreg}}}\nplain {{\n")
    scratch.backport()
    assert scratch.check() == ""
    assert "{{ '{{' }} x }} {{ '{%' }} y" in _template(scratch, "notes.md.jinja")


WORKFLOW = """\
name: CI
concurrency: ${{ github.workflow }}-${{ github.ref }}
jobs:
  test:
    if: ${{ !cancelled() && format('{0}{{{1}}}', github.ref, 'x') != '{{%' }}
    strategy: {matrix: {torch: [{a: {b: 1}}]}}
"""


@pytest.mark.parametrize(
    ("last", "suffix", "expected"),
    [
        ("    steps: [{run: 'echo ${{ matrix.torch }}'}]", "", "    steps: [{run: 'echo ${{ matrix.torch }}'}]"),
        (
            "    steps: [{run: 'import torch_openreg ${{ env.X }}'}]",
            ".jinja",
            "    steps: [{run: 'import {{ package_name }} ${{ '{{' }} env.X }}'}]",
        ),
    ],
    ids=["without a name", "with a name"],
)
def test_workflows_keep_their_expressions(scratch: Example, last: str, suffix: str, expected: str) -> None:
    """GitHub's delimiters are Jinja's too: kept where the file is only copied, escaped where it is rendered."""
    path = scratch.folder / ".github" / "workflows" / "ci.yml"
    path.parent.mkdir(parents=True)
    path.write_text(f"{WORKFLOW}{last}\n")
    report = scratch.backport()
    name = f"{{% if 'github' in features %}}.github{{% endif %}}/workflows/ci.yml{suffix}"
    assert [p.as_posix() for p in report.added] == [name]
    assert _template(scratch, name).splitlines()[-1] == expected
    assert scratch.check() == ""
    assert lint(scratch.source, re.compile("openreg", re.IGNORECASE)) == []
    # An edit of another line, and back again, in the same form.
    path.write_text(path.read_text().replace("name: CI", "name: CI of ${{ github.actor }}"))
    scratch.backport()
    assert scratch.check() == ""
    assert _template(scratch, name).splitlines()[-1] == expected
    path.write_text(f"{WORKFLOW}{last}\n")
    scratch.backport()
    assert scratch.check() == ""


def test_a_line_keeps_what_the_template_says_of_it(scratch: Example) -> None:
    (scratch.folder / "notes.md").write_text("OPENREG\nopenreg here\n")
    report = scratch.backport()
    assert [(f.line, f.error) for f in report.guesses] == [(1, False)]
    path = scratch.source.template / "notes.md.jinja"
    path.write_text("{{ sdk_macro }}\n{{ sdk_name }} here\n")  # the maintainer knows better
    (scratch.folder / "notes.md").write_text("see OPENREG\nsee openreg there\nopenreg\n")
    assert scratch.backport().guesses == []
    assert path.read_text().splitlines()[:2] == ["see {{ sdk_macro }}", "see {{ sdk_name }} there"]


def test_names_without_a_rule_stop_it(scratch: Example) -> None:
    before = _snapshot(scratch)
    _prepend(scratch.folder / STREAM, "class OpenRegStream; struct Openreg;")
    with pytest.raises(UserError, match="OpenRegStream") as caught:
        scratch.backport()
    assert "Openreg" in str(caught.value)
    assert f"{STREAM.as_posix()}:1" in str(caught.value)
    assert _snapshot(scratch) == before


def test_dry_run_writes_nothing(scratch: Example) -> None:
    before = _snapshot(scratch)
    _prepend(scratch.folder / STREAM, "// openreg")
    assert not scratch.backport(dry_run=True).empty
    assert _snapshot(scratch) == before


def test_block_tags_stay_where_they_are(scratch: Example) -> None:
    template = scratch.source.template / "notes.md.jinja"
    template.write_text(
        "top\n{%- if 'docs' in features %}\ndocs of {{ device_name }}\n{%- else %}\nno docs\n{%- endif %}\nend\n"
    )
    (scratch.folder / "notes.md").write_text("top\ndocs of openreg\nend\n")
    assert scratch.check() == ""
    (scratch.folder / "notes.md").write_text("top\nall docs of openreg\nand more\nthe end\n")
    scratch.backport()
    assert template.read_text() == (
        "top\n{%- if 'docs' in features %}\nall docs of {{ device_name }}\n{%- else %}\nno docs\n{%- endif %}\n"
        "and more\nthe end\n"
    )
    assert scratch.check() == ""


README = """\
# {{ package_name }}

{% if 'docs' in features -%}
Read the pages of {{ device_name }}.

{% else -%}
There are no pages.

{% endif -%}

## Tests

{% if 'benchmarks' in features %}
Measure it.
{% else %}
Do not measure it.
{% endif %}
## The end
"""
SHOWN = """\
# torch_openreg

Read the pages of openreg.

## Tests


Measure it.

## The end
"""


@pytest.fixture
def readme(scratch: Example) -> Path:
    """A file of the example with choices in its template; blank lines follow tags that strip what follows them."""
    (scratch.source.template / "notes.md.jinja").write_text(README)
    (scratch.folder / "notes.md").write_text(SHOWN)
    assert scratch.check() == ""
    return scratch.folder / "notes.md"


@pytest.mark.parametrize(
    ("shown", "edited"),
    [
        ("# torch_openreg\n", "# torch_openreg, a package\n"),
        ("Read the pages of openreg.\n", "Read all pages of openreg.\nTwice.\n"),
        ("## Tests\n", "## How to test openreg\n"),
        ("Measure it.\n", "Measure openreg.\n"),
        ("## The end\n", "## The end\n\nof openreg\n"),
    ],
)
def test_an_edit_beside_choices_keeps_them(scratch: Example, readme: Path, shown: str, edited: str) -> None:
    readme.write_text(SHOWN.replace(shown, edited))
    scratch.backport()

    def placeholders(text: str) -> str:
        return text.replace("torch_openreg", "{{ package_name }}").replace("openreg", "{{ device_name }}")

    assert _template(scratch, "notes.md.jinja") == README.replace(placeholders(shown), placeholders(edited))


def test_the_readme_keeps_its_choices(scratch: Example) -> None:
    """Every line of the README can be edited; what the example does not show stays in the template.

    A line with a choice inside is the exception: backport refuses it, because it renders otherwise with other answers.
    """
    template = (ROOT / "template" / "README.md.jinja").read_text(encoding="utf-8")
    assert "{% else -%}" in template
    (scratch.source.template / "README.md.jinja").write_text(template, encoding="utf-8")
    scratch.render(force=True)
    readme = scratch.folder / "README.md"
    with_choice = tuple(re.findall(r"^([^{\n]+)\{% if .*$", template, re.MULTILINE))
    assert with_choice
    lines = readme.read_text(encoding="utf-8").split("\n")
    lines = [f"{line} edited" if line and not line.startswith(with_choice) else line for line in lines]
    readme.write_text("\n".join(lines), encoding="utf-8")
    scratch.backport()
    edited = _template(scratch, "README.md.jinja")
    assert re.sub(" edited$", "", edited, flags=re.MULTILINE) == template


@pytest.mark.parametrize(
    ("shown", "edited", "line"),
    [("Measure it.\n", "", 8), ("## Tests\n", "And more.\n\n## Tests\n", 4)],
    ids=["removed", "added"],
)
def test_a_choice_beside_added_or_removed_lines_is_named(
    scratch: Example, readme: Path, shown: str, edited: str, line: int
) -> None:
    readme.write_text(SHOWN.replace(shown, edited))
    report = scratch.backport()
    assert "\n{% else -%}\nThere are no pages.\n\n{% endif -%}\n" in _template(scratch, "notes.md.jinja")
    assert [(finding.line, finding.error) for finding in report.guesses] == [(line, False)]
    assert "template/notes.md.jinja:" in report.guesses[0].text
    assert scratch.check() == ""


@pytest.mark.parametrize(
    ("template", "shown", "edited"),
    [
        ("a{% if 'docs' in features %} b{% else %} c{% endif %} d\n", "a b d\n", "a b e\n"),
        ("a\n{{ torch_releases | to_json }}\n", None, "a\n1\n"),
        ("a\n{% if 'docs' in features %}\nb\n{% endif %}\n", "a\n\nb\n\n", "a\nb\n\n"),
        ("{% for name in features %}\n{{ name }}\n{% endfor %}\na\n", None, "b\n"),
    ],
    ids=["a choice within a line", "a value that is computed", "the line of a tag", "a loop"],
)
def test_an_edit_that_would_drop_a_choice_is_refused(
    scratch: Example, template: str, shown: str | None, edited: str
) -> None:
    (scratch.source.template / "notes.md.jinja").write_text(template)
    scratch.render(force=True)
    path = scratch.folder / "notes.md"
    assert shown is None or path.read_text() == shown
    before = _snapshot(scratch)
    path.write_text(edited)
    with pytest.raises(UserError, match=r"notes\.md:\d+: error: .*template/notes\.md\.jinja"):
        scratch.backport()
    assert _snapshot(scratch) == before


def test_the_template_can_be_derived_from_the_example(repository: Example) -> None:
    """The whole template except its handwritten files can be derived from the example."""
    for path in repository.source.template.rglob("*"):
        if path.is_file() and "LICENSE" not in path.name and "answers_file" not in path.name:
            path.unlink()
    report = repository.backport()
    assert not report.changed
    assert repository.check() == ""


@pytest.fixture(scope="module")
def names(example: Example) -> Names:
    return Names(trace(example.source, example.answers).values)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("pyproject.toml", f'requires = ["torch{RANGE}"]', 'requires = ["torch{{ torch_requirement }}"]'),
        ("pyproject.toml", 'name = "torch_openreg"', 'name = "{{ package_name }}"'),
        ("CMakeLists.txt", "TARGETS openreg torch_openreg", "TARGETS {{ sdk_name }} {{ package_name }}"),
        ("CMakeLists.txt", "add_subdirectory(third_party/openreg)", "add_subdirectory(third_party/{{ sdk_name }})"),
        ("pyproject.toml", 'license = "BSD-3-Clause"', 'license = "{{ license_expression }}"'),
        ("pyproject.toml", 'requires-python = ">=3.10"', 'requires-python = "{{ python_requirement }}"'),
        (
            "pyproject.toml",
            'authors = [{ name = "OpenReg developers", email = "developers@openreg.example.com" }]',
            'authors = [{ name = {{ author_literal }}, email = "{{ author_email }}" }]',
        ),
        ("pyproject.toml", "torch_openreg:_autoload", "{{ package_name }}:_autoload"),
        ("third_party/openreg/CMakeLists.txt", "X_NUM_DEVICES 2", "X_NUM_DEVICES {{ num_devices }}"),
        ("third_party/openreg/CMakeLists.txt", 'set(X_DEVICE_MEMORY "4G"', 'set(X_DEVICE_MEMORY "{{ device_memory }}"'),
        ("third_party/openreg/src/a.cpp", "namespace openreg {", "namespace {{ sdk_name }} {"),
        ("csrc/device/a.cpp", "namespace openreg {", "namespace {{ device_name }} {"),
        ("README.md", "# torch_openreg for OpenReg", "# {{ package_name }} for {{ vendor_name }}"),
        ("README.md", "third_party/openreg/src, openreg.h", "third_party/{{ sdk_name }}/src, {{ sdk_name }}.h"),
        ("README.md", "python/torch_openreg/openreg/", "python/{{ package_name }}/{{ device_name }}/"),
        ("README.md", "libopenreg.so libtorch_openreg.so", "lib{{ sdk_name }}.so lib{{ package_name }}.so"),
        ("README.md", "torch.openreg, is_openreg", "torch.{{ device_name }}, is_{{ device_name }}"),
        ("README.md", "orMalloc for Mallory or Malloc", "{{ sdk_prefix }}Malloc for Mallory or Malloc"),
        ("_build_info.py", f'TORCH_MINOR = "{MINOR}"', 'TORCH_MINOR = "{{ torch_minor }}"'),
        ("csrc/a.cpp", f"// torch {MINOR} needs this", f"// torch {MINOR} needs this"),
    ],
)  # fmt: skip
def test_each_rule_chooses_its_placeholder(names: Names, path: str, text: str, expected: str) -> None:
    converted, findings = names.convert(text, path)
    assert converted == expected
    assert not findings


def test_hints_come_from_lines_with_one_meaning() -> None:
    values = {"device_name": "openreg", "sdk_name": "openreg", "sdk_macro": "OPENREG"}
    assert hints_from("{{ sdk_name }} {{ sdk_macro }}", values) == {"openreg": "sdk_name", "OPENREG": "sdk_macro"}
    assert hints_from("{{ sdk_name }} {{ device_name }}", values) == {}
