"""The figures of a run, from its stored rows and nothing else."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from abreast.analyse.answer_fields import number, numbers, told_by
from abreast.analyse.rows import Bools, Floats, Ints, by_case, mean_of_known, median_of_known
from abreast.analyse.run import Analysis, Comparison, compared
from abreast.analyse.variants import failures_by_case, mean_score
from abreast.report.words.verdict_sentence import trusted
from abreast.stats import Interval, latency_ratio, paired_t
from abreast.stats.numerics.arrays import ROUNDING

F1, PRECISION, RECALL = "retrieval_f1", "retrieval_precision", "retrieval_recall"
COST_PER_CORRECT = "cost_per_correct_usd"
CATEGORIES = ("search", "navigate", "understand")
LEVELS = ("easy", "medium", "hard")
_TITLES = {F1: "F1", PRECISION: "precision", RECALL: "recall"}

Kind = Literal["score", "share", "tokens", "dollars", "seconds", "count"]


class Change(NamedTuple):
    """How much better than the baseline: a difference of shares, or the part of an amount that is saved."""

    estimate: float
    low: float | None  # None where no interval can be trusted
    high: float | None
    cases: int
    level: float = 0.95


class Measure(NamedTuple):
    """One measure of all variants, in the order of the run. What is not known is None, never 0."""

    name: str
    title: str
    kind: Kind
    values: tuple[float | None, ...]
    changes: tuple[Change | None, ...]  # against the baseline; None for itself
    intervals: tuple[Interval | None, ...] = ()  # of shares
    cases: int | None = None  # of an amount: over how many the values are, if the same for all


class Failed(NamedTuple):
    trials: int
    tokens: float | None
    cost_usd: float | None
    untold: int  # trials that say neither


class CaseRow(NamedTuple):
    """One case: what each variant made of it, and who won against the baseline."""

    id: str
    category: str
    difficulty: str
    winners: tuple[str | None, ...]  # of each comparison: a variant, "tie", or None where it cannot be compared
    scores: tuple[float | None, ...]  # means over repeats
    failed: tuple[Mapping[tuple[str, str], int], ...]  # by kind and blame
    tokens: tuple[float | None, ...]  # of answers
    seconds: tuple[float | None, ...]


class ToolUse(NamedTuple):
    """How often a tool was called by each variant: on average of an answer, and how many calls were denied in all."""

    tool: str
    calls: tuple[float | None, ...]
    denied: tuple[int, ...]


class Tagged(NamedTuple):
    """The mean score of each variant on the cases with one value of a tag, and how many these are."""

    value: str
    cases: int
    scores: tuple[Interval | None, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    names: tuple[str, ...]
    baseline: str
    score: str  # how the score is called by which cases are won
    measures: tuple[Measure, ...]
    answered_by_all: int | None  # cases that no variant left out or failed; None if fewer than two answered any
    silent: tuple[str, ...]  # variants that answered no case, and are none of these all
    repeats: int
    cached: tuple[float | None, ...]  # the share of the prompt that came from the cache
    failed: tuple[Failed, ...]
    infrastructure: tuple[int, ...]  # trials that it failed
    skipped: tuple[int, ...]
    comparisons: tuple[Comparison, ...]  # against the baseline
    cases: tuple[CaseRow, ...]
    not_begun: int  # cases without a row
    by_tag: Mapping[str, tuple[Tagged, ...]]
    tools: tuple[ToolUse, ...]


def figures(analysis: Analysis) -> Figures:
    table = _Table(analysis)
    rows, every = table.rows, range(len(table.names))
    infrastructure = rows.error & ~rows.own_failure
    against = tuple(one for one in analysis.comparisons if one.baseline == table.baseline)
    return Figures(
        names=tuple(table.names),
        baseline=table.baseline,
        score=_TITLES.get(rows.primary or "", rows.primary or ""),
        measures=tuple(_measures(table, analysis)),
        answered_by_all=int(table.common.sum()) if len(table.active) > 1 else None,
        silent=tuple(name for index, name in enumerate(table.names) if index not in table.active),
        repeats=rows.repeats,
        cached=table.cached(),
        failed=tuple(_failed(table, index) for index in every),
        infrastructure=tuple(int((table.of(index) & infrastructure).sum()) for index in every),
        skipped=tuple(int((table.of(index) & rows.skipped).sum()) for index in every),
        comparisons=against,
        cases=tuple(_cases(table, against)),
        not_begun=rows.planned_cases - len(rows.cases),
        by_tag={tag: _by_tag(table, tag, order) for tag, order in (("category", CATEGORIES), ("difficulty", LEVELS))},
        tools=tuple(_tools(table)),
    )


class _Table:
    """The trials as columns, with what their answers say of themselves."""

    def __init__(self, analysis: Analysis) -> None:
        rows = analysis.rows
        self.rows, self.names = rows, rows.variants
        self.baseline: str = analysis.run["baseline"]
        self.base = self.names.index(self.baseline)
        self.told = told_by(rows)
        cached = [rows.tokens[name] for name in ("cache_read", "cache_write")]
        self.tells_cache = any(bool((rows.ok & ~np.isnan(known)).any()) for known in cached)
        self.prompt: Floats = rows.tokens["input"] + np.nansum(cached, axis=0)  # who tells no cache has none
        self.tokens: Floats = self.prompt + rows.tokens["output"]
        self.timed: Floats = np.where(~rows.reused & (rows.service_s > 0), rows.service_s, np.nan)
        self.counted: Bools = np.zeros(rows.planned_cases, dtype=bool)
        self.counted[rows.counted] = True
        every = range(len(self.names))
        answered = [self.has(self.of(index) & rows.ok) & self.counted for index in every]
        self.active = [index for index in every if answered[index].any()]
        # A repeat that failed may be the one that would have taken most: then the others tell too little of the case.
        self.always = [answered[index] & ~self.has(self.of(index) & rows.own_failure) for index in every]
        self.common: Bools = np.logical_and.reduce([self.counted, *(self.always[index] for index in self.active)])

    def of(self, variant: int) -> Bools:
        found: Bools = self.rows.variant == variant
        return found

    def has(self, which: Bools) -> Bools:
        found: Bools = np.bincount(self.rows.case[which], minlength=self.rows.planned_cases) > 0
        return found

    def number(self, name: str) -> Floats:
        return numbers(self.told, name)

    def by_case(self, variant: int, values: Floats) -> Floats:
        """The mean of each planned case over the repeats that gave an answer; nan where there is none."""
        return by_case(self.rows, self.of(variant) & self.rows.ok, values)

    def shared(self, values: Floats) -> tuple[list[Floats], Bools | None]:
        """The values by variant and case, and the cases that all have which have any; None if no case is common."""
        each = [self.by_case(index, values) for index in range(len(self.names))]
        tellers = [~np.isnan(own) for own in each if not np.isnan(own[self.counted]).all()]
        return each, np.logical_and.reduce([self.common, *tellers]) if self.common.any() else None

    def both(self, variant: int, own: Floats, base: Floats) -> Ints:
        return np.flatnonzero(self.always[variant] & self.always[self.base] & ~np.isnan(own) & ~np.isnan(base))

    def cached(self) -> tuple[float | None, ...]:
        read, unknown = self.rows.tokens["cache_read"], np.isnan(self.prompt + self.rows.tokens["cache_read"])
        each, cases = self.shared(np.where(unknown, np.nan, read))
        whole = np.where(unknown, np.nan, self.prompt)
        return tuple(_part(own, self.by_case(index, whole), cases) for index, own in enumerate(each))


def _part(one: Floats, whole: Floats, cases: Bools | None) -> float | None:
    known = ~np.isnan(one) & ~np.isnan(whole)
    usable = known if cases is None else known & cases
    total = float(whole[usable].sum())
    return float(one[usable].sum()) / total if total else None


# -- the arms side by side --------------------------------------------------------------------------------------------


def _measures(table: _Table, analysis: Analysis) -> Iterator[Measure]:
    rows, tokens = table.rows, table.rows.tokens
    nothing: tuple[None, ...] = (None,) * len(table.names)
    found = [*_scores(table, analysis), _answered(table)]
    if table.tells_cache:
        found.append(_amount(table, "prompt_tokens", "prompt tokens", "tokens", table.prompt, _saved))
    found.append(_amount(table, "input_tokens", "input tokens", "tokens", tokens["input"], _saved))
    if table.tells_cache:  # what of a prompt comes from the cache is neither better nor worse in itself
        found += [
            _amount(table, f"{name}_tokens", f"{name.replace('_', ' ')} tokens", "tokens", tokens[name])
            for name in ("cache_read", "cache_write")
        ]
        found.append(Measure("cache_share", "prompt read from cache", "share", table.cached(), nothing))
    found += [
        _amount(table, "output_tokens", "output tokens", "tokens", tokens["output"], _saved),
        _amount(table, "cost_usd", "cost per trial", "dollars", rows.cost_usd, _saved),
        _cost_per_correct(table, analysis),
        _amount(table, "latency_median_s", "latency, median", "seconds", table.timed, _faster, median_of_known),
        _amount(table, "latency_mean_s", "latency, mean", "seconds", table.timed, _saved),
        _amount(table, "turns", "turns", "count", table.number("turns"), _saved),
        _amount(table, "tool_calls", "tool calls", "count", table.number("tool_calls"), _saved),
    ]
    yield from (each for each in found if any(told is not None for told in (*each.values, *each.changes)))


def _scores(table: _Table, analysis: Analysis) -> Iterator[Measure]:
    """The primary score and those of the suite, as the report has them everywhere; changes are those of verdicts."""
    rows = table.rows
    for name in dict.fromkeys(filter(None, (rows.primary, F1, PRECISION, RECALL))):
        means = tuple(None if one.all_failed else one.scores.get(name) for one in analysis.variants)
        items = [one for one in (*analysis.comparisons, *analysis.further) if one.metric == name]
        title = _TITLES.get(name, name)
        title = f"accuracy ({title})" if name == rows.primary else title
        yield _mean_measure(table, name, title, "score", means=means, items=items)


def _answered(table: _Table) -> Measure:
    """The share of trials that gave an answer, of those that infrastructure did not spoil."""
    rows = table.rows
    values: Floats = np.where(rows.ok, 1.0, np.where(rows.own_failure, 0.0, np.nan))
    every = range(len(table.names))
    means = tuple(mean_score(rows, table.of(index), values) for index in every)
    questions = [(table.base, index) for index in every if index != table.base]
    items = compared(rows, "success_rate", values, questions, 0.0)
    return _mean_measure(table, "success_rate", "success rate", "share", means=means, items=items)


def _mean_measure(
    table: _Table,
    name: str,
    title: str,
    kind: Kind,
    *,
    means: tuple[Interval | None, ...],
    items: Iterable[Comparison],
) -> Measure:
    """Means with their intervals; changes are the differences that verdicts speak of, each for its variant."""
    values = tuple(None if mean is None else mean.estimate for mean in means)
    by = {item.variant: item for item in items if item.baseline == table.baseline}
    changes = tuple(_change(by[name]) if name in by else None for name in table.names)
    return Measure(name, title, kind, values, changes, intervals=means)


def _change(item: Comparison) -> Change | None:
    interval, sure = item.verdict.interval, trusted(item.verdict)
    if interval is None or not item.cases:
        return None
    low, high, level = (sure.low, sure.high, sure.level) if sure else (None, None, interval.level)
    return Change(interval.estimate, low, high, item.cases, level)


def _amount(
    table: _Table,
    name: str,
    title: str,
    kind: Kind,
    values: Floats,
    better: Callable[[_Table, Floats, Floats, Ints], Change | None] | None = None,
    middle: Callable[[Floats], float | None] | None = None,
) -> Measure:
    """What an answer takes, over the cases that all always answered, else over its own; changes are over both's."""
    each, cases = table.shared(values)
    told = tuple((middle or mean_of_known)(own if cases is None else own[cases]) for own in each)
    base = each[table.base]
    changes = tuple(
        better(table, own, base, table.both(index, own, base)) if better and index != table.base else None
        for index, own in enumerate(each)
    )
    return Measure(name, title, kind, told, changes, cases=None if cases is None else int(cases.sum()))


