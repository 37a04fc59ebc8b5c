"""One check of one case: its words, and the tests that the case brings along."""

from __future__ import annotations

import filecmp
import os
import posixpath
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from abreast.model import Case, Check, variable_of
from abreast.targets.checks.test_commands import decides, is_test_name, npm_test_script, rest_of, runnable, runner_of
from abreast.targets.checks.test_results import Reporter, reporter_of
from abreast.targets.untrusted_json import mapping
from abreast.targets.workspace import Workspaces
from abreast.targets.workspace.files.directories import walk
from abreast.targets.workspace.files.overlay import put_over

_NO_SOURCES = (".git", "node_modules", ".venv", "venv", ".tox")
_PLACEHOLDER = re.compile(r"\{(case|folder|tests)\}")
BRINGS_NONE = "the case brings no tests of its own"


class Untested(Exception):
    """There is nothing to run, and why."""


@dataclass(frozen=True, slots=True)
class Own:
    """What a case brings: the commit of what people did, the test files in it, and the commit before."""

    commit: str | None = None
    tests: tuple[str, ...] = ()
    base: str | None = None


NONE = Own()


@dataclass(frozen=True, slots=True)
class Task:
    """What is run, with which variables, over which tests."""

    check: Check
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    own: Own
    rest: tuple[str, ...] = ()  # for all other tests of the project; empty if unknown, or if `words` run them as well
    reporter: Reporter = ""


def tests_of(case: Case) -> Own:
    """What `expected` of a pull request says; anything else brings none."""
    expected = mapping(case.expected)
    commit, tests, base = expected.get("commit"), expected.get("tests") or (), expected.get("base")
    return Own(commit, tuple(tests), base if isinstance(base, str) else None) if isinstance(commit, str) else NONE


def prepared(check: Check, case: Case, own: Own, base: Path, workspaces: Workspaces, path: str | None) -> Task:
    """What is to be run for a case. Raises Untested, and NoWorkspace."""
    if check.own and not own.tests and (not check.command or check.names("tests")):
        raise Untested(BRINGS_NONE)
    words, script = check.command, None
    if own.tests:
        words, script = _with_tests(check, own, workspaces, path)
    values, tests = {"case": case.id, "folder": str(base)}, runnable(own.tests)
    if check.shell:
        texts: dict[Any, str] = {**values, "tests": "\n".join(tests)}
        variables = tuple((variable_of(name), value) for name, value in texts.items() if check.names(name))
        return Task(check, ("/bin/sh", "-c", *words), variables, own)
    known = {**values, "tests": " ".join(tests)}
    filled: list[str] = []
    for word in words:
        filled += tests if word == "{tests}" else [_PLACEHOLDER.sub(lambda match: known[match[1]], word)]
    return Task(
        check=check,
        words=tuple(filled),
        variables=(),
        own=own,
        rest=rest_of(filled, tests),
        reporter=reporter_of(filled, script),
    )


def _with_tests(check: Check, own: Own, workspaces: Workspaces, path: str | None) -> tuple[tuple[str, ...], str | None]:
    """The command, or the known one for these files, and what `npm test` means, by what people did: no agent has a say
    in it."""
    assert own.commit is not None
    with workspaces.files_at(own.commit) as people:
        for test in own.tests:
            if not os.path.lexists(people / test):
                raise Untested(f"{test} is not among the files of commit {own.commit[:12]}")
        command, script = check.command or runner_of(people, own.tests, path), npm_test_script(people)
    if command is None:
        raise Untested(f"no command is known that runs {runnable(own.tests)[0]}: say one")
    return command, script


def put_there(task: Task, folder: Path, workspaces: Workspaces) -> None:
    """Put the tests of the case as people left them over what is there; where all tests run, the others too. Raises
    NoWorkspace."""
    own = task.own
    if own.tests and own.commit is not None:
        with workspaces.files_at(own.commit) as people:
            tests = (*own.tests, *(_untouched_tests(own, people, workspaces) if task.rest else ()))
            put_over(people, folder, tests, partial(decides, tests=tests, known=not task.check.command))


def _untouched_tests(own: Own, people: Path, workspaces: Workspaces) -> list[str]:
    """Test files that people did not change. What they changed and did not call a test may be part of the solution."""
    if own.base is None:
        return []
    with workspaces.files_at(own.base) as before:
        sources = walk(people, lambda name: posixpath.basename(name) not in _NO_SOURCES)
        names = [name for name, _ in sources if is_test_name(name) and name not in own.tests]
        return [name for name in names if _is_same_file(people / name, before / name)]


def _is_same_file(one: Path, other: Path) -> bool:
    return other.is_file() and not (one.is_symlink() or other.is_symlink()) and filecmp.cmp(one, other, shallow=False)
