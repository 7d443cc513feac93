"""Checks for a C++20 compiler whose ABI is that of torch. It compiles a short program and ignores the version."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .context import Context
from .report import Check

# It uses the features of C++20 that the rendered sources use, and prints properties of the compiler.
PROGRAM = """\
#include <bit>
#include <concepts>
#include <cstdio>
#include <span>
#include <string>

template <std::integral T>
constexpr T twice(T x) {
  return 2 * x;
}
static_assert(std::has_single_bit(8u));
static_assert(twice(2) == 4);

struct Point {
  int x = 0;
  int y = 0;
};
thread_local constinit int counter = 0;

int main() {
  const Point point{.x = 1, .y = 2};
  const int values[] = {point.x, point.y};
  const std::string text(std::span<const int>(values).size(), 'x');
#ifdef _GLIBCXX_USE_CXX11_ABI
  const int abi = _GLIBCXX_USE_CXX11_ABI;
#else
  const int abi = -1;
#endif
  std::printf("%ld %d %zu", __cplusplus, abi, text.size());
  return counter;
}
"""
INSTALL = (
    "Install GCC 12 or newer (Debian, Ubuntu: apt install g++), or name a compiler in the environment variable CXX."
)


def checks(context: Context) -> Iterator[Check]:
    """Yields the findings about the compiler."""
    if os.name == "nt":
        yield Check("C++ compiler", "skip", "not checked on Windows, where the rendered projects are untested")
        return
    command = find_compiler()
    if command is None:
        yield Check("C++ compiler", "fail", _not_found(), INSTALL)
        return
    version = context.output(*command, "--version") or ""
    called = f"{shlex.join(command)}, {version.splitlines()[0] if version else 'which does not print its version'}"
    result = _try(command, context.time_limit)
    if isinstance(result, str):
        yield Check("C++ compiler", "fail", f"{called}: cannot build a C++20 program: {result}", INSTALL)
        return
    standard, abi = result
    yield Check("C++ compiler", "ok", f"{called}; builds and runs C++20 (__cplusplus {standard})")
    torch_abi = context.facts.get("torch", {}).get("cxx11_abi")
    if abi >= 0 and torch_abi is not None:
        yield _abi(bool(abi), torch_abi)


def find_compiler() -> list[str] | None:
    """Returns the command that CMake would use: the variable CXX, which may contain arguments, or one on the PATH."""
    chosen = os.environ.get("CXX")
    if chosen:
        command = shlex.split(chosen)
        return command if shutil.which(command[0]) else None
    found = next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), None)
    return [found] if found else None


def _not_found() -> str:
    chosen = os.environ.get("CXX")
    return f"CXX={chosen} is not a program" if chosen else "no c++, g++ or clang++ on the PATH"


def _try(command: list[str], time_limit: float) -> tuple[int, int] | str:
    """Compiles, links and runs the program.

    Returns:
        ``__cplusplus`` and the ABI flag (-1 for another library than libstdc++); a text if it failed.
    """
    with tempfile.TemporaryDirectory(prefix="torch-backend-") as name:
        source, program = Path(name, "try.cpp"), Path(name, "try")
        source.write_text(PROGRAM, encoding="utf-8")
        for step in ([*command, "-std=c++20", "-pthread", str(source), "-o", str(program)], [str(program)]):
            try:
                done = subprocess.run(
                    step, cwd=name, capture_output=True, text=True, errors="replace", check=False, timeout=time_limit
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                return str(error)
            if done.returncode != 0:
                lines = (done.stderr or done.stdout).strip().splitlines()
                errors = [line for line in lines if "error" in line] or lines
                return errors[0].replace(f"{name}/", "") if errors else f"exit code {done.returncode}"
        standard, abi, _ = done.stdout.split()
        return int(standard), int(abi)


def _abi(compiler: bool, torch: bool) -> Check:
    words = {True: "the new ABI (1)", False: "the old ABI (0)"}
    if compiler == torch:
        return Check("C++ ABI", "ok", f"compiler and torch both use {words[torch]}")
    return Check(
        "C++ ABI",
        "fail",
        f"torch was built with {words[torch]}, the compiler uses {words[compiler]}: libraries would not link",
        f"Install a torch from pytorch.org, or add -D_GLIBCXX_USE_CXX11_ABI={int(torch)} to CXXFLAGS.",
    )
