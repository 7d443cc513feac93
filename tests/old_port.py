"""A vendor's port of the project that the template rendered at commit b2758cc, made from this repository's history.

``python -m tests.old_port FOLDER`` makes the template's repository and the port in a folder, to try an update by hand.
Six files of its seam are those of tests/standin/port as they were at that commit, and can be compiled; the other
edits are for merging only.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from torch_backend.source import PARTS, Source

from .conftest import render_into
from .running import ROOT, commit_all, git
from .template_renames import OLDEST

ANSWERS = {"vendor_name": "Acme", "device_library": "external"}

KERNEL = """\
#include <ATen/ops/mul_ops.h>
#include <torch/library.h>

#include "aten/OperatorInfo.h"
#include "aten/emulation/Call.h"
#include "device/QuartzHelpers.h"
#include "runtime/HostKernel.h"

// Style: by hand.
namespace acme {
namespace {

at::Tensor& multiply(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  emulation::Call call;
  const auto alias = call.alias(out, emulation::Call::Use::Write);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("mul.out", TORCH_FN(multiply));
}

}  // namespace acme
"""

# What the vendor adds, at the paths of the old layout.
OWN = {
    "csrc/device/QuartzHelpers.h": '#pragma once\n\n#include "device/Handles.h"\n',
    "csrc/aten/native/Multiply.cpp": KERNEL,
    "csrc/aten/emulation/Trace.h": '#include "aten/emulation/Boxed.h"\n\nnamespace acme::emulation {}\n',
    "tests/test_multiply.py": "def test_multiply() -> None:\n    assert 2 * 3 == 6\n",
}

END = "the end of the file"

# Edits: path -> (the template's text, the vendor's). The other files of the seam are those of tests/standin/port then.
EDITS = {
    "csrc/device/Graph.cpp": [
        ('#include "device/NotWritten.h"\n', '#include "device/NotWritten.h"\n#include "device/QuartzHelpers.h"\n'),
        (
            'notWritten("submit the graph\'s work to the stream");',
            "guarded([&] { quartz::replay(graph_of(exec), unwrap(stream)); });",
        ),
    ],
    "csrc/device/Ipc.cpp": [
        ('notWritten("map the memory that the bytes stand for");', "return quartz::map(handle);"),
    ],
    "csrc/device/Launch.cpp": [
        (
            'notWritten("copy the arguments and submit the kernel to the stream");',
            "guarded([&] { quartz::submit(unwrap(stream), kernel, arguments, size); });",
        ),
    ],
    "csrc/device/Address.cpp": [("  return false;\n", "  return quartz::shares_memory();\n")],
    # Files that the template has moved since, and two that it shares with vendors: edits in blocks of their own.
    "csrc/runtime/BlockSize.cpp": [(END, "\n// Acme's boards have large pages.\n")],
    "csrc/aten/emulation/Boxed.cpp": [(END, "\n// Acme traces what is read.\n")],
    "csrc/aten/Views.cpp": [(END, "\n// Acme has no views of its own.\n")],
    "CMakeLists.txt": [("\nproject(", "\n# Acme's toolchain needs no more.\nproject(")],
    # A seed.
    "csrc/aten/native/Zero.cpp": [("\nnamespace acme", "\n// Acme's own.\nnamespace acme")],
}


@dataclass(frozen=True)
class OldPort:
    """The port, and the template that it is updated from.

    Attributes:
        template: a repository without tags: this one's history, and as its newest commit the template of the work tree.
        project: the port, in git.
        version: what the project records as its version.
        edited: the files that the vendor has edited, at their old paths.
    """

    template: Path
    project: Path
    version: str
    edited: set[str]


def make_old_port(folder: Path) -> OldPort:
    """Renders the old project, and edits it as a vendor does.

    Args:
        folder: an empty folder.
    """
    template, project = folder / "template", folder / "torch_acme"
    git(folder, "clone", "--quiet", "--no-tags", "--no-checkout", str(ROOT), str(template))
    git(template, "checkout", "--quiet", "-B", "main", OLDEST)
    render_into(Source(template), project, **ANSWERS)
    commit_all(project, "Start from the template")

    shutil.copytree(template / "tests" / "standin" / "port", project, dirs_exist_ok=True)
    changed = git(project, "diff", "--name-only").split()
    for path, edits in EDITS.items():
        text = (project / path).read_text(encoding="utf-8")
        for old, new in edits:
            if old == END:
                text += new
                continue
            assert old in text, f"{path} of {OLDEST[:7]} does not hold {old!r}"
            text = text.replace(old, new, 1)
        (project / path).write_text(text, encoding="utf-8")
    for path, text in OWN.items():
        (project / path).write_text(text, encoding="utf-8")
    commit_all(project, "Port")

    # The newest commit of the branch is the template of the work tree, committed or not.
    git(template, "reset", "--quiet", "--hard", git(ROOT, "rev-parse", "HEAD").strip())
    for name in (*PARTS, "migrations.yml", "CHANGELOG.md"):
        place = template / name
        if (ROOT / name).is_dir():
            shutil.rmtree(place)
            shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, place)
    if git(template, "status", "--porcelain"):
        commit_all(template, "The template of the work tree")
    return OldPort(template, project, OLDEST[:7], {*changed, *EDITS})


if __name__ == "__main__":
    made = Path(sys.argv[1]).absolute()
    made.mkdir(parents=True)
    print(make_old_port(made).project)
