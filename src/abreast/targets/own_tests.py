"""One check of one case: its words, and the tests that the case brings along."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from abreast.model import Case, Check, Placeholder, variable_of
from abreast.targets.runners import decides, runnable, runner_of
from abreast.targets.workspace import Workspaces
from abreast.targets.workspace.overlay import put_over

_PLACEHOLDER = re.compile(r"\{(case|folder|tests)\}")


BRINGS_NONE = "the case brings no tests of its own"


class Untested(Exception):
    """There is nothing to run, and why."""


@dataclass(frozen=True, slots=True)
class Own:
    """What a case brings: the commit of what people did, and the test files in it."""

    commit: str | None = None
    tests: tuple[str, ...] = ()


NONE = Own()


@dataclass(frozen=True, slots=True)
class Task:
    """What is run, with which variables, over which tests."""

    check: Check
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    own: Own


def tests_of(case: Case) -> Own:
    """What `expected` of a pull request says; anything else brings none."""
    expected = case.expected if isinstance(case.expected, Mapping) else {}
    commit, tests = expected.get("commit"), expected.get("tests") or ()
    return Own(commit, tuple(tests)) if isinstance(commit, str) else NONE


def prepared(check: Check, case: Case, own: Own, base: Path, workspaces: Workspaces, path: str | None) -> Task:
    """What is to be run for a case. Raises Untested, and NoWorkspace."""
    if check.own and not own.tests and (not check.command or check.names("tests")):
        raise Untested(BRINGS_NONE)
    words = check.command
    if own.tests:
        words = _with_tests(check, own, workspaces, path)
    values: dict[Placeholder, str] = {"case": case.id, "folder": str(base)}
    tests = runnable(own.tests)
    if check.shell:
        given: dict[Placeholder, str] = {**values, "tests": "\n".join(tests)}
        variables = tuple((variable_of(name), value) for name, value in given.items() if check.names(name))
        return Task(check, ("/bin/sh", "-c", *words), variables, own)
    filled = [one for word in words for one in (tests if word == "{tests}" else [_filled(word, values, tests)])]
    return Task(check, tuple(filled), (), own)


def _with_tests(check: Check, own: Own, workspaces: Workspaces, path: str | None) -> tuple[str, ...]:
    """The command, if none is said the known one for these files. What is there is seen in what people did: an agent
    has no say in it."""
    assert own.commit is not None
    with workspaces.files_at(own.commit) as people:
        missing = next((test for test in own.tests if not os.path.lexists(people / test)), None)
        if missing is not None:
            raise Untested(f"{missing} is not among the files of commit {own.commit[:12]}")
        found = check.command or runner_of(people, own.tests, path)
    if found is None:
        raise Untested(f"no command is known that runs {runnable(own.tests)[0]}: say one")
    return found


def _filled(word: str, values: Mapping[Placeholder, str], tests: tuple[str, ...]) -> str:
    known = {str(name): value for name, value in values.items()} | {"tests": " ".join(tests)}
    return _PLACEHOLDER.sub(lambda found: known[found[1]], word)


def put_there(task: Task, folder: Path, workspaces: Workspaces) -> None:
    """The tests of the case as people left them, over what is there. Raises NoWorkspace."""
    own = task.own
    if own.tests and own.commit is not None:
        with workspaces.files_at(own.commit) as people:
            put_over(people, folder, own.tests, partial(decides, tests=own.tests, known=not task.check.command))
