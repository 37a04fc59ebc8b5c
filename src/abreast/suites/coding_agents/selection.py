"""Select the pull requests whose tests fail before them and pass after them. That needs no agent.

The history is followed back until there are enough, or a maximum has been examined. Test results are kept, so that
neither a run nor a later selection runs the tests again.
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
from abreast.suites.coding_agents.history import Exclusion, newest_first
from abreast.text import many

if TYPE_CHECKING:
    from abreast.suites.coding_agents.config import SuiteConfig
    from abreast.targets.base import AgentTarget

# Maximum numbers for each requested pull request; one without tests costs little to examine.
TRIED = 10  # pull requests whose tests are run
EXAMINED = 100
NO_TESTS = "has no tests of its own"


def applies(config: SuiteConfig) -> bool:
    """Whether to select pull requests by their tests: on request, and where tests alone decide."""
    options = config.pull_requests
    if options.commits or options.tasks:
        if options.with_tests:
            raise BadInput("with_tests cannot be combined with commits or tasks", "remove one of them")
        return False
    if config.mock:
        return False
    if options.with_tests is not None:
        return options.with_tests
    return (config.check is None or "{tests}" in config.check) and not config.dimensions


@dataclass(slots=True)
class PullRequestSelection:
    requested: int
    accepted: list[str] = field(default_factory=list)  # in the syntax of `commits`, newest first
    reasons: list[str] = field(default_factory=list)  # reasons why pull requests were rejected
    others: list[str] = field(default_factory=list)  # reasons why commits are not pull requests
    is_exhausted: bool = False  # there is no more history

    @property
    def examined(self) -> int:
        return len(self.accepted) + len(self.reasons)

    @property
    def room(self) -> int:
        tried = len(self.accepted) + sum(reason != NO_TESTS for reason in self.reasons)
        return min(self.requested * TRIED - tried, self.requested * EXAMINED - self.examined)

    def notes(self) -> Iterator[str]:
        why = "end of history" if self.is_exhausted else "the maximum" if self.room <= 0 else ""
        few = len(self.accepted) < self.requested
        yield (
            f"examined {many(self.examined, 'pull request')}{f' ({why})' if few and why else ''}: "
            f"{len(self.accepted):,} of {self.requested:,} requested have tests that fail before and pass after"
            + (f"; rejected: {counted(self.reasons)}" if self.reasons else "")
        )
        if self.others:
            yield f"excluded without examination: {counted(self.others)}"


def counted(reasons: Iterable[str]) -> str:
    """Reasons with their counts, cut at the first colon or semicolon.

    >>> counted(["changes nothing", "fails too: exit code 1", "fails too: exit code 2"])
    'fails too (2), changes nothing (1)'
    """
    kinds = Counter(reason.partition(":")[0].partition(";")[0] for reason in reasons)
    return ", ".join(f"{reason} ({count:,})" for reason, count in kinds.most_common())


def with_tests(
    config: SuiteConfig, arguments: dict[str, Any], workspace: Mapping[str, Any], scorer: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments of `history.cases` restricted to the selected pull requests, if there are any, and notes."""
    selection = select(config, arguments, workspace, scorer)
    notes = list(selection.notes())
    for note in notes:
        config.show_progress(note)
    if selection.accepted:
        others = {key: value for key, value in arguments.items() if key != "last"}
        return {**others, "commits": selection.accepted[::-1]}, notes
    if config.pull_requests.with_tests and not any("setup" in reason for reason in selection.reasons):
        raise BadInput(notes[0], "use `--commits` to name pull requests, or `--no-with-tests`")
    return arguments, notes


def select(
    config: SuiteConfig, arguments: Mapping[str, Any], workspace: Mapping[str, Any], scorer: Mapping[str, Any]
) -> PullRequestSelection:
    from abreast.targets.processes.orphans import marked  # late: most runs select nothing

    selection = PullRequestSelection(arguments["last"])
    candidates = newest_first(Path(arguments["repo"]), arguments["branch"])
    with marked(reaps=False):
        run_sync(lambda: _select(selection, config, candidates, _target(config.base, workspace, scorer)))
    return selection


def _target(base: Path, workspace: Mapping[str, Any], scorer: Mapping[str, Any]) -> AgentTarget:
    """Return a target to run checks with; its program is never started."""
    from abreast.scorers import build as build_scorer
    from abreast.targets import build

    check = build_scorer("tests", dict(scorer), base)
    params = {"command": ["true"], "workspace": dict(workspace), "prompt": "{{ task }}"}
    shared = {"base": base, "checks": [check.check]}
    agent = build(Variant("tests", "command", params), 0, shared).agent
    assert agent is not None
    return agent


async def _select(
    selection: PullRequestSelection,
    config: SuiteConfig,
    candidates: Iterator[tuple[str, Case] | Exclusion],
    target: AgentTarget,
) -> None:
    """Examine candidates, newest first, on all cores but one."""
    parallel = max(1, (os.cpu_count() or 1) - 1)
    try:
        while len(selection.accepted) < selection.requested and selection.room > 0:
            batch = list(islice(_with_test_files(selection, config, candidates), min(parallel, selection.room)))
            if not batch:
                selection.is_exhausted = selection.room > 0
                break
            reasons = await asyncio.gather(*(_examine(target, case) for _, case in batch))
            for (name, case), (reason, message) in zip(batch, reasons, strict=True):
                if reason:
                    _reject(selection, config, case, reason)
                elif len(selection.accepted) < selection.requested:
                    selection.accepted.append(name)
                    config.show_progress(f"{case.id}: {message}")
    finally:
        with suppress(OSError):
            await target.close()


def _with_test_files(
    selection: PullRequestSelection, config: SuiteConfig, candidates: Iterator[tuple[str, Case] | Exclusion]
) -> Iterator[tuple[str, Case]]:
    for candidate in candidates:
        if isinstance(candidate, Exclusion):
            selection.others.append(candidate.reason)
        elif candidate[1].expected["tests"]:
            yield candidate
        else:
            _reject(selection, config, candidate[1], NO_TESTS)
            if selection.room <= 0:
                return


def _reject(selection: PullRequestSelection, config: SuiteConfig, case: Case, reason: str) -> None:
    selection.reasons.append(reason)
    config.show_progress(f"{case.id}: rejected: {reason}")


async def _examine(target: AgentTarget, case: Case) -> tuple[str, str]:
    """Return the reason why the tests of a case cannot decide, or an empty text and what they check."""
    from abreast.preflight.checks.agents import PreflightWorkers
    from abreast.targets.checks.workspace_checks import why_uninformative

    trial = Trial(0, case, Variant("tests", "command", {}), 0)
    (result,) = (await target.checked_without_agent(trial, PreflightWorkers())).values()
    if reason := why_uninformative(result):
        return reason, ""
    if "f2p_total" not in result:
        return "", "its tests fail before and pass after"
    return "", f"{many(result['f2p_total'], 'test')} to make pass, {result['p2p_total']:,} to keep passing"
