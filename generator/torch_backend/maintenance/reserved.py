"""Collects the names that a device, a package or a C library must not have, and writes includes/reserved.jinja.

Run ``torch-backend reserved`` with the newest supported torch installed. The file is the union of what is in it and
what is found, so that names of older releases stay refused.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import sysconfig
import textwrap
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import yaml

from torch_backend.errors import UserError
from torch_backend.interpreter import AUTOLOAD, ask
from torch_backend.render import Tree

from .declared import c_names, cxx_names, included_headers
from .example import Example
from .installed import cmake_targets, modules_of, operator_namespaces, torch_libraries
from .trees import read_project

LINE_LENGTH = 110
NAME = re.compile(r"[a-z][a-z0-9_]*[a-z0-9]")
DEVICE = re.compile(r"(?!.*__)[a-z][a-z_]{0,28}[a-z]")

_FILE = Path(__file__).with_name("reserved_words.yml")
WORDS = {name: words.split() for name, words in yaml.safe_load(_FILE.read_text(encoding="utf-8")).items()}

Lists = dict[str, list[str]]


class Names:
    """The names that are taken, by who has taken them.

    Args:
        example: the example, whose sources have names of their own.
    """

    def __init__(self, example: Example) -> None:
        self._example = example

    @cached_property
    def torch(self) -> Path:
        """The folder of the installed torch."""
        return Path(self._python["folder"][0])

    @cached_property
    def installed(self) -> Lists:
        """All lists except those that take a compiler."""
        python = self._python
        keywords = _select([*python["keyword"], *WORDS["cxx_keywords"]])
        builtins = _select(python["python"], keywords)
        torch = {*python["torch"], *operator_namespaces(self.torch)}
        return {
            "in_tree": _select(WORDS["in_tree"]),
            "keyword": keywords,
            "python": builtins,
            "torch": _select(torch, [*keywords, *builtins, *WORDS["in_tree"]]),
            "project": _select([*WORDS["folders"], *self._namespaces(), *self._folders(), *self._package()]),
            "script": _select(Path(name).stem for name in self._files if re.match(r"(?!python/).*\.py$", name)),
            "package": _select([*WORDS["packages"], *modules_of(self._example.source.root.glob("requirements-*.txt"))]),
            "library": _select([*WORDS["libraries"], *torch_libraries(self.torch)]),
            "target": _select([*WORDS["targets"], *self._targets()]),
            "prefix": _select(WORDS["prefixes"]),
        }

    @cached_property
    def declared(self) -> Lists:
        """The lists that take a compiler, without what the others hold already."""
        known = {name for key in ("in_tree", "keyword", "python", "torch") for name in self.installed[key]}
        c = _select(c_names(WORDS["c_headers"]), known)
        headers = {*included_headers(self._text(".cpp", ".h", ".c")), *WORDS["cxx_headers"]}
        folders = [self.torch / "include", self.torch / "include/torch/csrc/api/include", sysconfig.get_path("include")]
        options = ["-DAT_PER_OPERATOR_HEADERS", "-fPIC", *(f"-I{folder}" for folder in folders)]
        cxx = cxx_names(headers, options, DEVICE, known | {*c})
        return {"c": c, "cxx": _select([*WORDS["namespaces"], *WORDS["cxx_macros"], *cxx], known | {*c})}

    @cached_property
    def _python(self) -> dict[str, list[str]]:
        """What a Python says that loads no installed backend, because a backend adds its names to torch."""
        outcome = ask(Path(sys.executable), "names", variables={AUTOLOAD: "0"})
        if outcome.failure:
            raise UserError(f"The Python that was asked for the names of torch {outcome.failure}: {outcome.reason}")
        return dict(outcome.items)

    @cached_property
    def _files(self) -> Tree:
        return read_project(self._example.folder)

    def _text(self, *suffixes: str) -> str:
        return "\n".join(file.text or "" for name, file in self._files.items() if name.endswith(suffixes))

    def _targets(self) -> set[str]:
        """The CMake targets of the example and of torch, except for those that have a name of the example."""
        torch = (path.read_text(encoding="utf-8") for path in self.torch.joinpath("share", "cmake").rglob("*.cmake"))
        targets = cmake_targets("\n".join([self._text("CMakeLists.txt", ".cmake"), *torch]))
        return targets - {self._example.answers[name] for name in ("package_name", "sdk_name")}

    def _namespaces(self) -> set[str]:
        """The namespaces of the sources, because another one of the same name inside hides a device's."""
        paths = re.findall(r"(?m)^ *namespace ([\w:]+)", self._text(".cpp", ".h"))
        return {name for path in paths for name in path.split("::")} - {self._example.answers["device_name"]}

    def _folders(self) -> set[str]:
        """The folders of a project, and those of its headers, which are included by these names."""
        folders = [path.split("/")[:-1] for path in self._files]
        top = {names[0] for names in folders if names}
        return top | {names[1] for names in folders if len(names) > 1 and names[0] == "csrc"}

    def _package(self) -> set[str]:
        """The folders and the attributes of the Python package, which holds the module of the device too."""
        start = f"python/{self._example.answers['package_name']}/"
        inside = [path.removeprefix(start) for path in self._files if path.startswith(start)]
        names = {path.split("/")[0] for path in inside if "/" in path} - {self._example.answers["device_name"]}
        for node in ast.walk(ast.parse(self._files[f"{start}__init__.py"].text or "")):
            if isinstance(node, ast.alias):
                names.add(node.asname or node.name)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)  # those that __getattr__ compares with
        return names


def _select(names: Iterable[str], without: Iterable[str] = ()) -> list[str]:
    return sorted({name for name in names if NAME.fullmatch(name)} - set(without))


def read(path: Path) -> Lists:
    """Reads the lists back from the Jinja file; nothing if there is no file yet."""
    if not path.exists():
        return {}
    lists: Lists = {}
    for name, values in re.findall(r'(?ms)^  "(\w+)": \((.*?)\)\.split\(\)', path.read_text()):
        lists[name] = " ".join(json.loads(line) for line in re.findall(r'"[^"]*"', values)).split()
    return lists


def write(path: Path, lists: Lists) -> None:
    """Writes the lists as one Jinja mapping, wrapped, so that a new name makes a small diff."""
    out = [
        "{#- Reserved names, generated by `torch-backend reserved` from Python, torch, headers and the example. -#}",
        "{%- set RESERVED = {",
    ]
    for name, values in lists.items():
        out.append(f'  "{name}": (')
        by_letter: dict[str, list[str]] = {}
        for value in values:
            by_letter.setdefault(value[0], []).append(value)
        for group in by_letter.values():
            out += [f'    "{line} "' for line in textwrap.wrap(" ".join(group), LINE_LENGTH)]
        out.append("  ).split(),")
    out.append("} -%}")
    path.write_text("\n".join(out) + "\n")


def merge(old: Lists, new: Lists) -> Lists:
    """Unites the lists, so that regenerating with another torch or another C library only adds names."""
    return {name: sorted({*old.get(name, []), *new[name]}) for name in new}
