"""`tests`: whether a command succeeds in the workspace that an agent left."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from abreast.errors import BadInput
from abreast.model import Answer, Case, Check, Score
from abreast.scorers.base import Settings
from abreast.settings import is_flag, is_number, is_text, is_texts

TIMEOUT_S = 600.0
_HOW = 'write command: "pytest -q", or a list of words; with shell: true a text for the shell'


class Tests:
    """1 if the command ends with 0, 0 if it does not or takes longer than `timeout` seconds (600).

    It is run when the agent has ended, in the folder where it worked. With `fails_before` it is also run on what trials
    begin with, once: where it succeeds there, it says nothing about an agent, and there is no score.
    """

    needs_expected = False
    revision = 1

    def __init__(self, settings: Settings) -> None:
        name = settings.name("tests")
        shell = settings.take("shell", False, is_flag, "true or false")
        expects = "a text or a list of words"
        command = settings.take("command", None, lambda value: is_text(value) or is_texts(value), expects)
        timeout = settings.take("timeout", TIMEOUT_S, lambda value: is_number(value) and value > 0, "seconds above 0")
        before = settings.take("fails_before", False, is_flag, "true or false")
        self.columns: tuple[str, ...] = (name,)
        self.check = Check(name, _words(settings.where, command, shell), shell, float(timeout), before)
        self.version = settings.version(self.revision)

    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]:
        found = answer.data.get("checks")
        told = found.get(self.columns[0]) if isinstance(found, Mapping) else None
        return (Score(self.columns[0], *_judged(told)),)


def _words(where: str, command: Any, shell: bool) -> tuple[str, ...]:
    if command is None:
        raise BadInput(f"{where}: command is missing", _HOW)
    if shell:
        if not isinstance(command, str):
            raise BadInput(f"{where}: with shell: true, command is one text, got {command!r}", _HOW)
        return (command,)
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise BadInput(f"{where}: command: {str(error).lower()}", _HOW) from None
    if not words:
        raise BadInput(f"{where}: command is empty", _HOW)
    return tuple(words)


def _judged(told: Any) -> tuple[float | None, str]:
    """A score and why, from what is kept of the command."""
    if not isinstance(told, Mapping):
        return None, "it was not run with this answer"
    said = str(told.get("told") or "")
    if told.get("problem"):
        return None, f"could not be run: {told['problem']}"
    if told.get("before") == "passed":
        return None, "succeeds without any change, so it says nothing"
    if told.get("passed"):
        return 1.0, said
    return 0.0, said or "failed"
