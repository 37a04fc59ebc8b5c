"""`tests` and `success`: score the result of an agent by a command, or by its existence."""

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
_HOW = 'write command: "pytest -q", or a list of words; with shell: true, a string for the shell'
_BRINGS = 'write expected: {commit: HASH, tests: ["tests/test_app.py"]}'
_PLACEHOLDER = re.compile(r"(?<!\$)\{(case|folder|tests)\}")


class Tests(SingleColumn):
    """1 if the command exits with 0, 0 if it fails or takes longer than `timeout` seconds (600).

    It runs in the workspace after the agent. With `fails_before` it also runs once on the initial workspace: if it
    succeeds there, there is no score. With `own`, cases bring tests from a later commit, which overwrite files of the
    workspace. They must fail on the initial workspace and pass in that commit.

    Tests of the initial workspace are restored before the command runs; `tests` names other files instead.
    """

    def __init__(self, settings: ScorerSettings) -> None:
        super().__init__(settings, needs_expected=False)
        shell = settings.take("shell", False, is_flag, "true or false")
        expects = "a string or a list of strings"
        command = settings.take("command", None, lambda value: is_text(value) or is_texts(value), expects)
        timeout = settings.take("timeout", TIMEOUT_S, lambda value: is_number(value) and value > 0, "seconds above 0")
        before = settings.take("fails_before", False, is_flag, "true or false")
        own = settings.take("own", False, is_flag, "true or false")
        files = settings.take("tests", None, _is_globs, 'a list of globs such as ["checks/**"], or [] for none')
        words = () if own and command is None and not shell else _split_command(settings.where, command, shell)
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
                f"{settings.where}: command uses the tests of a case, but own is not set",
                "add own: true; its cases are pull requests, or others with expected: {commit: ..., tests: [...]}",
            )

    def mark(self, expected: Any, answer: Answer) -> Mark:
        results = answer.data.get("checks")
        return _read_mark(results.get(self.columns[0]) if isinstance(results, Mapping) else None)

    def flaw(self, expected: Any) -> tuple[str, str] | None:
        if not self.check.own or not isinstance(expected, Mapping):
            return None
        commit, tests = expected.get("commit"), expected.get("tests")
        if tests is not None and not (isinstance(tests, list | tuple) and all(map(_is_inside, tests))):
            return f".tests must be a list of paths in the repository, got {short(tests)}", _BRINGS
        if (commit is not None or tests) and not is_text(commit):
            return (
                ".commit is missing" if commit is None else f".commit must be a string, got {short(commit)}"
            ), _BRINGS
        return None


def _is_globs(value: Any) -> bool:
    return value == [] or is_texts(value)


def _is_inside(path: Any) -> bool:
    parts = path.split("/") if is_text(path) and is_encodable(path) else [""]
    return not {"", ".", "..", ".git"} & set(parts)


def _split_command(where: str, command: Any, shell: bool) -> tuple[str, ...]:
    if command is None:
        raise BadInput(f"{where}: command is missing", _HOW)
    if shell:
        return (_shell_command(where, command),)
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise BadInput(f"{where}: command: {str(error).lower()}", _HOW) from None
    if not words:
        raise BadInput(f"{where}: command is empty", _HOW)
    return tuple(words)


def _shell_command(where: str, command: Any) -> str:
    if not isinstance(command, str):
        raise BadInput(f"{where}: with shell: true, command must be a string, got {command!r}", _HOW)
    if placeholder := _PLACEHOLDER.search(command):
        message = f"{where}: command: {placeholder[0]} is not replaced with shell: true"
        raise BadInput(message, f"use ${variable_of(placeholder[1])}")
    return command


def _read_mark(result: Any) -> Mark:
    """Read the stored result of the command."""
    if not isinstance(result, Mapping):
        return None, "the command was not run for this answer"
    if result.get("problem"):
        return None, f"could not be run: {result['problem']}"
    if result.get("untested"):
        return None, str(result["untested"])
    if result.get("before") == "passed":
        return (
            None,
            f"succeeds without any change, so it measures nothing: {result.get('before_told') or 'exit code 0'}",
        )
    if result.get("human") == "failed":
        return (
            None,
            f"fails on the reference change too, so it measures nothing: {result.get('human_told') or 'failed'}",
        )
    output = str(result.get("told") or "")
    return (1.0, output) if result.get("passed") else (0.0, output or "failed")


class Success(SingleColumn):
    """1 if there is an answer or a changed file; with `changes`, only changed files count.

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
            return None, f"the changes are unknown: {answer.data['diff_problem']}"
        if changed:
            return 1.0, f"{changed:,} file{'s' if changed != 1 else ''} changed"
        if self._changes:
            return 0.0, "no files changed"
        return (1.0, "answered") if answer.text.strip() else (0.0, "no answer and no files changed")
