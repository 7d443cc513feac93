"""Finds the functions that a C++ file defines, from comments, literals and braces, without a compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_HIDDEN = re.compile(
    r"//[^\n]*|/\*.*?\*/"  # comments
    r'|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'  # strings
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'"  # characters, but not the mark in 1'000
    r"|^[ \t]*#(?:\\\n|[^\n])*",  # preprocessor
    re.DOTALL | re.MULTILINE,
)
_SCOPE = re.compile(r"\b(?P<kind>namespace|class|struct|union|enum)\b(?P<rest>[^()]*)$")
_NAME = re.compile(r"(?P<name>~?[A-Za-z_]\w*(?:::~?[A-Za-z_]\w*)*|operator\s*\S+?)\s*\(")
_TEMPLATE = re.compile(r"\btemplate\s*<")


@dataclass(frozen=True)
class Function:
    """A function with a body.

    Attributes:
        name: its name with its classes and without namespaces.
        line: its line; the first line is 1.
        code: the text from the return type to the closing brace, without comments and the content of literals.
    """

    name: str
    line: int
    code: str


def visible(source: str) -> str:
    """Blanks comments, literals and preprocessor lines; positions and lines stay."""
    return _HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)


def functions(source: str) -> Iterator[Function]:
    """Finds the functions and member functions that a source defines, including inline ones; not lambdas."""
    code = visible(source)
    scopes: list[str] = []  # names of the scopes around; "" for a namespace
    start = position = 0
    while position < len(code):
        char = code[position]
        if char == ";":
            start = position + 1
        elif char == "}":
            if scopes:
                scopes.pop()
            start = position + 1
        elif char == "{":
            head = _without_template(code[start:position])
            scope = _SCOPE.search(head)
            if scope or ("extern" in head and "(" not in head):
                is_class = scope is not None and scope["kind"] != "namespace"
                scopes.append(_class_name(scope["rest"]) if scope and is_class else "")
                start = position + 1
            else:
                end = _closing(code, position)
                if not _is_initialiser(head):
                    name = _NAME.search(head)
                    if name and "=" not in head[: name.start()]:
                        full = "::".join([scope for scope in scopes if scope] + [re.sub(r"\s+", "", name["name"])])
                        first = position - len(code[start:position].lstrip())
                        yield Function(full, code.count("\n", 0, first) + 1, code[first:end])
                        start = end
                position = end - 1
        elif char == ":" and code[start:position].strip() in {"public", "private", "protected"}:
            start = position + 1
        position += 1


def _is_initialiser(head: str) -> bool:
    """Returns whether the next brace opens a value: a default argument, or a member in an initializer list."""
    if head.count("(") > head.count(")"):
        return True
    return re.search(r"\)\s*(noexcept\s*)?:(?!:)", head) is not None and re.search(r"[\w>]\s*$", head) is not None


def _without_template(head: str) -> str:
    """Removes `template <...>` from the front of a declaration."""
    while match := _TEMPLATE.search(head):
        depth, position = 1, match.end()
        while position < len(head) and depth:
            depth += {"<": 1, ">": -1}.get(head[position], 0)
            position += 1
        head = head[: match.start()] + head[position:]
    return head


def _class_name(rest: str) -> str:
    """Returns the last word before the bases; macros and attributes may precede it."""
    words = re.findall(r"[A-Za-z_]\w*", re.split(r"(?<!:):(?!:)", rest)[0].replace("final", ""))
    return words[-1] if words else ""


def _closing(code: str, opening: int) -> int:
    """Returns the position after the brace that closes the one at ``opening``, or the end of the text."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, opening):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(code)
