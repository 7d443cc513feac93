"""The list of operators of a project, csrc/fallback/operators.def."""

from __future__ import annotations

import re
from pathlib import Path

from torch_backend.errors import UserError
from torch_backend.project import Project

LIST = Path("csrc") / "fallback" / "operators.def"
USER = Path("csrc") / "fallback" / "RegisterEmulated.cpp"


def require_list(project: Project) -> None:
    """Checks that the project has a list with entries for native kernels.

    Raises:
        UserError: there is no list, or the project's template is too old for such entries.
    """
    user = project.root / USER
    if (
        not (project.root / LIST).is_file()
        or not user.is_file()
        or "#define NATIVE(" not in user.read_text(encoding="utf-8")
    ):
        raise UserError(
            f"{project.root} was made from a version of the template whose {LIST.as_posix()} has no NATIVE entries. "
            "Update it first: torch-backend update."
        )


def with_native(project: Project, functions: list[tuple[str, str]]) -> str:
    """Returns the text of the list with operators marked as native.

    The line of an emulated operator is replaced; other operators are appended.

    Args:
        functions: pairs of the name in the schema and the name in at::_ops.
    """
    lines = (project.root / LIST).read_text(encoding="utf-8").rstrip("\n").split("\n")
    for schema, op in functions:
        line = f'NATIVE("{schema}", {op})'
        same = re.compile(rf'\s*(EMULATED|NATIVE)\(\s*"{re.escape(schema)}"')
        places = [number for number, old in enumerate(lines) if same.match(old)]
        if places:
            lines[places[0]] = line
            for number in reversed(places[1:]):
                del lines[number]
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"
