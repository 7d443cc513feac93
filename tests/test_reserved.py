"""The list of reserved names against what is installed."""

from __future__ import annotations

import subprocess
import sys

from torch_backend.maintenance import reserved
from torch_backend.source import Source


def test_the_list_holds_what_is_installed(source: Source) -> None:
    """The test runs in a new process, because an import of torch affects later tests."""
    code = (
        "import sys, pathlib\n"
        "from torch_backend.maintenance import reserved\n"
        "known = reserved.read(pathlib.Path(sys.argv[1]))\n"
        "found = reserved.collect()\n"
        "everything = {name for names in known.values() for name in names}\n"
        "missing = {name for key, names in found.items() if key != 'c' for name in names} - everything\n"
        "assert not missing, f'run `torch-backend reserved`: {sorted(missing)}'\n"
    )
    path = source.root / "includes" / "reserved.jinja"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def test_reading_gives_what_was_written(source: Source) -> None:
    path = source.root / "includes" / "reserved.jinja"
    before = path.read_text()
    lists = reserved.read(path)
    assert {"in_tree", "keyword", "torch", "c", "prefix"} <= lists.keys()
    reserved.write(path, lists)
    assert path.read_text() == before
