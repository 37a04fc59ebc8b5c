"""Compute the measures of a run from its stored rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import numpy as np

from abreast.analyse.rows import Bools, Floats, Ints, by_case, mean_of_known, median_of_known
from abreast.analyse.run import Analysis, Comparison, compared
from abreast.analyse.variants import mean_score
from abreast.report.words.verdict_sentence import trusted
from abreast.stats import Interval, latency_ratio, paired_t
from abreast.stats.numerics.arrays import ROUNDING
from abreast.suites.trial_table import TrialTable

F1, PRECISION, RECALL = "retrieval_f1", "retrieval_precision", "retrieval_recall"
COST_PER_CORRECT = "cost_per_correct_usd"
TITLES = {F1: "F1", PRECISION: "precision", RECALL: "recall"}

Kind = Literal["score", "share", "tokens", "dollars", "seconds", "count"]


class Improvement(NamedTuple):
    """The improvement over the baseline: a difference of shares, or the saved part of an amount."""

    estimate: float
    low: float | None  # None without a reliable interval
    high: float | None
    cases: int
    level: float = 0.95


class MeasureRow(NamedTuple):
    """A measure of all variants, in the order of the run. Unknown values are None."""

    name: str
    title: str
    kind: Kind
    values: tuple[float | None, ...]
    improvements: tuple[Improvement | None, ...]  # over the baseline; None for the baseline
    intervals: tuple[Interval | None, ...] = ()  # intervals of shares
    cases: int | None = None  # number of cases that an amount is averaged over, if equal for all variants


class ComparisonTable(TrialTable):
    """The trials as columns, and the cases that allow comparisons."""

    def __init__(self, analysis: Analysis) -> None:
        super().__init__(analysis)
        rows = self.rows
        self.base = self.names.index(self.baseline)
        cached = [rows.tokens[name] for name in ("cache_read", "cache_write")]
        self.reports_cache = any(bool((rows.ok & ~np.isnan(counts)).any()) for counts in cached)
        self.prompt, self.times = self.prompt_tokens, self.service_times
        self.tokens: Floats = self.prompt + rows.tokens["output"]
        self.counted: Bools = np.zeros(rows.planned_cases, dtype=bool)
        self.counted[rows.counted] = True
        answered = [self.has_case(self.of(index) & rows.ok) & self.counted for index in self.variants]
        self.active = [index for index in self.variants if answered[index].any()]
        # Cases with a failed repeat are excluded: it may be the one that would have cost most.
        failed = [self.has_case(self.of(index) & rows.own_failure) for index in self.variants]
        self.always = [answered[index] & ~failed[index] for index in self.variants]
        self.common: Bools = np.logical_and.reduce([self.counted, *(self.always[index] for index in self.active)])
        # The number of cases that all active variants always answered; None for fewer than two active variants.
        self.answered_by_all = int(self.common.sum()) if len(self.active) > 1 else None
        # Variants without any answer.
        self.silent = [name for index, name in enumerate(self.names) if index not in self.active]

    def by_case(self, variant: int, values: Floats) -> Floats:
        """Return the mean of each planned case over its answers; NaN without any."""
        return by_case(self.rows, self.of(variant) & self.rows.ok, values)

    def shared(self, values: Floats) -> tuple[list[Floats], Bools | None]:
        """Return the values by variant and case, and the common cases of all variants that have values, or None."""
        by_variant = [self.by_case(index, values) for index in self.variants]
        reporting = [~np.isnan(own) for own in by_variant if not np.isnan(own[self.counted]).all()]
        return by_variant, np.logical_and.reduce([self.common, *reporting]) if self.common.any() else None

    def cached_shares(self) -> tuple[float | None, ...]:
        """Return the share of the prompt that was read from the cache, by variant."""
        read = self.rows.tokens["cache_read"]
        unknown = np.isnan(self.prompt + read)
        by_variant, cases = self.shared(np.where(unknown, np.nan, read))
        shares: list[float | None] = []
        for index, own in enumerate(by_variant):
            prompt = self.by_case(index, np.where(unknown, np.nan, self.prompt))
            usable = ~np.isnan(own) & ~np.isnan(prompt) & (True if cases is None else cases)
            total = float(prompt[usable].sum())
            shares.append(float(own[usable].sum()) / total if total else None)
        return tuple(shares)


def measures_of(table: ComparisonTable) -> list[MeasureRow]:
    tokens = table.rows.tokens
    measures = [*_scores(table), _success_rate(table)]
    if table.reports_cache:
        measures.append(_amount(table, "prompt_tokens", "prompt tokens", "tokens", table.prompt, _saving))
    measures.append(_amount(table, "input_tokens", "input tokens", "tokens", tokens["input"], _saving))
    if table.reports_cache:  # more is neither better nor worse
        measures += [
            _amount(table, f"{name}_tokens", f"{name.replace('_', ' ')} tokens", "tokens", tokens[name])
            for name in ("cache_read", "cache_write")
        ]
        nothing = (None,) * len(table.names)
        measures.append(MeasureRow("cache_share", "prompt read from cache", "share", table.cached_shares(), nothing))
    measures += [
        _amount(table, "output_tokens", "output tokens", "tokens", tokens["output"], _saving),
        _amount(table, "cost_usd", "cost per trial", "dollars", table.rows.cost_usd, _saving),
        _cost_per_correct(table),
        _amount(table, "latency_median_s", "latency, median", "seconds", table.times, _speedup, median_of_known),
        _amount(table, "latency_mean_s", "latency, mean", "seconds", table.times, _saving),
        _amount(table, "turns", "turns", "count", table.number("turns"), _saving),
        _amount(table, "tool_calls", "tool calls", "count", table.number("tool_calls"), _saving),
    ]
    return [row for row in measures if any(value is not None for value in (*row.values, *row.improvements))]


def _scores(table: ComparisonTable) -> Iterator[MeasureRow]:
    """Yield the primary score and those of the suite, with the differences of the verdicts."""
    analysis, primary = table.analysis, table.rows.primary
    for name in dict.fromkeys(filter(None, (primary, F1, PRECISION, RECALL))):
        means = [None if summary.all_failed else summary.scores.get(name) for summary in analysis.variants]
        comparisons = [item for item in (*analysis.comparisons, *analysis.further) if item.metric == name]
        title = TITLES.get(name, name)
        title = f"accuracy ({title})" if name == primary else title
        yield _mean_measure(table, (name, title, "score"), means, comparisons)


def _success_rate(table: ComparisonTable) -> MeasureRow:
    """Return the share of trials with an answer, without failures of infrastructure."""
    rows = table.rows
    values: Floats = np.where(rows.ok, 1.0, np.where(rows.own_failure, 0.0, np.nan))
    means = [mean_score(rows, table.of(index), values) for index in table.variants]
    questions = [(table.base, index) for index in table.variants if index != table.base]
    comparisons = compared(rows, "success_rate", values, questions, 0.0)
    return _mean_measure(table, ("success_rate", "success rate", "share"), means, comparisons)


def _mean_measure(
    table: ComparisonTable,
    about: tuple[str, str, Kind],
    means: list[Interval | None],
    comparisons: Iterable[Comparison],
) -> MeasureRow:
    """Return means with intervals and the differences of the verdicts. `about`: name, title and kind."""
    improvements: dict[str, Improvement] = {}
    for item in comparisons:
        interval, reliable = item.verdict.interval, trusted(item.verdict)
        if item.baseline == table.baseline and interval is not None and item.cases:
            low, high, level = (
                (reliable.low, reliable.high, reliable.level) if reliable else (None, None, interval.level)
            )
            improvements[item.variant] = Improvement(interval.estimate, low, high, item.cases, level)
    values = tuple(None if mean is None else mean.estimate for mean in means)
    return MeasureRow(*about, values, tuple(map(improvements.get, table.names)), tuple(means))


def _amount(
    table: ComparisonTable,
    name: str,
    title: str,
    kind: Kind,
    values: Floats,
    better: Callable[[ComparisonTable, Floats, Floats, Ints], Improvement | None] | None = None,
    middle: Callable[[Floats], float | None] = mean_of_known,
) -> MeasureRow:
    """Return an amount per answer over common cases, else over each variant's own; improvements over pairs."""
    by_variant, cases = table.shared(values)
    base = by_variant[table.base]
    improvements: list[Improvement | None] = []
    for index, own in enumerate(by_variant):
        both = table.always[index] & table.always[table.base] & ~np.isnan(own) & ~np.isnan(base)
        is_compared = better is not None and index != table.base
        improvements.append(better(table, own, base, np.flatnonzero(both)) if better and is_compared else None)
    middles = tuple(middle(own if cases is None else own[cases]) for own in by_variant)
    return MeasureRow(
        name, title, kind, middles, tuple(improvements), cases=None if cases is None else int(cases.sum())
    )


