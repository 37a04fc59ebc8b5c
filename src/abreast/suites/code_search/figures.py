"""The measures of a run, from its stored rows and nothing else."""

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
    """How much better than the baseline: a difference of shares, or the part of an amount that is saved."""

    estimate: float
    low: float | None  # None where no interval can be trusted
    high: float | None
    cases: int
    level: float = 0.95


class MeasureRow(NamedTuple):
    """One measure of all variants, in the order of the run. What is not known is None, never 0."""

    name: str
    title: str
    kind: Kind
    values: tuple[float | None, ...]
    improvements: tuple[Improvement | None, ...]  # against the baseline; None for itself
    intervals: tuple[Interval | None, ...] = ()  # of shares
    cases: int | None = None  # that the values of an amount are means over, if the same for all


class ComparisonTable(TrialTable):
    """The trials as columns, and the cases on which variants can be compared."""

    def __init__(self, analysis: Analysis) -> None:
        super().__init__(analysis)
        rows = self.rows
        self.base = self.names.index(self.baseline)
        cached = [rows.tokens[name] for name in ("cache_read", "cache_write")]
        self.reports_cache = any(bool((rows.ok & ~np.isnan(known)).any()) for known in cached)
        self.prompt, self.times = self.prompt_tokens, self.service_times
        self.tokens: Floats = self.prompt + rows.tokens["output"]
        self.counted: Bools = np.zeros(rows.planned_cases, dtype=bool)
        self.counted[rows.counted] = True
        answered = [self.has_case(self.of(index) & rows.ok) & self.counted for index in self.variants]
        self.active = [index for index in self.variants if answered[index].any()]
        # A repeat that failed may be the one that would have taken most: then the others say too little about the case.
        failed = [self.has_case(self.of(index) & rows.own_failure) for index in self.variants]
        self.always = [answered[index] & ~failed[index] for index in self.variants]
        self.common: Bools = np.logical_and.reduce([self.counted, *(self.always[index] for index in self.active)])
        # Cases that no variant left out or failed; None if fewer than two answered any.
        self.answered_by_all = int(self.common.sum()) if len(self.active) > 1 else None
        # Variants that answered no case, and are not among these all.
        self.silent = [name for index, name in enumerate(self.names) if index not in self.active]

    def by_case(self, variant: int, values: Floats) -> Floats:
        """The mean of each planned case over the repeats that gave an answer; nan where there is none."""
        return by_case(self.rows, self.of(variant) & self.rows.ok, values)

    def shared(self, values: Floats) -> tuple[list[Floats], Bools | None]:
        """The values by variant and case, and the cases that all have which have any; None if no case is common."""
        each = [self.by_case(index, values) for index in self.variants]
        reporting = [~np.isnan(own) for own in each if not np.isnan(own[self.counted]).all()]
        return each, np.logical_and.reduce([self.common, *reporting]) if self.common.any() else None

    def cached_shares(self) -> tuple[float | None, ...]:
        """The share of the prompt that came from the cache, by variant."""
        read = self.rows.tokens["cache_read"]
        unknown = np.isnan(self.prompt + read)
        each, cases = self.shared(np.where(unknown, np.nan, read))
        shares: list[float | None] = []
        for index, own in enumerate(each):
            prompt = self.by_case(index, np.where(unknown, np.nan, self.prompt))
            usable = ~np.isnan(own) & ~np.isnan(prompt) & (True if cases is None else cases)
            total = float(prompt[usable].sum())
            shares.append(float(own[usable].sum()) / total if total else None)
        return tuple(shares)


