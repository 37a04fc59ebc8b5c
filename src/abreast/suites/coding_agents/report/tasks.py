"""Prompt by prompt, or pull request by pull request: what each agent made of it, and who won."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from abreast.analyse.paired import trial_grid
from abreast.analyse.rows import Floats
from abreast.analyse.variants import failures_by_case
from abreast.report.formats.json_report import number
from abreast.report.sections import NamedTable, Section
from abreast.report.words.variant_figures import NOTHING, seconds
from abreast.stats.numerics.arrays import ROUNDING
from abreast.suites.coding_agents.report import pictures
from abreast.suites.coding_agents.report.words import mean_change, written
from abreast.suites.coding_agents.report.work import RESPONSE_TIME, Work
from abreast.suites.trial_table import failures_as_data, failures_in_words, known
from abreast.text import many

TIE = "tie"


class Task(NamedTuple):
    """One case: for each agent means over its runs, and how many of those that count passed."""

    id: str
    winners: tuple[str, ...]  # all of those that are compared, if none is better; empty if nothing can be compared
    compared: int  # agents that have a score on the same runs
    scores: tuple[float | None, ...]
    passed: tuple[tuple[int, int] | None, ...]
    seconds: tuple[float | None, ...]
    files: tuple[float | None, ...]
    added: tuple[float | None, ...]
    deleted: tuple[float | None, ...]
    failed: tuple[Mapping[tuple[str, str], int], ...]

    @property
    def winner(self) -> str | None:
        if not self.winners:
            return None
        return TIE if len(self.winners) == self.compared else ", ".join(self.winners)


def section(work: Work) -> Section:
    tasks = list(tasks_of(work))
    late = work.rows.planned_cases - len(work.rows.cases)
    title = work.noun.capitalize()
    return Section(
        "prompts",
        f"{title} by {work.noun}",
        sentences=tuple(filter(None, [_won(work, tasks), f"{many(late, work.noun)} not begun" if late else ""])),
        tables=(*_scores(work, tasks), _amounts(work, tasks), *_failures(work, tasks)) if tasks else (),
        pictures=pictures.of_metrics(work, work.primary, work.metric(RESPONSE_TIME), work.metric("cost_usd")),
        data={"cases": [_task(work, one) for one in tasks], "not_begun": late},
    )


def tasks_of(work: Work) -> Iterator[Task]:
    rows, times, score = work.rows, work.metric(RESPONSE_TIME), work.winnable(work.rows.score)
    nothing = np.full(len(rows.position), np.nan)
    columns = {
        "scores": score,
        "seconds": nothing if times is None else times.values,
        "files": np.where(rows.ok, work.files_changed, np.nan),
        "added": work.amount("lines_added"),
        "deleted": work.amount("lines_deleted"),
    }
    means = {name: [work.of_cases(one, values) for one in work.variants] for name, values in columns.items()}
    failures, sides = failures_by_case(rows), [trial_grid(rows, one, score).score for one in work.variants]
    for case, facts in sorted(rows.cases.items()):
        winners, compared = _winners(work, [side[case] for side in sides])
        yield Task(
            facts.id,
            winners,
            compared,
            passed=tuple(_passed(work, case, one) for one in work.variants),
            failed=tuple(failures.get((case, one), {}) for one in work.variants),
            **{name: tuple(known(of_one[case]) for of_one in each) for name, each in means.items()},
        )


def _winners(work: Work, scores: list[Floats]) -> tuple[tuple[str, ...], int]:
    there = [one for one, own in enumerate(scores) if not np.isnan(own).all()]
    if len(there) < 2:
        return (), len(there)
    shared = np.logical_and.reduce([~np.isnan(scores[one]) for one in there])
    if not shared.any():
        return (), len(there)
    means = {one: float(scores[one][shared].mean()) for one in there}
    best = max(means.values())
    return tuple(work.names[one] for one, mean in means.items() if mean >= best - ROUNDING), len(there)


def _passed(work: Work, case: int, agent: int) -> tuple[int, int] | None:
    mine = work.passed[work.of(agent) & (work.rows.case == case)]
    counted = mine[~np.isnan(mine)]
    return (int((counted == 1).sum()), len(counted)) if len(counted) else None


def _won(work: Work, tasks: list[Task]) -> str:
    """`alone the best: careful 12, hasty 3; tie 5`."""
    if tasks and not _scored(tasks):
        return "no run has a score"
    if len(work.names) < 2 or not any(one.winners for one in tasks):
        return ""
    alone = {name: sum(one.winners == (name,) for one in tasks) for name in work.names}
    told = ", ".join(f"{name} {count:,}" for name, count in alone.items())
    return f"alone the best: {told}, of {many(sum(bool(one.winners) for one in tasks), work.noun)}"


def _scored(tasks: list[Task]) -> bool:
    return any(score is not None for one in tasks for score in one.scores)


def _scores(work: Work, tasks: list[Task]) -> list[NamedTable]:
    """Nothing if no run has a score."""
    if not _scored(tasks):
        return []
    rows = tuple(
        (
            one.id,
            one.winner or NOTHING,
            *(_score(work, score, passed) for score, passed in zip(one.scores, one.passed, strict=True)),
        )
        for one in tasks
    )
    by = "the tests" if work.rows.scores.get("tests") is not None else "having finished"
    what = work.primary.title if work.primary is not None else "score"
    note = f"{what}, mean over the runs, a failure of the agent counts 0; in brackets: runs that passed, by {by}"
    winner = "; winner: by that mean, on the runs that all have" if len(work.names) > 1 else ""
    return [NamedTable("prompts", "", (work.noun, "winner", *work.names), rows, note + winner)]


def _score(work: Work, score: float | None, passed: tuple[int, int] | None) -> str:
    """`67 % (2/3)`."""
    if score is None or work.primary is None:
        return NOTHING
    told = f"{score * 100:.0f} %" if work.primary.kind == "share" else written(work.primary, score)
    return told if passed is None else f"{told} ({passed[0]:,}/{passed[1]:,})"


def _amounts(work: Work, tasks: list[Task]) -> NamedTable:
    rows = tuple((one.id, *(_amount(one, at) for at in work.variants)) for one in tasks)
    note = "of the runs that ended well: mean time, lines added and deleted, files changed in brackets"
    return NamedTable("prompts-amounts", "", (work.noun, *work.names), rows, note, aside=True)


def _failures(work: Work, tasks: list[Task]) -> list[NamedTable]:
    """Nothing if no run failed."""
    rows = tuple(
        (one.id, name, failures_in_words(kinds))
        for one in tasks
        for name, kinds in work.by_variant(one.failed).items()
        if kinds
    )
    note = "by kind; (its): by its own fault, which counts 0; others count for nobody"
    head = (work.noun, "agent", "failed")
    return [NamedTable("prompts-failures", "Failed runs", head, rows, note, aside=True)] if rows else []


def _amount(one: Task, at: int) -> str:
    """`12.3 s, +31 −4 (2)`."""
    told = [seconds(one.seconds[at]), mean_change(one.files[at], one.added[at], one.deleted[at])]
    return ", ".join(part for part in told if part != NOTHING) or NOTHING


def _task(work: Work, one: Task) -> dict[str, Any]:
    scale = work.primary
    scores = [None if score is None or scale is None else number(scale.on_scale(score)) for score in one.scores]
    return {
        "id": one.id,
        "winner": one.winner if len(one.winners) == 1 or one.winner in (TIE, None) else list(one.winners),
        "scores": work.by_variant(scores),
        "passed": work.by_variant(None if each is None else each[0] for each in one.passed),
        "runs": work.by_variant(0 if each is None else each[1] for each in one.passed),
        "seconds": work.by_variant(one.seconds),
        "files_changed": work.by_variant(one.files),
        "lines_added": work.by_variant(one.added),
        "lines_deleted": work.by_variant(one.deleted),
        "failed": work.by_variant(failures_as_data(counts, "runs") for counts in one.failed),
    }
