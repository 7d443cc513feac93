"""Replaces the names of the example by placeholders. The place of a name decides which placeholder it gets.

The device and the SDK of the example have the same name. Below ``third_party/`` the name means the SDK. Elsewhere it
means the SDK only in its include path, its header, its library file and its environment variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_OPENERS = re.compile(r"\{\{|\{%|\{#")
PLACEHOLDER = re.compile(r"\{\{ (?P<name>[a-z_]+) \}\}")
ESCAPES = {"{": "{{ '{' }}", "{{": "{{ '{{' }}", "{%": "{{ '{%' }}", "{#": "{{ '{#' }}"}

_DATA_SUFFIXES = (".toml", ".yml", ".yaml", ".json", ".cff", ".cfg")
_PROSE_SUFFIXES = (".md", ".rst")
_CMAKE = ("CMakeLists.txt", ".cmake")


@dataclass(frozen=True)
class Rule:
    """Replaces the group ``v`` of a match of ``pattern``, or the whole match, by the variable's placeholder.

    Attributes:
        applies: decides by the file's path in the example.
        doubt: a warning for the maintainer if the rule may guess wrong; else empty.
    """

    pattern: re.Pattern[str]
    variable: str
    applies: Callable[[str], bool] = lambda path: True
    doubt: str = ""


@dataclass(frozen=True)
class Finding:
    """A place for the maintainer to check. An error stops the backport; a guess is only reported."""

    path: str
    line: int
    text: str
    error: bool = True

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {'error' if self.error else 'guess'}: {self.text}"


def in_sdk(path: str) -> bool:
    """True below third_party/."""
    return path.startswith("third_party/")


def outside_sdk(path: str) -> bool:
    """True for everything that is not below third_party/."""
    return not in_sdk(path)


def _has_suffix(*suffixes: str) -> Callable[[str], bool]:
    return lambda path: path.endswith(suffixes)


class Names:
    """The rules for one set of sample answers."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = {name: str(value) for name, value in values.items()}
        v = {name: re.escape(value) for name, value in self.values.items()}
        device, sdk, prefix = v["device_name"], v["sdk_name"], v["sdk_prefix"]
        word = r"(?<![A-Za-z0-9])"
        self.rules = [
            # answers that appear as values in data and prose
            Rule(re.compile(v["description_literal"]), "description_literal", _has_suffix(*_DATA_SUFFIXES)),
            Rule(re.compile(v["description"]), "description", _has_suffix(*_PROSE_SUFFIXES)),
            Rule(re.compile(v["author_literal"]), "author_literal", _has_suffix(*_DATA_SUFFIXES)),
            Rule(re.compile(v["author"]), "author", lambda p: p.endswith(_PROSE_SUFFIXES) or p == "LICENSE"),
            Rule(re.compile(v["author_email"]), "author_email"),
            Rule(re.compile(v["repository_url"]), "repository_url"),
            Rule(re.compile(v["torch_requirement"]), "torch_requirement"),
            Rule(re.compile(rf"requires-python = \"(?P<v>{v['python_requirement']})\""), "python_requirement"),
            Rule(
                re.compile(rf"\b{v['license_expression']}\b"),
                "license_expression",
                lambda p: p.endswith((*_DATA_SUFFIXES, *_PROSE_SUFFIXES)),
            ),
            Rule(re.compile(rf"(?i)torch_minor\W{{1,6}}(?P<v>{v['torch_minor']})(?![\d.])"), "torch_minor"),
            Rule(
                re.compile(rf"NUM_DEVICES\W{{1,3}}(?P<v>{v['num_devices']})(?!\w)"), "num_devices", _has_suffix(*_CMAKE)
            ),
            Rule(
                re.compile(rf"DEVICE_MEMORY\W{{1,3}}(?P<v>{v['device_memory']})(?!\w)"),
                "device_memory",
                _has_suffix(*_CMAKE),
            ),
            # the package
            Rule(re.compile(v["package_macro"]), "package_macro"),
            Rule(re.compile(v["package_name"]), "package_name"),
            # the SDK, then the device
            Rule(re.compile(sdk), "sdk_name", in_sdk),
            Rule(re.compile(v["sdk_macro"]), "sdk_macro", in_sdk),
            Rule(re.compile(rf"third_party/(?P<v>{sdk})(?![a-z0-9_])"), "sdk_name"),
            Rule(re.compile(rf"(?P<v>{sdk})(?=/(?:include|src|tests)\b)"), "sdk_name"),
            Rule(re.compile(rf"[<\"/](?P<v>{sdk})(?=/{sdk}\.h\b)"), "sdk_name"),
            Rule(re.compile(rf"<(?P<v>{sdk})(?=/)"), "sdk_name"),
            Rule(re.compile(rf"(?P<v>{sdk})(?=\.h\b)"), "sdk_name"),
            Rule(re.compile(rf"lib(?P<v>{sdk})(?![a-z0-9_])"), "sdk_name"),
            Rule(re.compile(rf"(?<![\w/.:])(?P<v>{sdk})(?![\w/.:])"), "sdk_name", _has_suffix(*_CMAKE)),  # the target
            Rule(re.compile(rf"{word}{v['sdk_macro']}(?=_[A-Z])"), "sdk_macro"),
            Rule(
                re.compile(v["device_macro"]),
                "device_macro",
                doubt="taken for the device in capitals; is it the SDK's?",
            ),
            Rule(re.compile(device), "device_name"),
            Rule(re.compile(rf"(?<![A-Za-z0-9_]){v['vendor_name']}(?![A-Za-z0-9_])"), "vendor_name"),
            # the SDK's C prefix: orMalloc, OR_VERSION
            Rule(re.compile(rf"(?<![A-Za-z0-9])(?P<v>{prefix})(?=[A-Z][a-z])"), "sdk_prefix"),
            Rule(re.compile(rf"(?<![A-Za-z0-9_])(?P<v>{v['sdk_prefix_macro']})(?=_[A-Z])"), "sdk_prefix_macro", in_sdk),
        ]
        stems = {device, sdk, v["package_name"]}
        self.leftover = re.compile("|".join(sorted(stems)), re.IGNORECASE)

    def convert(self, text: str, path: str, hints: Mapping[str, str] | None = None) -> tuple[str, list[Finding]]:
        """Replaces every name in a text of the example.

        Args:
            text: the text, one or more lines.
            path: the file of the text, relative to the example; the rules depend on it.
            hints: the variable of each name in the template line that this text replaces.

        Returns:
            The template text, and the findings; line numbers count from 1 within ``text``.
        """
        hints = hints or {}
        spans: dict[int, tuple[int, str]] = {}
        taken = bytearray(len(text))
        findings: list[Finding] = []

        def line_of(position: int) -> int:
            return text.count("\n", 0, position) + 1

        for rule in self.rules:
            if not rule.applies(path):
                continue
            for match in rule.pattern.finditer(text):
                start, end = match.span("v") if "v" in rule.pattern.groupindex else match.span()
                if start == end or any(taken[start:end]):
                    continue
                taken[start:end] = b"\1" * (end - start)
                variable = hints.get(text[start:end], rule.variable)
                spans[start] = (end, variable)
                if rule.doubt and text[start:end] not in hints:
                    findings.append(Finding(path, line_of(start), f'"{text[start:end]}" {rule.doubt}', error=False))

        for match in self.leftover.finditer(text):
            if not all(taken[match.start() : match.end()]):
                word = re.search(r"\w*$", text[: match.start()])
                whole = (word[0] if word else "") + text[match.start() :].split(None, 1)[0][:40]
                findings.append(Finding(path, line_of(match.start()), f'no rule says what "{whole}" stands for'))

        return _assemble(text, spans), findings

    def convert_path(self, path: str) -> tuple[str, list[Finding]]:
        """Replaces the names in a path. The caller adds conditions and the suffix."""
        return self.convert(path, path)