def measures_of(table: ComparisonTable) -> list[MeasureRow]:
    tokens = table.rows.tokens
    found = [*_scores(table), _success_rate(table)]
    if table.reports_cache:
        found.append(_amount(table, "prompt_tokens", "prompt tokens", "tokens", table.prompt, _saving))
    found.append(_amount(table, "input_tokens", "input tokens", "tokens", tokens["input"], _saving))
    if table.reports_cache:  # what of a prompt comes from the cache is neither better nor worse in itself
        found += [
            _amount(table, f"{name}_tokens", f"{name.replace('_', ' ')} tokens", "tokens", tokens[name])
            for name in ("cache_read", "cache_write")
        ]
        nothing = (None,) * len(table.names)
        found.append(MeasureRow("cache_share", "prompt read from cache", "share", table.cached_shares(), nothing))
    found += [
        _amount(table, "output_tokens", "output tokens", "tokens", tokens["output"], _saving),
        _amount(table, "cost_usd", "cost per trial", "dollars", table.rows.cost_usd, _saving),
        _cost_per_correct(table),
        _amount(table, "latency_median_s", "latency, median", "seconds", table.times, _speedup, median_of_known),
        _amount(table, "latency_mean_s", "latency, mean", "seconds", table.times, _saving),
        _amount(table, "turns", "turns", "count", table.number("turns"), _saving),
        _amount(table, "tool_calls", "tool calls", "count", table.number("tool_calls"), _saving),
    ]
    return [each for each in found if any(value is not None for value in (*each.values, *each.improvements))]


def _scores(table: ComparisonTable) -> Iterator[MeasureRow]:
    """The primary score and those of the suite, with the changes that verdicts are on."""
    analysis, primary = table.analysis, table.rows.primary
    for name in dict.fromkeys(filter(None, (primary, F1, PRECISION, RECALL))):
        means = [None if summary.all_failed else summary.scores.get(name) for summary in analysis.variants]
        comparisons = [each for each in (*analysis.comparisons, *analysis.further) if each.metric == name]
        title = TITLES.get(name, name)
        title = f"accuracy ({title})" if name == primary else title
        yield _mean_measure(table, (name, title, "score"), means, comparisons)


def _success_rate(table: ComparisonTable) -> MeasureRow:
    """The share of trials that gave an answer, of those that infrastructure did not spoil."""
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
    """Means with their intervals; changes are the differences that verdicts are on. `about`: name, title and kind."""
    improvements: dict[str, Improvement] = {}
    for item in comparisons:
        interval, sure = item.verdict.interval, trusted(item.verdict)
        if item.baseline == table.baseline and interval is not None and item.cases:
            low, high, level = (sure.low, sure.high, sure.level) if sure else (None, None, interval.level)
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
    """What an answer takes, over the cases that all always answered, else over its own; changes are over both's."""
    each, cases = table.shared(values)
    base = each[table.base]
    improvements: list[Improvement | None] = []
    for index, own in enumerate(each):
        both = table.always[index] & table.always[table.base] & ~np.isnan(own) & ~np.isnan(base)
        is_compared = better is not None and index != table.base
        improvements.append(better(table, own, base, np.flatnonzero(both)) if better and is_compared else None)
    middles = tuple(middle(own if cases is None else own[cases]) for own in each)
    return MeasureRow(
        name, title, kind, middles, tuple(improvements), cases=None if cases is None else int(cases.sum())
    )


def mean_amounts(table: ComparisonTable, values: Floats) -> tuple[float | None, ...]:
    """The mean of an amount by variant, over the same cases as every amount."""
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
    """How much less the sum over these cases is, with an interval by how far the cases are from that ratio."""
    here, there = own[cases], base[cases]
    if not len(cases) or not there.sum():
        return None
    ratio = float(here.sum() / there.sum())
    groups = table.rows.groups(cases)
    if len(cases if groups is None else set(groups)) >= 2:
        around = paired_t((here - ratio * there) / there.mean(), groups=groups)  # the delta method
        if around.high - around.low >= ROUNDING:  # if all are alike, that is not certainty
            return Improvement(1 - ratio, 1 - ratio - around.high, min(1.0, 1 - ratio - around.low), len(cases))
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
