"""Run one check of one case: its command, the tests that the case provides, and the outcome."""

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
from abreast.targets.checks import test_commands, test_results
from abreast.targets.checks.test_commands import is_test_name, runnable_tests
from abreast.targets.checks.test_results import Reporter, Results
from abreast.targets.processes import process
from abreast.targets.untrusted_json import mapping
from abreast.targets.workspace import Workspace, Workspaces, WorkspaceState
from abreast.targets.workspace.files import directories
from abreast.targets.workspace.files.copies import overlay_tests
from abreast.targets.workspace.files.directories import relative_paths, remove_tree, walk

_SKIPPED_FOLDERS = (".git", "node_modules", ".venv", "venv", ".tox")
_PLACEHOLDER = re.compile(r"\{(case|folder|tests)\}")
NO_OWN_TESTS = "the case has no tests of its own"


class NoTests(Exception):
    """There is nothing to run; the message says why."""


@dataclass(frozen=True, slots=True)
class CaseTests:
    """The tests of a case: the commit of the human change, the test files in it, and the commit before."""

    commit: str | None = None
    tests: tuple[str, ...] = ()
    base: str | None = None


NO_CASE_TESTS = CaseTests()


@dataclass(frozen=True, slots=True)
class CheckTask:
    check: Check
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    own: CaseTests
    rest: tuple[str, ...] = ()  # runs all other tests of the project; empty if unknown, or if `words` run them too
    reporter: Reporter = ""

    def cache_text(self) -> str:
        """Return the text that identifies the task in the keys of stored results, so it must not change between
        versions."""
        own = f"Own(commit={self.own.commit!r}, tests={self.own.tests!r}, base={self.own.base!r})"
        return (
            f"Task(check={self.check!r}, words={self.words!r}, variables={self.variables!r}, own={own}, "
            f"rest={self.rest!r}, reporter={self.reporter!r})"
        )


def parse_case_tests(case: Case) -> CaseTests:
    """Return the tests in `expected` of a pull request; any other case has none."""
    expected = mapping(case.expected)
    commit, tests, base = expected.get("commit"), expected.get("tests") or (), expected.get("base")
    if not isinstance(commit, str):
        return NO_CASE_TESTS
    return CaseTests(commit, tuple(tests), base if isinstance(base, str) else None)


def prepare_task(
    check: Check, case: Case, own: CaseTests, base: Path, workspaces: Workspaces, path: str | None
) -> CheckTask:
    """Determine what to run for a case. Raises NoTests and NoWorkspace."""
    if check.own and not own.tests and (not check.command or check.names("tests")):
        raise NoTests(NO_OWN_TESTS)
    command, script = check.command, None
    if own.tests:
        command, script = _resolve_command(check, own, workspaces, path)
    values, tests = {"case": case.id, "folder": str(base)}, runnable_tests(own.tests)
    if check.shell:
        texts: dict[Any, str] = {**values, "tests": "\n".join(tests)}
        variables = tuple((variable_of(name), value) for name, value in texts.items() if check.names(name))
        return CheckTask(check, ("/bin/sh", "-c", *command), variables, own)
    values["tests"] = " ".join(tests)
    words: list[str] = []
    for word in command:
        words += tests if word == "{tests}" else [_PLACEHOLDER.sub(lambda match: values[match[1]], word)]
    return CheckTask(
        check=check,
        words=tuple(words),
        variables=(),
        own=own,
        rest=test_commands.rest_command(words, tests),
        reporter=test_results.reporter_of(words, script),
    )


def _resolve_command(
    check: Check, own: CaseTests, workspaces: Workspaces, path: str | None
) -> tuple[tuple[str, ...], str | None]:
    """Return the command, or the default for these files, and the script of `npm test`. Both come from the human
    change, so agents cannot influence them."""
    assert own.commit is not None
    with workspaces.files_at(own.commit) as solution:
        for test in own.tests:
            if not os.path.lexists(solution / test):
                raise NoTests(f"{test} is not among the files of commit {own.commit[:12]}")
        command = check.command or test_commands.infer_command(solution, own.tests, path)
        script = test_commands.npm_test_script(solution)
    if command is None:
        raise NoTests(f"no default command for {runnable_tests(own.tests)[0]}; set `command`")
    return command, script


def install_tests(task: CheckTask, folder: Path, workspaces: Workspaces) -> None:
    """Copy the tests of the human change into a folder; if all tests run, also unchanged ones. Raises NoWorkspace."""
    own = task.own
    if own.tests and own.commit is not None:
        with workspaces.files_at(own.commit) as solution:
            tests = (*own.tests, *(_unchanged_tests(own, solution, workspaces) if task.rest else ()))
            is_config = partial(test_commands.is_test_config, tests=tests, is_inferred=not task.check.command)
            overlay_tests(solution, folder, tests, is_config)