def mean_amounts(table: ComparisonTable, values: Floats) -> tuple[float | None, ...]:
    """Return the mean of an amount by variant, over the same cases as all amounts."""
    return _amount(table, "", "", "count", values).values


def _cost_per_correct(table: ComparisonTable) -> MeasureRow:
    judged = [table.has_case(table.of(index) & ~np.isnan(table.rows.score)) for index in table.variants]
    improvements: dict[str, Improvement | None] = {}
    for item in table.analysis.comparisons:
        cost = item.pairs.cost
        if item.baseline == table.baseline and cost is not None and cost.ratio is not None:
            both = table.counted & judged[table.base] & judged[table.names.index(item.variant)]
            improvements[item.variant] = _as_saved(cost.ratio, int(both.sum()))
    values, by_variant = table.costs_per_correct(), tuple(map(improvements.get, table.names))
    return MeasureRow(COST_PER_CORRECT, "cost per correct answer", "dollars", values, by_variant)


def _saving(table: ComparisonTable, own: Floats, base: Floats, cases: Ints) -> Improvement | None:
    """Return the saved part of the sum over these cases, with an interval by the delta method."""
    own, base = own[cases], base[cases]
    if not len(cases) or not base.sum():
        return None
    ratio = float(own.sum() / base.sum())
    groups = table.rows.groups(cases)
    if len(cases if groups is None else set(groups)) >= 2:
        error = paired_t((own - ratio * base) / base.mean(), groups=groups)
        if error.high - error.low >= ROUNDING:  # identical differences do not make it certain
            return Improvement(1 - ratio, 1 - ratio - error.high, min(1.0, 1 - ratio - error.low), len(cases))
    return Improvement(1 - ratio, None, None, len(cases))


def _speedup(table: ComparisonTable, own: Floats, base: Floats, cases: Ints) -> Improvement | None:
    if not len(cases):
        return None
    return _as_saved(latency_ratio(base[cases], own[cases], groups=table.rows.groups(cases)), len(cases))


def _as_saved(ratio: Interval, cases: int) -> Improvement | None:
    if not math.isfinite(ratio.estimate):
        return None
    if not math.isfinite(ratio.high):
        return Improvement(1 - ratio.estimate, None, None, cases)
    return Improvement(1 - ratio.estimate, 1 - ratio.high, 1 - ratio.low, cases)
