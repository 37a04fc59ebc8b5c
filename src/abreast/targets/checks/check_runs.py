"""One check of one case: its command, the tests that the case brings along, and how a run of it went."""

from __future__ import annotations

import asyncio
import filecmp
import os
import posixpath
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from abreast.model import Case, Check, variable_of
from abreast.redaction import is_secret_setting
from abreast.targets.base import Workers
from abreast.targets.checks.test_commands import decides, is_test_name, npm_test_script, rest_of, runnable, runner_of
from abreast.targets.checks.test_results import (
    Reporter,
    Results,
    instrument,
    pytest_variables,
    read_results,
    readable_output,
    reporter_of,
)
from abreast.targets.processes import process
from abreast.targets.untrusted_json import mapping
from abreast.targets.workspace import Workspace, Workspaces, WorkspaceState
from abreast.targets.workspace.files.copies import overlay_tests
from abreast.targets.workspace.files.directories import (
    new_folder,
    relative_paths,
    remove_empty_parents,
    remove_tree,
    walk,
)

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
            overlay_tests(people, folder, tests, partial(decides, tests=tests, known=not task.check.command))


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


LAST_LINE = 300  # characters


@dataclass(frozen=True, slots=True)
class Trialled:
    """What is checked: the case of a trial, and what it begins with."""

    case: Case
    value: Any  # what the templates of its workspace see
    state: WorkspaceState | None  # what it begins with instead of its commit
    workspaces: Workspaces
    environment: Mapping[str, str]
    workers: Workers
    wrap: Callable[[Sequence[str], Path, Path, Mapping[str, str]], list[str]]  # puts a command into the sandbox
    sandbox: str = ""  # which one
    renames: Sequence[tuple[str, str]] = ()  # old and new names of files that the agent renamed


@dataclass(frozen=True, slots=True)
class CheckRun:
    """How a command went; a `problem` kept it from running at all."""

    passed: bool = False
    message: str = ""
    seconds: float | None = None
    output: str = ""
    results: Results | None = None  # of single tests, if it reports them
    problem: str = ""
    timed_out: bool = False


Ran = TypeVar("Ran")


async def run_elsewhere(
    trial: Trialled, make: Callable[[], Workspace], run: Callable[[Path], Awaitable[Ran]], task: Task | None = None
) -> Ran:
    """Run something in a workspace of its own, with the tests of a task put over it. Raises NoWorkspace."""
    workspace: Workspace = await trial.workers.in_thread(make)
    try:
        if task is not None:
            await trial.workers.in_thread(put_there, task, workspace.path, trial.workspaces)
        return await run(workspace.path)
    finally:
        await trial.workers.in_thread(workspace.remove)


async def run_all(
    task: Task,
    folder: Path,
    trial: Trialled,
    rest_s: float,
    goes_on: Callable[[CheckRun], bool] = lambda run: True,
) -> tuple[CheckRun, Results | None, bool]:
    """Run the tests of a case and then, if there is time for it and `goes_on` agrees, the rest of the suite. Return how
    the former went, the results of both, and whether the rest was run to its end."""
    run = await run_command(task, task.words, folder, trial, task.check.timeout_s)
    if not task.rest or not rest_s or run.problem or not goes_on(run):
        return run, run.results, False
    rest = await run_command(task, task.rest, folder, trial, rest_s)
    if rest.timed_out:
        run = replace(run, message=f"{run.message}; the rest of the suite {rest.message}")
    merged = {**(rest.results or {}), **(run.results or {})}
    return run, merged or None, rest.results is not None


async def run_command(task: Task, words: Sequence[str], folder: Path, trial: Trialled, timeout_s: float) -> CheckRun:
    """Run a command of a task. Code of a model is run: it finds no keys."""
    scratch, workers = new_folder("scratch"), trial.workers
    visible = {name: value for name, value in trial.environment.items() if not is_secret_setting(name, value)}
    around = trial.workspaces.variables(folder, visible) | dict(task.variables)
    reports = scratch / "tmp" / "reports"
    try:
        reports.mkdir(0o700, parents=True)
        reporting = instrument(list(words), task.reporter, reports)
        around |= {"TMPDIR": str(scratch / "tmp"), **pytest_variables(reports, around)}

        def prepare() -> process.Program:
            return process.Program(trial.wrap(reporting, folder, scratch, around), folder, around)

        running = process.run(prepare, scratch, process.new_mark(), workers)
        try:
            ended = await asyncio.wait_for(running, timeout_s)
        except TimeoutError:
            output = _printed(task, scratch, folder)
            return CheckRun(message=f"took longer than {timeout_s:g} s", output=output, timed_out=True)
        except OSError as error:
            return CheckRun(problem=f"{words[0]}: {error.strerror or error}")
        output = _printed(task, scratch, folder)
        last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")[:LAST_LINE]
        return CheckRun(
            passed=ended.code == 0,
            message=ended.description + (f": {last}" if last else ""),
            seconds=round(ended.seconds, 3),
            output=output,
            results=await workers.in_thread(read_results, task.reporter, reports, scratch / "stdout", folder),
        )
    finally:
        await workers.in_thread(remove_tree, scratch)
        remove_empty_parents(scratch)


def _printed(task: Task, scratch: Path, folder: Path) -> str:
    out = readable_output(task.reporter, process.tail(scratch / "stdout", 20_000))
    parts = (out, process.tail(scratch / "stderr", 20_000))
    return relative_paths(folder, "\n".join(part for part in parts if part))
