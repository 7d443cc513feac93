"""Adds optional parts of the template to a project, or removes them, without changing the template version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any

from torch_backend.errors import UserError
from torch_backend.git import Git, fields
from torch_backend.project import Project

from .merge import Merged
from .transplant import transplant
from .update import answers_of, merged_render, require_clean, template_of

QUESTION = "features"


@dataclass(frozen=True)
class FeatureChange:
    """The result of a change of features.

    Attributes:
        changed: the added or removed features.
        sentences: messages for the user.
        merged: the files; None if there was nothing to do.
    """

    changed: list[str] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    merged: Merged | None = None


def change_features(
    project: Project,
    *,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    address: str | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> FeatureChange:
    """Changes the answer to the question ``features``.

    Args:
        project: the rendered project.
        add: features to add.
        remove: features to remove.
        address: the template's present address, if it has moved.
        force: remove files with the vendor's edits too.
        dry_run: change nothing.

    Raises:
        UserError: the change is not possible, or a file to remove was edited; the project is unchanged.
    """
    with template_of(project, address) as (repository, current):
        offered = _choices(repository.config(current))
        _require_known([*add, *remove], offered, current.name)
        has = [str(name) for name in project.answers.get(QUESTION) or []]
        wanted = [name for name in offered if (name in has or name in add) and name not in remove]
        changed = sorted(set(has) ^ set(wanted))
        sentences = [f"The project already has {name}." for name in dict.fromkeys(add) if name in has]
        sentences += [f"The project does not have {name}." for name in dict.fromkeys(remove) if name not in has]
        if not changed:
            return FeatureChange(changed, sentences)
        answers = answers_of(project) | {QUESTION: wanted}
        with merged_render(project, repository, current, current, answers, follow_renames=False) as merged:
            edited = [path for path, stages in merged.unmerged.items() if stages.keys() == {1, 2}]
            if edited and not force:
                raise UserError(
                    "You have edited these files, which would be removed:\n  "
                    + "\n  ".join(edited)
                    + "\nMove what you want to keep elsewhere, or pass --force. The project is unchanged.",
                )
            if edited:
                sentences.append(f"Removed, although you had edited them (git still has them): {', '.join(edited)}.")
            result = merged.without(edited)
            if stay := _own_files(project.root, result):
                sentences.append(f"These are yours and stay: {', '.join(stay)}.")
            if not dry_run:
                require_clean(project)  # again, since files may have changed meanwhile
                transplant(result, project.root)
            return FeatureChange(changed, sentences, result)


def _choices(config: dict[str, Any]) -> list[str]:
    """The values that the question offers."""
    choices = (config.get(QUESTION) or {}).get("choices") or []
    return [str(choice) for choice in (choices.values() if isinstance(choices, dict) else choices)]


def _require_known(names: Sequence[str], offered: Sequence[str], version: str) -> None:
    for name in names:
        if name not in offered:
            near = get_close_matches(name, offered, n=1)
            hint = f": did you mean {near[0]}?" if near else "."
            raise UserError(
                f"The template has no feature {name} in version {version}{hint} It has {', '.join(offered) or 'none'}.",
                2,
            )


def _own_files(root: Path, merged: Merged) -> list[str]:
    """Files of the vendor in folders that files are removed from."""
    gone = {path for path, kind in merged.changes.items() if kind == "D"}
    folders = {str(PurePosixPath(path).parent) for path in gone} - {"."}
    listed = fields(Git(root).run("ls-files", "-z", "--", *sorted(folders))) if folders else []
    return [path for path in listed if path not in gone and path not in merged.changes]
