"""`tests` and `success`: what an agent left behind, by a command or by whether there is anything."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from abreast.errors import BadInput
from abreast.model import Answer, Check, variable_of
from abreast.scorers.base import Mark, ScorerSettings, SingleColumn, short
from abreast.settings import is_encodable, is_flag, is_number, is_text, is_texts

TIMEOUT_S = 600.0
_HOW = 'write command: "pytest -q", or a list of words; with shell: true a text for the shell'
_BRINGS = 'write expected: {commit: HASH, tests: ["tests/test_app.py"]}'
_PLACEHOLDER = re.compile(r"(?<!\$)\{(case|folder|tests)\}")


class Tests(SingleColumn):
    """1 if the command ends with 0, 0 if it does not or takes longer than `timeout` seconds (600).

    It is run when the agent has ended, in the folder where it worked. With `fails_before` it is also run on what trials
    begin with, once: where it succeeds there, it says nothing about an agent, and there is no score. With `own` cases
    bring their tests: files of a later commit, which are put over what the agent left. They must fail on what trials
    begin with, and pass in that commit.

    Tests that were there at the start are restored before the command runs; `tests` names other files instead.
    """

    def __init__(self, settings: ScorerSettings) -> None:
        super().__init__(settings, needs_expected=False)
        shell = settings.take("shell", False, is_flag, "true or false")
        expects = "a text or a list of words"
        command = settings.take("command", None, lambda value: is_text(value) or is_texts(value), expects)
        timeout = settings.take("timeout", TIMEOUT_S, lambda value: is_number(value) and value > 0, "seconds above 0")
        before = settings.take("fails_before", False, is_flag, "true or false")
        own = settings.take("own", False, is_flag, "true or false")
        files = settings.take("tests", None, _is_globs, 'a list of globs such as ["checks/**"], or [] for none')
        words = () if own and command is None and not shell else _words(settings.where, command, shell)
        self.check: Check = Check(
            self.columns[0],
            words,
            shell,
            timeout_s=float(timeout),
            fails_before=before,
            own=own,
            tests=None if files is None else tuple(files),
        )
        if self.check.names("tests") and not own:
            raise BadInput(
                f"{settings.where}: command: which are the tests of a case?",
                "add own: true; its cases are pull requests, or others with expected: {commit: ..., tests: [...]}",
            )

    def mark(self, expected: Any, answer: Answer) -> Mark:
        found = answer.data.get("checks")
        return _judged(found.get(self.columns[0]) if isinstance(found, Mapping) else None)

    def flaw(self, expected: Any) -> tuple[str, str] | None:
        """A case may bring nothing."""
        if not self.check.own or not isinstance(expected, Mapping):
            return None
        commit, tests = expected.get("commit"), expected.get("tests")
        if tests is not None and not (isinstance(tests, list | tuple) and all(map(_is_inside, tests))):
            return f".tests must be a list of paths in the repository, got {short(tests)}", _BRINGS
        if (commit is not None or tests) and not is_text(commit):
            return (".commit is missing" if commit is None else f".commit must be a text, got {short(commit)}"), _BRINGS
        return None


def _is_globs(value: Any) -> bool:
    return value == [] or is_texts(value)


def _is_inside(path: Any) -> bool:
    parts = path.split("/") if is_text(path) and is_encodable(path) else [""]
    return not {"", ".", "..", ".git"} & set(parts)


def _words(where: str, command: Any, shell: bool) -> tuple[str, ...]:
    if command is None:
        raise BadInput(f"{where}: command is missing", _HOW)
    if shell:
        return (_text(where, command),)
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise BadInput(f"{where}: command: {str(error).lower()}", _HOW) from None
    if not words:
        raise BadInput(f"{where}: command is empty", _HOW)
    return tuple(words)


def _text(where: str, command: Any) -> str:
    if not isinstance(command, str):
        raise BadInput(f"{where}: with shell: true, command is one text, got {command!r}", _HOW)
    if found := _PLACEHOLDER.search(command):
        variable = variable_of(found[1])
        raise BadInput(
            f"{where}: command: {found[0]} is not put into the text of a shell",
            f"the variable {variable} is there: write ${variable}",
        )
    return command


def _judged(told: Any) -> Mark:
    """A score and why, from what is kept of the command."""
    if not isinstance(told, Mapping):
        return None, "it was not run with this answer"
    said = str(told.get("told") or "")
    if told.get("problem"):
        return None, f"could not be run: {told['problem']}"
    if told.get("untested"):
        return None, str(told["untested"])
    if told.get("before") == "passed":
        return None, f"succeeds without any change, so it says nothing: {told.get('before_told') or 'exit code 0'}"
    if told.get("human") == "failed":
        return None, f"fails in what people did too, so it says nothing: {told.get('human_told') or 'failed'}"
    if told.get("passed"):
        return 1.0, said
    return 0.0, said or "failed"


class Success(SingleColumn):
    """1 if there is an answer or a change of files; with `changes` only a change counts. Failures count 0 anyway.

    >>> from abreast.model import Case
    >>> from abreast.scorers import build
    >>> [build("success").score(Case("c", "?"), Answer(text))[0].value for text in ("done", " ")]
    [1.0, 0.0]
    """

    def __init__(self, settings: ScorerSettings) -> None:
        super().__init__(settings, needs_expected=False)
        self._changes = settings.take("changes", False, is_flag, "true or false")

    def mark(self, expected: Any, answer: Answer) -> Mark:
        changed = answer.data.get("files_changed")
        if answer.data.get("diff_problem") and not changed:
            return None, f"what it changed is not known: {answer.data['diff_problem']}"
        if changed:
            return 1.0, f"{changed:,} file{'s' if changed != 1 else ''} changed"
        if self._changes:
            return 0.0, "nothing was changed"
        return (1.0, "it answered") if answer.text.strip() else (0.0, "nothing was said or changed")
