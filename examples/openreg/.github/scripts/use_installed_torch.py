"""Aims the project at the torch that is installed, for a run against one that it was not made for.

Writes that torch's minor release into ``_build_info.py`` and takes the pins of torch out of ``pyproject.toml``. Prints
``version=<version of torch>``, the form in which a workflow takes an output. Not for a commit: a port to a new minor release
takes a version of the template that knows it.
"""

import re
import sys
from importlib.metadata import version
from pathlib import Path


def replace(path: Path, pattern: str, replacement: str) -> None:
    """Replace all matches in a file. Raises SystemExit if there are none."""
    text, count = re.subn(pattern, replacement, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if count == 0:
        sys.exit(f"{path} holds nothing like {pattern}: tell this script where the release of torch is written now")
    path.write_text(text, encoding="utf-8")


def main() -> None:
    """Change the files of the project that this script belongs to."""
    project = Path(__file__).resolve().parents[2]
    installed = version("torch")
    minor = ".".join(installed.split(".")[:2])
    (build_info,) = project.glob("python/*/_build_info.py")
    replace(build_info, r'^TORCH_MINOR = ".*"$', f'TORCH_MINOR = "{minor}"')
    replace(project / "pyproject.toml", r'"torch[=<>~!][^"]*"', '"torch"')
    print(f"version={installed}")


if __name__ == "__main__":
    main()