def _cost_per_correct(table: _Table, analysis: Analysis) -> Measure:
    prices = [one.cost_per_correct for one in analysis.variants]
    values = tuple(None if price is None or math.isnan(price.estimate) else price.estimate for price in prices)
    judged = [table.has(table.of(index) & ~np.isnan(table.rows.score)) for index in range(len(table.names))]
    changes: dict[str, Change | None] = {}
    for item in analysis.comparisons:
        cost = item.pairs.cost
        if item.baseline == table.baseline and cost is not None and cost.ratio is not None:
            both = table.counted & judged[table.base] & judged[table.names.index(item.variant)]
            changes[item.variant] = _as_saved(cost.ratio, int(both.sum()))
    told = tuple(changes.get(name) for name in table.names)
    return Measure(COST_PER_CORRECT, "cost per correct answer", "dollars", values, told)


def _saved(table: _Table, own: Floats, base: Floats, cases: Ints) -> Change | None:
    """How much less the sum over these cases is, with an interval by how far the cases are from that ratio."""
    here, there = own[cases], base[cases]
    if not len(cases) or not there.sum():
        return None
    ratio = float(here.sum() / there.sum())
    groups = table.rows.groups(cases)
    if len(cases if groups is None else set(groups)) < 2:
        return Change(1 - ratio, None, None, len(cases))
    around = paired_t((here - ratio * there) / there.mean(), groups=groups)  # the delta method
    if around.high - around.low < ROUNDING:  # all alike: that is not certainty
        return Change(1 - ratio, None, None, len(cases))
    return Change(1 - ratio, 1 - ratio - around.high, min(1.0, 1 - ratio - around.low), len(cases))


