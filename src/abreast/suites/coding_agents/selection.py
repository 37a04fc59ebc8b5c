"""Select the pull requests whose tests fail before them and pass after them. That needs no agent.

The history is followed back until enough are found, or so many have been examined. What is found out about the tests is
kept, so that neither a run nor a later selection runs them again.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import BadInput
from abreast.model import Case, Trial, Variant
from abreast.preflight.checks.endpoints import run_sync
from abreast.suites.coding_agents.history import LeftOut, newest_first
from abreast.text import many

if TYPE_CHECKING:
    from abreast.suites.coding_agents.config import Config
    from abreast.targets.agents.agent import Agent

TRIED = 10  # pull requests whose tests are run at most, for each that is wanted

EXAMINED = 100  # pull requests that are examined at most, for each that is wanted: one without tests costs little

NO_TESTS = "has no tests of its own"


def applies(config: Config) -> bool:
    """Whether pull requests are selected by their tests: where that is asked for, and where tests alone decide."""
    asked = config.pull_requests
    if asked.commits or asked.tasks:
        if asked.with_tests:
            raise BadInput("with_tests looks for pull requests, and these are named", "leave one of them out")
        return False
    if config.mock:
        return False
    if asked.with_tests is not None:
        return asked.with_tests
    return (config.check is None or "{tests}" in config.check) and not config.dimensions


@dataclass(slots=True)
class Selection:
    wanted: int
    accepted: list[str] = field(default_factory=list)  # as `commits` names them, newest first
    reasons: list[str] = field(default_factory=list)  # why pull requests were left out
    others: list[str] = field(default_factory=list)  # why commits were not taken for pull requests
    is_exhausted: bool = False  # the history has no more

    @property
    def examined(self) -> int:
        return len(self.accepted) + len(self.reasons)

    @property
    def room(self) -> int:
        tried = len(self.accepted) + sum(reason != NO_TESTS for reason in self.reasons)
        return min(self.wanted * TRIED - tried, self.wanted * EXAMINED - self.examined)

    def notes(self) -> Iterator[str]:
        why = "the history has no more" if self.is_exhausted else "which is the most" if self.room <= 0 else ""
        few = len(self.accepted) < self.wanted
        yield (
            f"examined {many(self.examined, 'pull request')}{f' ({why})' if few and why else ''}: "
            f"{len(self.accepted):,} of {self.wanted:,} wanted have tests that fail before and pass after"
            + (f"; left out: {counted(self.reasons)}" if self.reasons else "")
        )
        if self.others:
            yield f"not examined, for they are no tasks: {counted(self.others)}"


def counted(reasons: Iterable[str]) -> str:
    """Reasons with how often each was given; what follows a colon or semicolon is about a single one.

    >>> counted(["changes nothing", "fails too: exit code 1", "fails too: exit code 2"])
    'fails too (2), changes nothing (1)'
    """
    kinds = Counter(reason.partition(":")[0].partition(";")[0] for reason in reasons)
    return ", ".join(f"{reason} ({count:,})" for reason, count in kinds.most_common())


def with_tests(
    config: Config, which: dict[str, Any], workspace: Mapping[str, Any], scorer: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The arguments of `history.cases` for the selected pull requests, else for the last ones, and notes."""
    selection = select(config, which, workspace, scorer)
    notes = list(selection.notes())
    for note in notes:
        config.tell(note)
    if selection.accepted:
        kept = {key: value for key, value in which.items() if key != "last"}
        return {**kept, "commits": selection.accepted[::-1]}, notes
    if config.pull_requests.with_tests and not any("setup" in reason for reason in selection.reasons):
        raise BadInput(notes[0], "name pull requests: --commits, or go on without: --no-with-tests")
    return which, notes


def select(
    config: Config, which: Mapping[str, Any], workspace: Mapping[str, Any], scorer: Mapping[str, Any]
) -> Selection:
    selection = Selection(which["last"])
    found = newest_first(Path(which["repo"]), which["branch"])
    from abreast.targets.processes.orphans import marked  # late: only who selects starts programs

    with marked(reaps=False):
        run_sync(lambda: _follow(selection, config, found, _target(config.base, workspace, scorer)))
    return selection


def _target(base: Path, workspace: Mapping[str, Any], scorer: Mapping[str, Any]) -> Agent:
    """A target whose checks can be tried; its program is never run."""
    from abreast.scorers import build as build_scorer
    from abreast.targets import build
    from abreast.targets.agents.agent import Agent

    check = build_scorer("tests", dict(scorer), base)
    params = {"command": ["true"], "workspace": dict(workspace), "prompt": "{{ task }}"}
    shared = {"base": base, "checks": [check.check]}
    target = build(Variant("tests", "command", params), 0, shared)
    assert isinstance(target, Agent)
    return target


async def _follow(
    selection: Selection, config: Config, found: Iterator[tuple[str, Case] | LeftOut], target: Agent
) -> None:
    """As many at once as there are cores but one; newer ones are taken first."""
    at_once = max(1, (os.cpu_count() or 1) - 1)
    try:
        while len(selection.accepted) < selection.wanted and selection.room > 0:
            some = list(islice(_tested(selection, config, found), min(at_once, selection.room)))
            if not some:
                selection.is_exhausted = selection.room > 0
                break
            reasons = await asyncio.gather(*(_examine(target, case) for _, case in some))
            for (name, case), (reason, message) in zip(some, reasons, strict=True):
                if reason:
                    _leave_out(selection, config, case, reason)
                elif len(selection.accepted) < selection.wanted:
                    selection.accepted.append(name)
                    config.tell(f"{case.id}: {message}")
    finally:
        with suppress(OSError):
            await target.close()


def _tested(
    selection: Selection, config: Config, found: Iterator[tuple[str, Case] | LeftOut]
) -> Iterator[tuple[str, Case]]:
    for one in found:
        if isinstance(one, LeftOut):
            selection.others.append(one.reason)
        elif one[1].expected["tests"]:
            yield one
        else:
            _leave_out(selection, config, one[1], NO_TESTS)
            if selection.room <= 0:
                return


def _leave_out(selection: Selection, config: Config, case: Case, reason: str) -> None:
    selection.reasons.append(reason)
    config.tell(f"{case.id}: left out: {reason}")


async def _examine(target: Agent, case: Case) -> tuple[str, str]:
    """Why its tests say nothing, empty if they do, and then what is to be told."""
    from abreast.preflight.checks.agents import PreflightWorkers
    from abreast.targets.checks.workspace_checks import why_uninformative

    trial = Trial(0, case, Variant("tests", "command", {}), 0)
    (told,) = (await target.checked_without_agent(trial, PreflightWorkers())).values()
    if reason := why_uninformative(told):
        return reason, ""
    if "f2p_total" not in told:
        return "", "its tests fail before and pass after"
    return "", f"{many(told['f2p_total'], 'test')} to make pass, {told['p2p_total']:,} to keep passing"
