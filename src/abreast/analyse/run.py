"""The analysis of one run: always from its rows, the case as the unit, repeats averaged, pairs kept together."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.stats import Interval, Verdict, cases_needed, paired_t, verdict, wilson
from abreast.store import Store

ROUNDING = 1e-9

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class VariantSummary:
    """One contender, over all its trials."""

    name: str
    trials: int
    ok: int
    errors: dict[tuple[str, str], int]  # by kind and blame
    skipped: int
    unscored: int
    reused: int
    score: Interval | None
    cost_usd: float | None
    latency_p50: float | None
    latency_p95: float | None
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class CaseDifference:
    """What one case says: the mean scores of both sides."""

    case_id: str
    baseline: float
    variant: float

    @property
    def difference(self) -> float:
        return self.variant - self.baseline


@dataclass(frozen=True, slots=True)
class Comparison:
    """One contender against the baseline. A case is compared by those of its repeats that both sides have."""

    variant: str
    baseline: str
    verdict: Verdict
    cases: int
    planned: int  # cases
    failed: int  # cases left out because infrastructure failed on one side
    unscored: int  # cases left out because an answer has no score
    skipped: int
    not_run: int
    repeats: int  # of the compared cases, planned
    repeats_left_out: int
    needed: int | None  # cases to detect ten points
    differences: tuple[CaseDifference, ...]  # the largest first


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything the reports say about a run."""

    run: dict[str, Any]
    score_name: str | None
    planned: int
    stored: int
    variants: tuple[VariantSummary, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def simulated(self) -> bool:
        return bool(self.run["simulated"])

    @property
    def retried_failures(self) -> bool:
        """Whether the variants' own failures were rolled again on purpose."""
        return bool(json.loads(self.run["spec"])["options"].get("retry_failed"))


def analyse(store: Store, run: str, shown: int = 10) -> Analysis:
    """Read the rows of a run and compare its variants with the baseline."""
    meta = store.run(run)
    table = _Table(store, meta)
    summaries = tuple(_summary(table, index) for index in range(len(table.variants)))
    base = table.variants.index(meta["baseline"])
    comparisons = tuple(_compare(table, index, base, shown) for index in range(len(table.variants)) if index != base)
    planned = int(meta["planned_trials"])
    stored = int((table.status != "cancelled").sum())
    return Analysis(meta, meta["primary_score"], planned, stored, summaries, comparisons)


class _Table:
    """The rows of a run as columns."""

    def __init__(self, store: Store, meta: dict[str, Any]) -> None:
        self.store = store
        self.run_id = int(meta["run_id"])
        self.spec = json.loads(meta["spec"])
        found = store.rows("SELECT name FROM variants WHERE run_id = ? ORDER BY variant", (self.run_id,))
        self.variants = [row[0] for row in found]
        self.repeats = int(self.spec.get("repeats", 1))
        self.planned = int(meta["planned_trials"])
        rows = store.each(
            "SELECT t.position, t.variant, t.repeat, t.status, t.error_kind, t.error_blame, s.value, t.service_s, "
            "t.cost_usd, t.reused_from IS NOT NULL, t.input_tokens, t.output_tokens FROM trials t "
            "LEFT JOIN scores s ON s.run_id = t.run_id AND s.position = t.position AND s.name = ? "
            "WHERE t.run_id = ? ORDER BY t.position",
            (meta["primary_score"], self.run_id),
        )
        columns = _columns(rows, (int, int, int, str, str, str, float, float, float, bool, int, int))
        self.position, self.variant, self.repeat, self.status, self.kind, self.blame, *rest = columns
        value, self.latency, self.cost, self.reused, self.input_tokens, self.output_tokens = rest
        self.case = self.position // (len(self.variants) * self.repeats)
        own_failure = (self.status == "error") & (self.blame == "variant")
        self.score = np.where(self.status == "ok", value, np.where(own_failure, 0.0, np.nan))

    def name(self, case: int) -> str:
        """The id of a case that has a row."""
        per_case = len(self.variants) * self.repeats
        ((found,),) = self.store.rows(
            "SELECT c.id FROM trials t JOIN cases c ON c.digest = t.case_digest "
            "WHERE t.run_id = ? AND t.position BETWEEN ? AND ? LIMIT 1",
            (self.run_id, case * per_case, (case + 1) * per_case - 1),
        )
        return str(found)

    def groups(self, cases: npt.NDArray[np.int64]) -> list[str] | None:
        """The group of each of these cases, its own if it has none; None if no case of the run has one."""
        if not self._group:
            return None
        return [self._group.get(case, f"\0{case}") for case in cases.tolist()]

    @cached_property
    def _group(self) -> dict[int, str]:
        """The groups of the cases that have one, by their index."""
        per_case = len(self.variants) * self.repeats
        rows = self.store.each(
            "SELECT t.position, c.case_group FROM trials t JOIN cases c ON c.digest = t.case_digest "
            "WHERE t.run_id = ? AND c.case_group IS NOT NULL",
            (self.run_id,),
        )
        return {position // per_case: group for position, group in rows}


CHUNK = 10_000  # rows that are Python objects at the same time
_EMPTY = {int: np.int64, float: float, bool: bool, str: object}


def _columns(rows: Iterable[tuple[Any, ...]], kinds: Sequence[type]) -> list[npt.NDArray[Any]]:
    """Rows as arrays, a few at a time. No text is kept twice; a number that is not known is nan, a whole one 0."""
    rows, known = iter(rows), dict[str | None, str | None]()
    parts: list[list[npt.NDArray[Any]]] = [[np.array([], dtype=_EMPTY[kind])] for kind in kinds]
    while chunk := list(islice(rows, CHUNK)):
        for part, kind, column in zip(parts, kinds, zip(*chunk, strict=True), strict=True):
            items: list[Any] = list(column)
            if kind is str:
                items = [known.setdefault(item, item) for item in items]
            elif kind is not bool:
                missing = np.nan if kind is float else 0
                items = [missing if item is None else item for item in items]
            part.append(np.array(items, dtype=_EMPTY[kind]))
    return [np.concatenate(part) for part in parts]


def _summary(table: _Table, index: int) -> VariantSummary:
    mine = table.variant == index
    status = table.status[mine]
    failed = mine & (table.status == "error")
    errors = Counter(zip(table.kind[failed], table.blame[failed], strict=True))
    scores = table.score[mine]
    known = scores[~np.isnan(scores)]
    new = mine & ~table.reused
    latency = table.latency[new & (table.status == "ok")]
    cost = table.cost[new]
    return VariantSummary(
        table.variants[index],
        int(mine.sum()),
        int((status == "ok").sum()),
        {(str(kind), str(blame)): count for (kind, blame), count in errors.items()},
        int((status == "skipped").sum()),
        int(np.isnan(table.score[mine & (table.status == "ok")]).sum()),
        int((mine & table.reused).sum()),
        _score_interval(table, mine, known),
        float(np.nansum(cost)) if len(cost) and not np.isnan(cost).all() else None,
        _percentile(latency, 0.5),
        _percentile(latency, 0.95),
        int(table.input_tokens[new].sum()),
        int(table.output_tokens[new].sum()),
    )


def _percentile(values: Floats, share: float) -> float | None:
    """The nearest rank, as the view `metrics` has it."""
    return float(np.quantile(values, share, method="inverted_cdf")) if len(values) else None


def _score_interval(table: _Table, mine: npt.NDArray[np.bool_], known: Floats) -> Interval | None:
    """The mean score over cases: Wilson for plain yes or no, t over the means of cases otherwise; with groups, t by the
    clustered error as for a difference. The view `metrics` has the same."""
    if not len(known):
        return None
    usable = mine & ~np.isnan(table.score)
    cases, means = _mean_by(table.case[usable], table.score[usable])
    groups = table.groups(cases)
    if groups is None and table.repeats == 1 and np.isin(known, (0.0, 1.0)).all():
        return wilson(float(known.sum()), len(known))
    independent = len(means) if groups is None else len(set(groups))
    if independent < 2:
        return Interval(float(means.mean()), 0.0, 1.0)
    interval = paired_t(means, groups=groups)
    if interval.high - interval.low < ROUNDING:  # all alike: that is not certainty
        return wilson(float(means.mean()) * independent, independent)
    return Interval(interval.estimate, max(0.0, interval.low), min(1.0, interval.high))


def _mean_by(keys: npt.NDArray[np.int64], values: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    unique, inverse = np.unique(keys, return_inverse=True)
    return unique, np.bincount(inverse, weights=values) / np.bincount(inverse)


@dataclass(frozen=True, slots=True)
class _Side:
    """One contender, a value for each block."""

    score: Floats
    present: npt.NDArray[np.bool_]
    failed: npt.NDArray[np.bool_]  # not by its own fault
    skipped: npt.NDArray[np.bool_]


def _side(table: _Table, index: int, block: npt.NDArray[np.int64], blocks: int) -> _Side:
    mine = table.variant == index
    scores = np.full(blocks, np.nan)
    scores[block[mine]] = table.score[mine]

    def marked(which: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        found = np.zeros(blocks, dtype=bool)
        found[block[mine & which]] = True
        return found

    failed = (table.status == "error") & (table.blame != "variant")
    return _Side(scores, marked(table.status != "cancelled"), marked(failed), marked(table.status == "skipped"))


def _compare(table: _Table, index: int, base: int, shown: int) -> Comparison:
    block = table.case * table.repeats + table.repeat
    blocks = int(block.max()) + 1 if len(block) else 0
    one, other = _side(table, base, block, blocks), _side(table, index, block, blocks)
    paired = ~np.isnan(one.score) & ~np.isnan(other.score)
    case_of_block = np.arange(blocks) // table.repeats
    cases, baseline_means = _mean_by(case_of_block[paired], one.score[paired])
    _, variant_means = _mean_by(case_of_block[paired], other.score[paired])
    differences = variant_means - baseline_means
    differences[np.abs(differences) < ROUNDING] = 0.0  # sums of the same scores in another order
    groups = table.groups(cases)
    order = np.argsort(-np.abs(differences), kind="stable")[:shown]
    planned = table.planned // (len(table.variants) * table.repeats)

    left_out: list[int] = []  # cases without a pair, each under the first of the reasons that holds
    counted = set(cases.tolist())
    both = one.present & other.present & ~paired
    for why in (both & (one.failed | other.failed), both & ~(one.skipped | other.skipped), one.skipped | other.skipped):
        found = set(case_of_block[why].tolist()) - counted
        counted |= found
        left_out.append(len(found))
    failed, unscored, skipped = left_out
    not_run = max(0, planned - len(cases) - failed - unscored - skipped)
    return Comparison(
        table.variants[index],
        table.variants[base],
        _clipped(verdict(differences, len(cases) + not_run or 1, groups=groups, comparisons=len(table.variants) - 1)),
        len(cases),
        planned,
        failed,
        unscored,
        skipped,
        not_run,
        len(cases) * table.repeats,
        len(cases) * table.repeats - int(paired.sum()),
        _needed(differences, groups),
        tuple(
            CaseDifference(table.name(int(cases[at])), float(baseline_means[at]), float(variant_means[at]))
            for at in order
            if differences[at]
        ),
    )


def _clipped(result: Verdict) -> Verdict:
    """Scores lie in [0, 1], so no difference is larger than 1, whatever the formula says."""
    interval = result.interval
    if interval is None:
        return result
    inside = replace(interval, low=max(-1.0, interval.low), high=min(1.0, interval.high))
    return replace(result, interval=inside)


def _needed(differences: Floats, groups: Sequence[str] | None) -> int | None:
    """Cases to detect ten points, if their groups are as large as here."""
    if len(differences) < 2 or not differences.any() or (groups is not None and len(set(groups)) < 2):
        return None
    return cases_needed(_spread(differences, groups), 0.1)


def _spread(values: Floats, groups: Sequence[str] | None) -> float:
    """By how much single cases differ, as far as it tells how sure their mean is: cases of a group say less."""
    if groups is None:
        return float(values.std(ddof=1))
    numbers: dict[str, int] = {}
    index = [numbers.setdefault(group, len(numbers)) for group in groups]
    sums = np.bincount(index, weights=values - values.mean())
    return math.sqrt(len(sums) / (len(sums) - 1) * float((sums**2).sum()) / len(values))