def _faster(table: _Table, own: Floats, base: Floats, cases: Ints) -> Change | None:
    if not len(cases):
        return None
    return _as_saved(latency_ratio(base[cases], own[cases], groups=table.rows.groups(cases)), len(cases))


def _as_saved(ratio: Interval, cases: int) -> Change | None:
    if not math.isfinite(ratio.estimate):
        return None
    if not math.isfinite(ratio.high):
        return Change(1 - ratio.estimate, None, None, cases)
    return Change(1 - ratio.estimate, 1 - ratio.high, 1 - ratio.low, cases)


def _failed(table: _Table, index: int) -> Failed:
    mine = table.of(index) & table.rows.error
    tokens, cost = table.tokens[mine], table.rows.cost_usd[mine]
    untold = int((np.isnan(tokens) & np.isnan(cost)).sum())
    return Failed(int(mine.sum()), _total(tokens), _total(cost), untold)


def _total(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.sum()) if len(known) else None


# -- the cases --------------------------------------------------------------------------------------------------------


def _cases(table: _Table, comparisons: Sequence[Comparison]) -> Iterator[CaseRow]:
    rows, every = table.rows, range(len(table.names))
    winners = [_winners(item) for item in comparisons]
    scores = [by_case(rows, table.of(index), rows.score).tolist() for index in every]
    tokens = [table.by_case(index, table.tokens).tolist() for index in every]
    seconds = [table.by_case(index, table.timed).tolist() for index in every]
    failures = failures_by_case(rows)
    for case, facts in sorted(rows.cases.items()):
        yield CaseRow(
            id=facts.id,
            category=str(facts.tags.get("category", "")),
            difficulty=str(facts.tags.get("difficulty", "")),
            winners=tuple(found.get(case) for found in winners),
            scores=_at(scores, case),
            failed=tuple(failures.get((case, index), {}) for index in every),
            tokens=_at(tokens, case),
            seconds=_at(seconds, case),
        )


