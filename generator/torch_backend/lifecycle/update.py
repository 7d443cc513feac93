"""Updates a project to another version of the template, or changes its features at the same version.

In scratch folders, copier renders both versions and git merges their difference into the project (see merge.py). Only
at the end does transplant.py change the project.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from torch_backend.errors import UserError, describe
from torch_backend.git import Git
from torch_backend.project import Project
from torch_backend.render import ANSWERS_FILE, copy, record_origin

from . import migrations
from .answers import require_asked
from .changelog import label, news, printable
from .interruption import interruptible
from .merge import Merged, Scratch, merge
from .ownership import WRITTEN_BY_VENDORS, Rewrite
from .repository import Repository, Revision, open_repository
from .transplant import transplant
from .undo import staging_folders

UNTOUCHED = "The project is unchanged."
FIXED = {"vendor_name", "device_name", "package_name", "sdk_name", "sdk_prefix"}
INTERRUPTED = 130  # the exit code of shells after SIGINT


@dataclass(frozen=True)
class Status:
    """The result of ``--check``.

    Attributes:
        template: its address.
        current: the tag or the commit that the project is at.
        latest: the tag or the commit that an update takes it to.
        newer: tags after ``current``, and ``latest``.
        labels: the printed form of each version.
    """

    template: str
    current: str
    latest: str
    newer: list[str]
    labels: dict[str, str]

    @property
    def out_of_date(self) -> bool:
        """True if a newer version exists."""
        return bool(self.newer)


@dataclass(frozen=True)
class Update:
    """The result of an update or of a dry run.

    Attributes:
        old: the version of the project before, in its printed form.
        new: the version after the update.
        news: the changes of the template.
        notes: the notes of migrations for the user.
        merged: the files; None if there was nothing to do.
    """

    old: str
    new: str
    news: str = ""
    notes: list[str] = field(default_factory=list)
    merged: Merged | None = None


def check(project: Project, address: str | None = None) -> Status:
    """Checks whether the template has a newer version than the project.

    Raises:
        UserError: the template has no versions or does not exist, or the project does not record it.
    """
    with guarded(), open_repository(project, address) as (repository, current):
        latest = repository.latest(current)
        tagged = [*repository.between(current, latest).values(), latest.name]
        newer = [] if repository.contains(current, latest) else list(dict.fromkeys(tagged))
        labels = {name: name for name in newer} | {r.name: label(repository, r) for r in (current, latest)}
        return Status(repository.address, current.name, latest.name, newer, labels)


def update(
    project: Project,
    *,
    ref: str | None = None,
    address: str | None = None,
    data: Mapping[str, str] | None = None,
    defaults: bool = True,
    dry_run: bool = False,
) -> Update:
    """Updates a project. It asks new questions unless ``defaults`` is set.

    Args:
        project: the rendered project.
        ref: tag, branch or commit of the template; by default see ``Repository.latest``.
        address: the template's present address, if it has moved.
        data: new and changed answers.
        defaults: answer new questions by their defaults.
        dry_run: change nothing.

    Raises:
        UserError: the update is not possible; the project is unchanged.
    """
    with template_of(project, address) as (repository, current):
        target = repository.revision(ref) if ref else repository.latest(current)
        here, there = label(repository, current), label(repository, target)
        config = repository.config(target)
        answers = _answers_with(data or {}, config)
        if repository.contains(current, target) and (target.commit != current.commit or not data):
            if ref and target.commit != current.commit:
                raise UserError(
                    f"The project is at {here}, which is newer than {there}: only git leads back.",
                    2,
                )
            return Update(here, here)
        steps = migrations.migrations(repository, current, target)
        rewriter = migrations.rewriter(project.answers, steps)
        with merged_render(
            project,
            repository,
            current,
            target,
            migrations.migrate_answers(answers_of(project), steps) | answers,
            defaults=defaults,
            seeds=seed_patterns(config, project.answers),
            moved=lambda path: migrations.rename(path, rewriter.renames),
            rewrite=rewriter if steps else None,
            written=WRITTEN_BY_VENDORS,
            omitted=[path for step in steps for path in step.omitted],
            given=list(data or {}),
        ) as merged:
            notes = [printable(step.note.strip()) for step in steps if step.note]
            changes = news(repository, current, target) if target.commit != current.commit else ""
            done = Update(here, there, changes, notes, merged)
            if not dry_run:
                require_clean(project)  # again, since files may have changed meanwhile
                transplant(merged, project.root)
            return done


def _answers_with(data: Mapping[str, str], config: Mapping[str, Any]) -> dict[str, str]:
    """Checks the answers that were passed to the command.

    Raises:
        UserError: a question does not exist, or its answer cannot change.
    """
    questions = [name for name in config if not name.startswith("_") and config[name].get("when") is not False]
    for name in data:
        if name not in questions:
            raise UserError(f"No such question: {name}; the questions are {', '.join(questions)}.", 2)
        if name in FIXED:
            raise UserError(
                f"{name} cannot change after a project is rendered, because your files and code contain it.", 2
            )
        if config[name].get("multiselect"):
            raise UserError(f"{name} has several values: use `torch-backend add-feature` and `remove-feature`.", 2)
    return dict(data)


def answers_of(project: Project) -> dict[str, Any]:
    """Returns the project's answers without copier's own entries."""
    return {name: value for name, value in project.answers.items() if not name.startswith("_")}


@contextmanager
def merged_render(
    project: Project,
    repository: Repository,
    current: Revision,
    target: Revision,
    answers: Mapping[str, Any],
    *,
    defaults: bool = True,
    seeds: Sequence[str] = (),
    moved: Callable[[str], str] = lambda path: path,
    rewrite: Rewrite | None = None,
    written: Sequence[str] = (),
    omitted: Sequence[str] = (),
    follow_renames: bool = True,
    given: Sequence[str] = (),
) -> Iterator[Merged]:
    """Renders the current and the target revision of the template, and merges them with the project.

    It writes nothing to the project.

    Args:
        project: the rendered project.
        repository: its template.
        current: the revision that the project was made from.
        target: the revision to update to.
        answers: the answers for the target revision.
        defaults: ask no questions.
        seeds: see ``merge``.
        moved: see ``merge``.
        rewrite: see ``merge``.
        written: see ``merge``.
        omitted: see ``merge``.
        follow_renames: see ``merge``.
        given: the questions that the user has answered for this update.

    Raises:
        UserError: the template cannot be rendered, or it does not ask a question that was answered.
    """
    with tempfile.TemporaryDirectory(prefix="torch-backend-") as folder:
        old, new = Path(folder) / "old", Path(folder) / "new"
        template = str(repository.folder)
        copy(template, old, answers_of(project), ref=current.commit)
        copy(template, new, answers, defaults=defaults, ref=target.commit)
        require_asked(given, Project.find(new).answers, repository.config(target))
        record_origin(new, repository.address, target.name)
        scratch = Scratch(Path(folder) / "merge", project.root)
        yield merge(
            scratch,
            old,
            new,
            target.name,
            seeds=seeds,
            moved=moved,
            rewrite=rewrite,
            written=written,
            omitted=omitted,
            follow_renames=follow_renames,
        )


def require_clean(project: Project) -> None:
    """Refuses a project with uncommitted edits, because an update could not tell them from the template's changes.

    Raises:
        UserError: the project is not clean; the text says what to do.
    """
    git = Git(project.root)
    if not git.succeeds("rev-parse", "--is-inside-work-tree"):
        raise UserError(
            f"{project.root} is not in a git repository, so your edits cannot be told from the template's files: "
            "run `git init`, `git add --all` and `git commit` there first.",
            2,
        )
    if left := staging_folders(project.root):
        raise UserError(
            f"Run `torch-backend update --abort` first: an earlier update of {project.root} was killed and left "
            f"{left[0].name}/. {UNTOUCHED}",
            2,
        )
    if changes := git.text("status", "--porcelain", "--untracked-files=normal", "--", "."):
        lines = changes.splitlines()
        more = f"\n  ... and {len(lines) - 10} more" if len(lines) > 10 else ""
        raise UserError(
            "The project has changes that are not committed:\n  "
            + "\n  ".join(lines[:10])
            + f"{more}\nCommit them, or stash them with `git stash --include-untracked`. {UNTOUCHED}",
            2,
        )
    if not git.succeeds("ls-files", "--error-unmatch", ANSWERS_FILE):
        raise UserError(f"git does not track {project.root / ANSWERS_FILE}: commit the project to git first.", 2)


def seed_patterns(config: Mapping[str, Any], answers: Mapping[str, Any]) -> list[str]:
    """Returns the patterns of seed files: those that copier.yml excludes from updates but not from copies."""
    environment = SandboxedEnvironment(undefined=StrictUndefined)

    def excluded(operation: str) -> set[str]:
        templates = [environment.from_string(str(text)) for text in config.get("_exclude", [])]
        return {template.render(answers, _copier_operation=operation).strip() for template in templates}

    return sorted(excluded("update") - excluded("copy") - {""})


@contextmanager
def template_of(project: Project, address: str | None) -> Iterator[tuple[Repository, Revision]]:
    """Opens the template of a clean project; see ``open_repository`` and ``require_clean``."""
    with guarded():
        require_clean(project)
        with open_repository(project, address) as found:
            yield found


@contextmanager
def guarded() -> Iterator[None]:
    """Adds to the message of every failure that the project is unchanged."""
    try:
        with interruptible():
            yield
    except UserError as error:
        if error.exit_code != INTERRUPTED:
            raise
        raise UserError(f"Interrupted. {UNTOUCHED}", INTERRUPTED) from error
    except KeyboardInterrupt as error:
        raise UserError(f"Interrupted. {UNTOUCHED}", INTERRUPTED) from error
    except OSError as error:
        raise UserError(f"{describe(error)} {UNTOUCHED}", 2) from error
