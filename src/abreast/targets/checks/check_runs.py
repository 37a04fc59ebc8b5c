"""Running the command of a check in a folder: how it ended, what it printed, and what became of each test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from abreast.model import Case
from abreast.redaction import is_secret_setting
from abreast.targets.base import Workers
from abreast.targets.checks.case_tests import Task, put_there
from abreast.targets.checks.test_results import Results, instrument, pytest_variables, read_results, readable_output
from abreast.targets.processes import process
from abreast.targets.workspace import State, Workspace, Workspaces
from abreast.targets.workspace.files.directories import drop_empty, new_folder, remove_tree, seen_from

LAST_LINE = 300  # characters


@dataclass(frozen=True, slots=True)
class Trialled:
    """What is checked: the case of a trial, and what it begins with."""

    case: Case
    value: Any  # what the templates of its workspace see
    state: State | None  # what it begins with instead of its commit
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
        drop_empty(scratch)


def _printed(task: Task, scratch: Path, folder: Path) -> str:
    out = readable_output(task.reporter, process.tail(scratch / "stdout", 20_000))
    parts = (out, process.tail(scratch / "stderr", 20_000))
    return seen_from(folder, "\n".join(part for part in parts if part))
