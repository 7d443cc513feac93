"""The seam: csrc/device is the only folder that knows the SDK, so it is all that a port has to replace."""

import re
from pathlib import Path

from conftest import PROJECT

INCLUDED = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def sdk_headers() -> set[str]:
    """Return the SDK's headers as sources include them."""
    folders = PROJECT.glob("third_party/*/include")
    return {header.relative_to(folder).as_posix() for folder in folders for header in folder.rglob("*.h")}


def users_of(headers: set[str]) -> set[str]:
    """Return the folders with sources outside of third_party that include one of the headers."""
    sources = [path for top in ("csrc", "python") for path in Path(PROJECT, top).rglob("*") if path.is_file()]
    users = [path for path in sources if path.suffix in {".h", ".c", ".cpp"}]
    found = {path for path in users if headers & set(INCLUDED.findall(path.read_text()))}
    return {path.parent.relative_to(PROJECT).as_posix() for path in found}


def test_only_the_seam_includes_the_sdk() -> None:
    headers = sdk_headers()
    assert headers, "there is no SDK in third_party: run these tests from the source tree, they check it"
    assert users_of(headers) == {"csrc/device"}
