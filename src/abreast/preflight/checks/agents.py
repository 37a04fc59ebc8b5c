"""Check the agents' programs, the disk space for their workspaces, and the setup and tests of the cases.

Before the first run of an experiment the tests of a few cases are tried; `abreast check SPEC --try-tests` tries all.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from abreast.model import Trial
from abreast.plan import git
from abreast.plan.concurrency import Concurrency
from abreast.plan.plan import Plan
from abreast.preflight.checks.endpoints import run_sync
from abreast.preflight.context import TRIED_CASES, Context
from abreast.preflight.finding import Finding, first_of, listed
from abreast.store.user_state import drivers
from abreast.targets.base import AgentTarget, Moment
from abreast.targets.checks.check_runs import NO_OWN_TESTS
from abreast.targets.checks.workspace_checks import CheckFacts, why_uninformative
from abreast.targets.processes import process_tree
from abreast.targets.sandbox import bubblewrap
from abreast.targets.workspace import NoWorkspace
from abreast.targets.workspace.git import git_command
from abreast.text import many

LARGE_SHARE = 0.5  # share of the free disk space that is worth a warning
TEST_FIX = "fix the command, install what is missing, or leave those cases out"
_CONTAINMENT = {
    "subreaper": "child subreaper",
    "group": "process group and a mark in the environment, from which a daemon can hide",
}


def check_programs(context: Context) -> Finding | None:
    """List programs and their versions; warn if the program of a shell command is missing.

    `check_targets` fails for other missing programs.
    """
    agents = _agents(context)
    if not agents:
        return None
    programs: dict[str, str] = {}
    details: list[str] = []
    missing: list[str] = []
    for name, agent in agents:
        own = agent.cli_versions
        programs |= own
        missing += [f"{name}: no program {program} on the path" for program in own if own[program] == "missing"]
        versions = ", ".join(f"{program} ({version})" for program, version in own.items())
        details.append(f"{name}: {versions or 'a program without a known version'}")
    version = _git_version() if git_command.is_installed() else "missing"
    details.append(f"git ({version})")
    details += [f"judge {name}: {target.name}" for name, target in context.judges.items()]
    if missing:
        return Finding("agents", "warn", listed(missing), "install it, or fix the command", tuple(details))
    names = [
        program if version.startswith(("content ", "of the system")) else f"{program} {version}"
        for program, version in programs.items()
    ]
    message = f"{many(len(agents), 'agent')}{f': {listed(names, 8)}' if names else ''}; git {version}"
    return Finding("agents", "pass", message, "", tuple(details), is_check_only=True)


def check_room(context: Context) -> Finding | None:
    """Compare the size of all workspaces in use at once with the free disk space."""
    agents = _agents(context)
    if not agents or not context.estimate.trials:
        return None
    first = context.plan.trial(0)  # represents all cases
    size, variant = max(((agent.workspace_bytes(first), name) for name, agent in agents), key=lambda pair: pair[0])
    in_flight = Concurrency(context.limits, context.targets).likely
    root = drivers.root()
    free = shutil.disk_usage(next(folder for folder in (root, *root.parents) if folder.exists())).free
    needed = size * (in_flight + 1)  # plus the one from which they are copied
    message = f"{many(in_flight, 'workspace')} of {_readable_size(size)} at once, {_readable_size(free)} free in {root}"
    if needed > free:
        fix = f"set {drivers.ROOT_VARIABLE} to a folder on a larger disk, or reduce parallel"
        return Finding("workspaces", "fail", f"{message}: not enough disk space ({variant})", fix)
    if needed > LARGE_SHARE * free:
        message += ": agents that build or install may fill the disk"
        return Finding("workspaces", "warn", message, "reduce parallel")
    return Finding("workspaces", "pass", message, is_check_only=True)


def check_containment(context: Context) -> Finding | None:
    """Report how the processes of a trial are ended, and whether agents run in a sandbox."""
    agents = _agents(context)
    if not agents:
        return None
    open_agents = [name for name, agent in agents if agent.sandbox is None]
    messages = []
    if len(open_agents) < len(agents):
        messages.append("PID namespace of bubblewrap")
    if open_agents:
        messages.append(_CONTAINMENT[process_tree.containment()])
    message = f"processes end with their trial: {' and '.join(messages)}"
    if not open_agents:
        return Finding("containment", "pass", message, is_check_only=True)
    message += f"; without a sandbox {listed(open_agents)} can read and change whatever you can"
    fix = "set sandbox: bubblewrap" if bubblewrap() else "install bubblewrap and set sandbox: bubblewrap"
    return Finding("containment", "note" if bubblewrap() else "pass", message, fix, is_check_only=True)


def _agents(context: Context) -> list[tuple[str, AgentTarget]]:
    pairs = zip(context.plan.variants, context.targets, strict=True)
    return [(variant.name, target.agent) for variant, target in pairs if target.agent is not None]


def _git_version() -> str:
    version = re.search(r"\d+\.\d+(\.\d+)?", git.output(Path.cwd(), "--version") or "")
    return version[0] if version else "unknown"


def _readable_size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"


def check_setup(context: Context) -> Finding | None:
    """Run the `setup:` command where its environment is missing, so that its failure never counts as an agent's.

    It runs once for all variants with the same start: for every case before a run, for the first in `abreast check`.
    """
    agents = [(at, agent) for at, target in enumerate(context.targets) if (agent := target.agent) and agent.has_setup]
    if not agents or not (context.estimate.trials or context.settings.try_tests > TRIED_CASES):
        return None
    if not context.settings.try_setup:
        return Finding("setup", "note", "not tried yet", "run `abreast check` with the same arguments to try it")
    plan, environments, starts = context.plan, set[str | None](), set[str]()
    cases = len(plan.cases) if context.settings.try_tests else 1
    for at, agent in agents:
        if agent.start in starts:
            continue
        starts.add(agent.start)
        for case in range(cases):
            trial = plan.trial(plan.position(case, 0, at))
            try:
                environments.add(agent.set_up(trial))
            except NoWorkspace as error:
                fix = "fix the command, or install what it needs"
                return Finding("setup", "fail", f"case {trial.case.id}: {error}", fix)
    message = f"{many(len(environments), 'environment')} for {many(len(plan.cases), 'case')}"
    if cases < len(plan.cases):
        rest = len(plan.cases) - 1
        message = f"works for {plan.cases[0].id}; the run sets up the other {rest:,}, as does --try-tests"
    return Finding("setup", "pass", message, is_check_only=True)


def check_tests(context: Context) -> Finding | None:
    """Check that the tests of the cases fail without a change, and pass with the reference solution."""
    target = next((agent for target in context.targets if (agent := target.agent) and agent.has_checks), None)
    most = context.settings.try_tests
    tries_all = most > TRIED_CASES
    if target is None or not (context.estimate.trials or tries_all):
        return None
    plan = context.plan
    trials = (plan.trial(plan.position(case, 0, 0)) for case in range(len(plan.cases)))
    was_run = context.previous is not None  # its results were reported then
    if not most and not was_run and run_sync(lambda: _are_cached(target, plan)):
        tries_all = True  # takes no time
    elif not most or (was_run and not tries_all):
        fix = "run `abreast check` with the same arguments and --try-tests to run them at no cost"
        return Finding("tests", "note", "not tried yet", fix, is_check_only=was_run)
    results = run_sync(lambda: _try_all(target, list(trials)) if tries_all else _try_some(target, trials, most))
    return _tests_finding(results, tries_all) if results else None


def _tests_finding(results: dict[str, dict[str, CheckFacts]], tried_all: bool) -> Finding | None:
    silent = [f"{case}: {why}" for case, tests in results.items() if (why := _why_useless(tests))]
    useful = sum(not _are_useless(tests) for tests in results.values())
    if useful and not tried_all:
        return None
    if not useful:
        message = f"no useful test in the {many(len(results), 'case')} tried; {first_of(silent)}"
        return Finding("tests", "fail", message, f"{TEST_FIX}; or run without them: --force", tuple(silent))
    has_reference = any("human" in test for tests in results.values() for test in tests.values())
    passing = ", and pass with the reference solution" if has_reference else ""
    message = f"{useful:,} of {many(len(results), 'case')} have tests that fail without any change{passing}"
    if not silent:
        return Finding("tests", "pass", message)
    return Finding("tests", "warn", f"{message}; {listed(silent, 2)}", TEST_FIX, tuple(silent))


def _why_useless(tests: dict[str, CheckFacts]) -> str:
    return next(filter(None, map(why_uninformative, tests.values())), "")


def _are_useless(tests: dict[str, CheckFacts]) -> bool:
    return all(map(why_uninformative, tests.values()))


async def _are_cached(target: AgentTarget, plan: Plan) -> bool:
    for case in range(len(plan.cases)):
        if not await target.knows_checks(plan.trial(plan.position(case, 0, 0)), PreflightWorkers()):
            return False
    return True


async def _try_some(target: AgentTarget, trials: Iterable[Trial], most: int) -> dict[str, dict[str, CheckFacts]]:
    """Try up to `most` cases until one has useful tests; cases without tests do not count."""
    results: dict[str, dict[str, CheckFacts]] = {}
    for trial in trials:
        tests = await target.checked_without_agent(trial, PreflightWorkers())
        if all(test.get("untested") == NO_OWN_TESTS for test in tests.values()):
            continue
        results[trial.case.id] = tests
        if not _are_useless(tests) or len(results) == most:
            break
    return results


async def _try_all(target: AgentTarget, trials: list[Trial]) -> dict[str, dict[str, CheckFacts]]:
    """Try all cases, on all cores but one."""
    slots = asyncio.Semaphore(max(1, (os.cpu_count() or 1) - 1))

    async def try_one(trial: Trial) -> tuple[str, dict[str, CheckFacts]]:
        async with slots:
            return trial.case.id, await target.checked_without_agent(trial, PreflightWorkers())

    return dict(await asyncio.gather(*map(try_one, trials)))


class PreflightWorkers:
    """Workers outside a run."""

    def clock(self, moment: Moment, ago: float = 0.0) -> None:
        """Measure nothing."""

    def more_time(self) -> Callable[[float], None]:
        return lambda seconds: None

    def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
        return asyncio.to_thread(function, *arguments)

    in_turn = in_thread

    def in_process(self, function: Callable[..., Any] | str, *arguments: Any) -> Awaitable[Any]:
        raise NotImplementedError("no check needs a process")
