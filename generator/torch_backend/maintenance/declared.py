"""Finds names that C and C++ headers have taken, by compiling."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from torch_backend.errors import UserError

# Lines that compile if a name is free. The first one compiles too if the name is a namespace, the second one if it is a
# class or a function.
_PROBES = ("namespace {0} {{ struct Probe; }} using probe_{0} = {0}::Probe;", "struct {0};")


def c_names(headers: Iterable[str]) -> set[str]:
    """Returns functions, types, variables and macros in lower case that headers of the C library declare."""
    names: set[str] = set()
    for header in headers:
        source = f"#include <{header}.h>\n"
        # Not every C library has all headers.
        body, macros = (
            _compile(["-x", "c", "-D_GNU_SOURCE", "-E", "-P", *mode, "-"], source).stdout for mode in ([], ["-dM"])
        )
        names |= set(re.findall(r"\b([a-z]\w*)\s*\(", body))  # functions
        names |= set(re.findall(r"\b(?:struct|union|enum)\s+([a-z]\w*)", body))
        names |= set(re.findall(r"\b([a-z]\w*)\s*;", "\n".join(re.findall(r"(?m)^(?:typedef|extern)\b.*;$", body))))
        names |= set(re.findall(r"(?m)^#define ([a-z]\w*)", macros))
    return names


def included_headers(text: str) -> set[str]:
    """Returns the headers that C++ sources include with angle brackets."""
    return set(re.findall(r"(?m)^\s*#\s*include\s*<([^<>]+)>", text))


def cxx_names(
    headers: Iterable[str], options: Sequence[str], pattern: re.Pattern[str], known: Collection[str]
) -> set[str]:
    """Returns names that a new namespace cannot have in a C++ file that includes certain headers.

    These are macros and what the headers declare in the global namespace, namespaces too. Every identifier in the
    headers is tried.

    Args:
        headers: the headers; those that this machine does not have are left out.
        options: options of the compiler, such as folders of headers.
        pattern: what names to try.
        known: names that need no trial.

    Raises:
        UserError: there is no compiler, or the headers do not compile.
    """
    with tempfile.TemporaryDirectory(prefix="torch-backend-") as name:
        head = Path(name) / "head.h"
        head.write_text("".join(f"#if __has_include(<{h}>)\n#include <{h}>\n#endif\n" for h in sorted(headers)))
        mode = ["-std=c++20", "-w", *options]
        macros = set(re.findall(r"(?m)^#define (\w+)", _checked([*mode, "-x", "c++", "-E", "-dM", str(head)])))
        words = set(re.findall(r"\b[a-z]\w*\b", _checked([*mode, "-x", "c++", "-E", "-P", str(head)])))
        taken = {macro for macro in macros if pattern.fullmatch(macro)}
        candidates = sorted(word for word in words - macros - set(known) if pattern.fullmatch(word))
        _checked([*mode, "-x", "c++-header", str(head), "-o", f"{head}.gch"])  # else each trial would take a minute
        for probe in _PROBES:
            taken |= _refused(probe, [word for word in candidates if word not in taken], head, mode)
        return taken - set(known)


def _refused(probe: str, names: list[str], head: Path, mode: Sequence[str]) -> set[str]:
    """Returns the names whose lines do not compile. Repeats until all others do, because an error can hide another."""
    refused: set[str] = set()
    file = head.with_name("probe.cpp")
    while True:
        left = [name for name in names if name not in refused]
        lines = "\n".join(probe.format(name) for name in left)
        file.write_text(f'#include "head.h"\n#line 1 "probe"\n{lines}\n')
        done = _compile([*mode, "-fsyntax-only", "-fmax-errors=0", "-fno-diagnostics-show-caret", str(file)])
        if done.returncode == 0:
            return refused
        found = {left[int(line) - 1] for line in re.findall(r"(?m)^probe:(\d+):(?:\d+:)? error: ", done.stderr)}
        if not found:
            raise UserError(f"The trial of names does not compile:\n{done.stderr[-2000:]}")
        refused |= found


def _checked(arguments: Sequence[str]) -> str:
    done = _compile(arguments)
    if done.returncode != 0:
        raise UserError(f"The headers do not compile:\n{done.stderr[-2000:]}")
    return done.stdout


def _compile(arguments: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    compiler = shutil.which("g++")
    if compiler is None:
        raise UserError("Install g++: names that headers declare are found by compiling.", 2)
    return subprocess.run(
        [compiler, *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"LC_ALL": "C"},  # messages in English
    )
