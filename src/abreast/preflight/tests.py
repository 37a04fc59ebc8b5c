"""Do the tests of the cases say anything: do they fail on what agents begin with, and pass in what people did?

Before the first run of an experiment a few cases are tried: what is found out is not found out again in the run. All of
them are if somebody asks for it (`abreast check SPEC --try-tests`): that takes the time it takes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from abreast.model import Trial
from abreast.plan.plan import Plan
from abreast.preflight.context import TRIED_CASES, Context
from abreast.preflight.finding import Finding, listed, many
from abreast.preflight.waiting import waited_for
from abreast.targets.agents.agent import Agent
from abreast.targets.base import Moment
from abreast.targets.checks.case_tests import BRINGS_NONE
from abreast.targets.checks.workspace_checks import Told, says_nothing

NAME = "tests"
LATE = "abreast check with the same words and --try-tests runs them before anybody is paid"
FIX = "mend the command, install what is missing, or leave those cases out"
ANYWAY = f"{FIX}; --force goes on without"


def check(context: Context) -> Finding | None:
    """Of each case once: all variants begin with the same."""
    target = next((target for target in context.targets if isinstance(target, Agent) and target.checks), None)
    is_asked = context.try_tests > TRIED_CASES
    if target is None or not (context.estimate.trials or is_asked):
        return None
    plan = context.plan
    trials = (plan.trial(plan.position(case, 0, 0)) for case in range(len(plan.cases)))
    was_run = context.earlier is not None  # then its results were reported
    if not context.try_tests and not was_run and waited_for(lambda: _are_known(target, plan)):
        is_asked = True  # that takes no time
    elif not context.try_tests or (was_run and not is_asked):
        return Finding(NAME, "note", "not tried yet whether they say anything", LATE, aside=was_run)
    some = context.try_tests
    found = waited_for(lambda: _all_tried(target, list(trials)) if is_asked else _some_tried(target, trials, some))
    return _finding(found, is_asked) if found else None


def _finding(found: dict[str, dict[str, Told]], is_asked: bool) -> Finding | None:
    silent = [f"{case}: {why}" for case, told in found.items() if (why := _why(told))]
    speaking = sum(not _is_mute(told) for told in found.values())
    if speaking and not is_asked:
        return None
    if not speaking:
        which = f"tried in {many(len(found), 'case')}, they say nothing"
        more = f" (and {len(silent) - 1:,} more)" if len(silent) > 1 else ""
        return Finding(NAME, "fail", f"{which}; {silent[0]}{more}", ANYWAY, tuple(silent))
    with_people = any("human" in one for told in found.values() for one in told.values())
    people = ", and pass in what people did" if with_people else ""
    message = f"{speaking:,} of {many(len(found), 'case')} have tests that fail without any change{people}"
    if not silent:
        return Finding(NAME, "pass", message)
    return Finding(NAME, "warn", f"{message}; {listed(silent, 2)}", FIX, tuple(silent))


def _why(told: dict[str, Told]) -> str:
    return next(filter(None, map(says_nothing, told.values())), "")


def _is_mute(told: dict[str, Told]) -> bool:
    """Whether none of its tests says anything."""
    return all(map(says_nothing, told.values()))


async def _are_known(target: Agent, plan: Plan) -> bool:
    """Whether the tests of all cases were tried earlier, as by a selection of pull requests."""
    for case in range(len(plan.cases)):
        if not await target.knows_checks(plan.trial(plan.position(case, 0, 0)), Threads()):
            return False
    return True


async def _some_tried(target: Agent, trials: Iterable[Trial], some: int) -> dict[str, dict[str, Told]]:
    """One after another, until one says something. Who brings no tests is not waited for, and refuses nothing."""
    found: dict[str, dict[str, Told]] = {}
    for trial in trials:
        told = await target.checked_without_agent(trial, Threads())
        if all(one.get("untested") == BRINGS_NONE for one in told.values()):
            continue
        found[trial.case.id] = told
        if not _is_mute(told) or len(found) == some:
            break
    return found


async def _all_tried(target: Agent, trials: list[Trial]) -> dict[str, dict[str, Told]]:
    """As many at once as there are cores but one."""
    places = asyncio.Semaphore(max(1, (os.cpu_count() or 1) - 1))

    async def one(trial: Trial) -> tuple[str, dict[str, Told]]:
        async with places:
            return trial.case.id, await target.checked_without_agent(trial, Threads())

    return dict(await asyncio.gather(*map(one, trials)))


class Threads:
    """Where blocking code runs outside of a run."""

    def clock(self, moment: Moment, ago: float = 0.0) -> None:
        """Nobody measures this."""

    def more_time(self) -> Callable[[float], None]:
        return lambda seconds: None

    def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
        return asyncio.to_thread(function, *arguments)

    in_turn = in_thread

    def in_process(self, function: Callable[..., Any] | str, *arguments: Any) -> Awaitable[Any]:
        raise NotImplementedError("no check needs one")
