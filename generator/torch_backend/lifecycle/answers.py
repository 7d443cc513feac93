"""Refuses answers that copier would reject without naming the question, or would ignore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch_backend.errors import UserError


def require_types(answers: Mapping[str, Any], questions: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuses values of the wrong type, as a YAML file may hold them.

    Args:
        answers: the answers by question.
        questions: the questions of copier.yml; questions that it lacks are only checked for an empty value.

    Raises:
        UserError: a value has the wrong type; the text says what to write.
    """
    for name, value in answers.items():
        question = questions.get(name, {})
        if value is None:
            advice = "[] for none of them" if question.get("multiselect") else "an answer"
            raise UserError(f"{name} is empty: write {advice}, or leave {name} out.", 2)
        if question.get("multiselect"):
            choices = question["choices"].values()
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise UserError(f"{name}: {value!r} is not a list of names: write some of [{', '.join(choices)}].", 2)
        elif questions and isinstance(value, (list, dict)):
            raise UserError(f"{name}: {value!r} is not one value: write one line of text.", 2)


def require_asked(given: Iterable[str], recorded: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Refuses answers to questions that the template does not ask in this project, because they would have no effect.

    Args:
        given: the questions that were answered.
        recorded: the answers that copier recorded.
        config: the content of copier.yml, which has the conditions of the questions.

    Raises:
        UserError: a question was not asked.
    """
    for name in given:
        if name not in recorded:
            condition = str((config.get(name) or {}).get("when", "")).strip("{} ")
            reason = (
                f"the template asks for it only if {condition}" if condition else "the template does not ask for it"
            )
            raise UserError(f"{name} has no effect in this project: {reason}. Leave it out.", 2)