def _winners(item: Comparison) -> dict[int, str]:
    names = {1: item.variant, -1: item.baseline, 0: "tie"}
    signs = np.sign(item.pairs.differences).astype(int).tolist()
    return {case: names[sign] for case, sign in zip(item.pairs.cases.tolist(), signs, strict=True)}


def _at(columns: Sequence[Sequence[float]], case: int) -> tuple[float | None, ...]:
    return tuple(None if math.isnan(column[case]) else column[case] for column in columns)


def _by_tag(table: _Table, tag: str, order: Sequence[str]) -> tuple[Tagged, ...]:
    """Those values that there are, the usual ones first. A single value says no more than the whole."""
    rows = table.rows
    by_case = {case: str(facts.tags[tag]) for case, facts in rows.cases.items() if tag in facts.tags}
    there = dict.fromkeys(value for _, value in sorted(by_case.items()))
    values = [*(value for value in order if value in there), *(value for value in there if value not in order)]
    if len(values) < 2 or rows.primary is None:
        return ()
    own = np.array([by_case.get(case) for case in rows.case.tolist()], dtype=object)
    return tuple(
        Tagged(
            value,
            sum(one == value for one in by_case.values()),
            tuple(
                mean_score(rows, table.of(index) & (own == value), rows.score)
                if (table.of(index) & rows.ok).any()
                else None
                for index in range(len(table.names))
            ),
        )
        for value in values
    )


# -- the tools --------------------------------------------------------------------------------------------------------


def _tools(table: _Table) -> list[ToolUse]:
    used = [_used(told) for told in table.told]
    denied: list[Counter[str]] = [Counter() for _ in table.names]
    for index, told in zip(table.rows.variant.tolist(), table.told, strict=True):
        denied[index].update(_calls(told.get("tools_denied")))
    found = []
    for tool in sorted({tool for one in (*filter(None, used), *denied) for tool in one}):
        counts = np.array([math.nan if told is None else told.get(tool, 0) for told in used], dtype=float)
        calls = _amount(table, "", tool, "count", counts).values
        found.append(ToolUse(tool, calls, tuple(of_variant[tool] for of_variant in denied)))
    used_at_all = (each for each in found if any(each.calls) or any(each.denied))
    return sorted(used_at_all, key=lambda each: -sum(filter(None, each.calls)))


def _used(told: Mapping[str, Any]) -> dict[str, int] | None:
    """The calls of one trial by tool; None if it does not tell."""
    if isinstance(told.get("tools"), Mapping):
        return _calls(told["tools"])
    return {} if told.get("tool_calls") == 0 else None


def _calls(told: Any) -> dict[str, int]:
    """Calls by tool: a mapping, a list of names, or a number of unnamed ones."""
    if isinstance(told, Mapping):
        counts = {str(tool): number(count) for tool, count in told.items()}
        return {tool: int(count) for tool, count in counts.items() if count > 0}
    if isinstance(told, list):
        return dict(Counter(map(str, told)))
    unnamed = number(told)
    return {"(not named)": int(unnamed)} if unnamed > 0 else {}