def _unchanged_tests(own: CaseTests, solution: Path, workspaces: Workspaces) -> list[str]:
    """Return test files that the human change did not touch. Changed ones may be part of the solution."""
    if own.base is None:
        return []
    with workspaces.files_at(own.base) as base:
        sources = walk(solution, lambda name: posixpath.basename(name) not in _SKIPPED_FOLDERS)
        names = [name for name, _ in sources if is_test_name(name) and name not in own.tests]
        return [name for name in names if _is_same_file(solution / name, base / name)]


def _is_same_file(path: Path, other: Path) -> bool:
    return other.is_file() and not (path.is_symlink() or other.is_symlink()) and filecmp.cmp(path, other, shallow=False)


MAX_LAST_LINE = 300  # characters


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What is checked: the case of a trial, its start, and how to run commands."""

    case: Case
    value: Any  # input of the templates of its workspace
    state: WorkspaceState | None  # replaces the commit as its start
    workspaces: Workspaces
    environment: Mapping[str, str]
    workers: Workers
    wrap: Callable[[Sequence[str], Path, Path, Mapping[str, str]], list[str]]  # wraps a command into the sandbox
    sandbox: str = ""  # its name
    renames: Sequence[tuple[str, str]] = ()  # old and new names of files that the agent renamed


@dataclass(frozen=True, slots=True)
class CheckRun:
    """The outcome of a command; with a `problem` it did not run at all."""

    passed: bool = False
    message: str = ""
    seconds: float | None = None
    output: str = ""
    results: Results | None = None  # results of individual tests, if reported
    problem: str = ""
    timed_out: bool = False


Returned = TypeVar("Returned")


async def run_in_workspace(
    trial: CheckContext,
    make: Callable[[], Workspace],
    run: Callable[[Path], Awaitable[Returned]],
    task: CheckTask | None = None,
) -> Returned:
    """Run something in a new workspace with the tests of a task. Raises NoWorkspace."""
    workspace: Workspace = await trial.workers.in_thread(make)
    try:
        if task is not None:
            await trial.workers.in_thread(install_tests, task, workspace.path, trial.workspaces)
        return await run(workspace.path)
    finally:
        await trial.workers.in_thread(workspace.remove)


async def run_all(
    task: CheckTask,
    folder: Path,
    trial: CheckContext,
    rest_s: float,
    should_continue: Callable[[CheckRun], bool] = lambda run: True,
) -> tuple[CheckRun, Results | None, bool]:
    """Run the tests of a case and then, if `rest_s` is not 0 and `should_continue` agrees, the rest of the suite.
    Return the first run, the results of both, and whether the rest ran to its end."""
    run = await run_command(task, task.words, folder, trial, task.check.timeout_s)
    if not task.rest or not rest_s or run.problem or not should_continue(run):
        return run, run.results, False
    rest = await run_command(task, task.rest, folder, trial, rest_s)
    if rest.timed_out:
        run = replace(run, message=f"{run.message}; the rest of the suite {rest.message}")
    merged = {**(rest.results or {}), **(run.results or {})}
    return run, merged or None, rest.results is not None


async def run_command(
    task: CheckTask, words: Sequence[str], folder: Path, trial: CheckContext, timeout_s: float
) -> CheckRun:
    """Run a command of a task, without keys in its environment: it runs code of a model."""
    scratch, workers = directories.new_folder("scratch"), trial.workers
    visible = {name: value for name, value in trial.environment.items() if not is_secret_setting(name, value)}
    variables = trial.workspaces.variables(folder, visible) | dict(task.variables)
    reports = scratch / "tmp" / "reports"
    try:
        reports.mkdir(0o700, parents=True)
        command = test_results.instrument(list(words), task.reporter, reports)
        variables |= {"TMPDIR": str(scratch / "tmp"), **test_results.pytest_variables(reports, variables)}

        def prepare() -> process.Program:
            return process.Program(trial.wrap(command, folder, scratch, variables), folder, variables)

        running = process.run(prepare, scratch, process.new_mark(), workers)
        try:
            ended = await asyncio.wait_for(running, timeout_s)
        except TimeoutError:
            output = _read_output(task, scratch, folder)
            return CheckRun(message=f"took longer than {timeout_s:g} s", output=output, timed_out=True)
        except OSError as error:
            return CheckRun(problem=f"{words[0]}: {error.strerror or error}")
        output = _read_output(task, scratch, folder)
        last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")[:MAX_LAST_LINE]
        return CheckRun(
            passed=ended.code == 0,
            message=ended.description + (f": {last}" if last else ""),
            seconds=round(ended.seconds, 3),
            output=output,
            results=await workers.in_thread(
                test_results.read_results, task.reporter, reports, scratch / "stdout", folder
            ),
        )
    finally:
        await workers.in_thread(remove_tree, scratch)
        directories.remove_empty_parents(scratch)


def _read_output(task: CheckTask, scratch: Path, folder: Path) -> str:
    out = test_results.readable_output(task.reporter, process.tail(scratch / "stdout", 20_000))
    parts = (out, process.tail(scratch / "stderr", 20_000))
    return relative_paths(folder, "\n".join(part for part in parts if part))