def _assemble(text: str, spans: Mapping[int, tuple[int, str]]) -> str:
    """Joins placeholders and literal text. Escapes delimiters of Jinja in the text."""
    out: list[str] = []
    position = 0
    for start in sorted(spans):
        end, variable = spans[start]
        literal = text[position:start]
        if literal.endswith("{"):
            out += [escape(literal[:-1]), ESCAPES["{"]]
        else:
            out.append(escape(literal))
        out.append(f"{{{{ {variable} }}}}")
        position = end
    out.append(escape(text[position:]))
    return "".join(out)


def escape(literal: str) -> str:
    """Escapes delimiters of Jinja, so that they render unchanged."""
    return _OPENERS.sub(lambda match: ESCAPES[match[0]], literal)


def is_plain(template_line: str) -> bool:
    """True if a template line has no tag except placeholders, so that it follows from the rendered line."""
    rest = PLACEHOLDER.sub("", template_line)
    for escaped in ESCAPES.values():
        rest = rest.replace(escaped, "")
    return not _OPENERS.search(rest)


def hints_from(template_line: str, values: Mapping[str, str]) -> dict[str, str]:
    """Returns the variable of each text in a template line, if only one variable has this text."""
    found: dict[str, set[str]] = {}
    for match in PLACEHOLDER.finditer(template_line):
        name = match["name"]
        if name in values:
            found.setdefault(values[name], set()).add(name)
    return {text: next(iter(names)) for text, names in found.items() if len(names) == 1}
