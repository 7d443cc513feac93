"""Loads the backend in a separate process, and names missing registrations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from torch_backend.interpreter import AUTOLOAD, Outcome, ask
from torch_backend.project import Project
from torch_backend.source import template_module

from .context import Context
from .report import Check, State

MENDS = {
    "autoload": 'The entry point in pyproject.toml: [project.entry-points."torch.backends"]. Then install again.',
    "import": "Build and install again; python -c 'import {package}' shows the whole error.",
    "SDK library": "Install the SDK, or add the library's folder to the loader's path (LD_LIBRARY_PATH). "
    "If the SDK is always in one folder, let the build add that folder to the run path: cmake/UseSdk.cmake tells how.",
    "device module": "_registration.py in python/{package} gives the module {device} to torch._register_device_module.",
    "guard": "csrc/runtime/Guard.cpp registers it with C10_REGISTER_GUARD_IMPL(PrivateUse1, ...).",
    "hooks": "csrc/runtime/Hooks.cpp registers them with at::RegisterPrivateUse1HooksInterface.",
    "allocator": "csrc/runtime/memory/CachingAllocator.cpp registers a c10::DeviceAllocator with c10::SetAllocator.",
    "generator": "csrc/runtime/Hooks.cpp returns it in getNewGenerator, csrc/runtime/Generator.cpp implements it.",
    "minimal kernels": "csrc/aten/{{Factories,Views,Copy,Scalar,Storage}}.cpp register them.",
    "fallback": "csrc/fallback/RegisterFallbacks.cpp registers it, in TORCH_LIBRARY_IMPL(_, PrivateUse1, m).",
    "autocast": "csrc/amp/Autocast.cpp registers the lists of operators.",
    "stream": "csrc/runtime/Stream.cpp, Event.cpp and Guard.cpp.",
    "pinned memory": "csrc/runtime/memory/HostAllocator.cpp; getPinnedMemoryAllocator and isPinnedPtr in Hooks.cpp.",
    "first tensor": "csrc/aten/Factories.cpp and Copy.cpp come first, then the fallback.",
}
LOADER = "python/{{ package_name }}/_loader.py"
# A backend works without these.
OPTIONAL = {"autoload", "fallback", "autocast", "pinned memory"}


def checks(context: Context) -> Iterator[Check]:
    """Yields the result for each registration; nothing if there is no package to load."""
    project = context.project
    if project is None or not (context.facts.get("package") or {}).get("folder"):
        return
    if not (context.facts.get("torch") or {}).get("version"):
        yield Check("load", "skip", "there is no torch to load the backend into")
        return
    found, outcome = _load(context, project, {})
    if list(found) == ["autoload"] and not outcome.failure and found["autoload"][0] == "missing":
        # That process cannot import torch any more. Another process imports the package and runs the other checks.
        more, outcome = _load(context, project, {AUTOLOAD: "0"})
        found = more | found
    running = [name for name, (state, _) in found.items() if state == "running"]
    absent = next(
        filter(None, (_absent_library(text, project) for state, text in found.values() if state == "missing")), None
    )
    if absent and "SDK library" not in found:  # first, because it is the cause of those that follow
        text = f"the loader does not find {absent}: {project.package_name} does not load"
        yield _check("SDK library", "missing", text, project)
    for name, (state, text) in found.items():
        if state == "running":
            continue
        check = _check(name, state, text, project)
        caused = absent and state == "missing" and name in ("autoload", "import")
        yield replace(check, mend="Mend the check 'SDK library' first.") if caused else check
    if outcome.failure:
        yield _died(outcome, running, context)


def _load(
    context: Context, project: Project, variables: dict[str, str | None]
) -> tuple[dict[str, tuple[str, str]], Outcome]:
    outcome = ask(
        context.python,
        "registrations",
        project.package_name,
        project.device_name,
        time_limit=context.time_limit,
        variables=variables,
    )
    return {name: (state, text) for name, state, text in outcome.items}, outcome


def _absent_library(text: str, project: Project) -> str | None:
    """Returns the library that is missing according to an import's error, but for those of torch and of the package."""
    name: str | None = template_module(LOADER).missing_library(text)
    own = re.match(r"lib(torch|c10|python|" + re.escape(project.package_name) + ")", name or "")
    return None if own else name


def _check(name: str, state: str, text: str, project: Project) -> Check:
    if state != "missing":
        return Check(name, "ok" if state == "ok" else "skip", text)
    mend = MENDS.get(name, "").format(package=project.package_name, device=project.device_name)
    missing: State = "warn" if name in OPTIONAL else "fail"
    return Check(name, missing, text, mend)


def _died(outcome: Outcome, running: list[str], context: Context) -> Check:
    during = f" during the check {running[-1]!r}" if running else ""
    stack = [line.strip() for line in outcome.errors.splitlines() if line.strip().startswith("File ")]
    where = f"; {stack[0]}" if stack and "SIG" in outcome.failure else f": {outcome.reason}" if outcome.reason else ""
    mend = (
        f"To see where: gdb --args {context.command('-c', 'import torch')}, or the tests with python -X faulthandler."
    )
    if "killed" in outcome.failure:
        mend = "If the machine is merely slow, give it longer with --time-limit; else see where it waits: py-spy dump."
    return Check("load", "fail", f"the process that loads the backend {outcome.failure}{during}{where}", mend)
