"""Checks template files for what Jinja would corrupt silently, and for names of the example that stayed behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torch_backend.errors import UserError
from torch_backend.render import SUFFIX
from torch_backend.source import Source

from .names import ESCAPES

# Where a feature is a whole file, and an `if` is never needed.
_SOURCES = (".c", ".cc", ".cpp", ".h", ".hpp", ".py", ".pyi")
_BLOCK = re.compile(r"\{%-? (if [a-z0-9_' .=!()\[\],-]+|elif [a-z0-9_' .=!()\[\],-]+|else|endif) -?%\}", re.IGNORECASE)
_EXPRESSION = re.compile(r"\{\{ (?P<name>_?[a-z_]+)(\.[a-z_]+)?( \| [a-z_]+(\([a-z_=, ]*\))?)* -?\}\}")
_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?(?:#\}|$)")
_STRAY = re.compile(r"(?<!\$)\{\{|\{%|(?<!\$)\{#")
# An expression of GitHub's in a workflow that is copied as it is; braces within its strings are its own.
_GITHUB = re.compile(r"\$\{\{(?:[^'}]|'[^']*'|\}(?!\}))*\}\}")
_BUILT_IN = frozenset({"_copier_answers", "_copier_conf"})


@dataclass(frozen=True)
class Problem:
    """One line of a lint report."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def lint(source: Source, leftover: re.Pattern[str]) -> list[Problem]:
    """Checks all files below template/.

    Args:
        source: the template.
        leftover: what must not appear, in a path or in a text: the example's own names.
    """
    problems: list[Problem] = []
    variables = frozenset(source.variables) | _BUILT_IN
    for path in sorted(p for p in source.template.rglob("*") if p.is_file()):
        shown = path.relative_to(source.root).as_posix()
        relative = path.relative_to(source.template)
        for part in relative.parts:
            problems += [Problem(shown, 0, f"path: {text}") for text in _check_tags(part, variables, allow_blocks=True)]
            if '"' in part or "\\" in part:
                problems.append(Problem(shown, 0, "path: double quote or backslash, which Windows cannot check out"))
        if match := leftover.search(relative.as_posix()):
            problems.append(Problem(shown, 0, f'path: "{match[0]}" is the example\'s name; use a placeholder'))
        if path.name.endswith(SUFFIX) and path.with_name(path.name.removesuffix(SUFFIX)).exists():
            problems.append(Problem(shown, 0, "the same file is there without the suffix, and would be ignored"))
        if path.stat().st_size == 0 and path.name.endswith(SUFFIX):
            problems.append(Problem(shown, 0, "empty: it needs no suffix"))
        problems += _lint_text(path, shown, variables, leftover)
    return problems


def _lint_text(path: Path, shown: str, variables: frozenset[str], leftover: re.Pattern[str]) -> Iterator[Problem]:
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return
    suffixed = path.name.endswith(SUFFIX)
    bare = path.name.removesuffix(SUFFIX)
    for number, line in enumerate(text.split("\n"), 1):
        if match := leftover.search(line):
            yield Problem(shown, number, f'"{match[0]}" is the example\'s name; use a placeholder')
        if "\r" in line:
            yield Problem(shown, number, "carriage return: line ends are \\n")
        if suffixed:
            blocks = not bare.endswith(_SOURCES)
            for message in _check_tags(line, variables, allow_blocks=blocks):
                yield Problem(shown, number, message)
        elif stray := _STRAY.search(_GITHUB.sub("", line) if ".github" in shown else line):
            yield Problem(
                shown, number, f'"{stray[0]}" in a file that is copied as it is: write it with a space between'
            )


def _check_tags(text: str, variables: frozenset[str], *, allow_blocks: bool) -> Iterator[str]:
    """Explains each delimiter of Jinja in one line that is not a plain placeholder."""
    rest = text
    for escaped in ESCAPES.values():
        rest = rest.replace(escaped, " " * len(escaped))
    for match in _TAG.finditer(rest):
        tag = match[0]
        if tag.startswith("{{"):
            expression = _EXPRESSION.fullmatch(tag)
            if expression is None:
                yield f"{tag} is not a placeholder: write {{{{ name }}}}, or {{ {{ for two braces"
            elif expression["name"] not in variables:
                yield f"{tag}: copier.yml has no variable {expression['name']}"
        elif tag.startswith("{#"):
            yield f"{tag} is a comment of Jinja, which would vanish: write {{ #"
        elif not allow_blocks:
            yield f"{tag}: no logic in sources; make the feature a file of its own"
        elif not _BLOCK.fullmatch(tag):
            yield f"{tag}: only if, elif, else and endif are used here"
    untagged = _TAG.sub(lambda m: " " * len(m[0]), rest)
    if stray := re.search(r"\{\{|\{%|\{#", untagged):
        yield f'"{stray[0]}" is not closed on this line'


def require_clean(problems: list[Problem]) -> None:
    """Raises UserError if there are problems."""
    if problems:
        raise UserError("\n".join([*map(str, problems), f"{len(problems)} problems in the template"]))
