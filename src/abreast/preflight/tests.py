"""Do the tests of the cases say anything: do they fail on what agents begin with, and pass in what people did?

They are run only if somebody asks for it (`abreast check SPEC --try-tests`): that takes the time it takes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from abreast.model import Trial
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, listed, many
from abreast.preflight.waiting import waited_for
from abreast.targets.agent import Agent
from abreast.targets.base import Moment
from abreast.targets.checks import Told, says_nothing

NAME = "tests"
LATE = "abreast check with the same words and --try-tests runs them before anybody is paid"


def check(context: Context) -> Finding | None:
    """Of each case once: all variants begin with the same."""
    target = next((target for target in context.targets if isinstance(target, Agent) and target.checks), None)
    if target is None or not (context.estimate.trials or context.tries_tests):
        return None
    if not context.tries_tests:
        was_run = context.earlier is not None  # and whoever ran it saw what became of them
        return Finding(NAME, "note", "not tried yet whether they say anything", LATE, aside=was_run)
    plan = context.plan
    trials = [plan.trial(plan.position(case, 0, 0)) for case in range(len(plan.cases))]
    found = waited_for(lambda: _tried(target, trials))
    silent = [f"{case}: {why}" for case, told in found.items() if (why := _why(told))]
    speaking = len(found) - len(silent)
    people = (
        ", and pass in what people did"
        if any("human" in one for told in found.values() for one in told.values())
        else ""
    )
    message = f"{speaking:,} of {many(len(found), 'case')} have tests that fail without any change{people}"
    if not silent:
        return Finding(NAME, "pass", message)
    fix = "mend the command, install what is missing, or leave those cases out"
    return Finding(NAME, "warn" if speaking else "fail", f"{message}; {listed(silent, 2)}", fix, tuple(silent))


def _why(told: dict[str, Told]) -> str:
    return next(filter(None, map(says_nothing, told.values())), "")


async def _tried(target: Agent, trials: list[Trial]) -> dict[str, dict[str, Told]]:
    """As many at once as there are cores but one."""
    places = asyncio.Semaphore(max(1, (os.cpu_count() or 1) - 1))

    async def one(trial: Trial) -> tuple[str, dict[str, Told]]:
        async with places:
            return trial.case.id, await target.checked_without_agent(trial, _Threads())

    return dict(await asyncio.gather(*map(one, trials)))


class _Threads:
    """Where blocking code runs outside of a run."""

    def clock(self, moment: Moment) -> None:
        """Nobody measures this."""

    def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
        return asyncio.to_thread(function, *arguments)

    def in_process(self, function: Callable[..., Any] | str, *arguments: Any) -> Awaitable[Any]:
        raise NotImplementedError("no check needs one")
