"""The verdict on a variant against the baseline: one word, and the interval behind it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from abreast.stats.intervals.final import GROUPS, INFORMATIVE, final_interval
from abreast.stats.intervals.fixed_cases import RepeatedScores, fixed_cases_interval
from abreast.stats.intervals.population import ALL_CASES, THESE_CASES, Population, units_needed
from abreast.stats.intervals.proportions import Estimate, Interval
from abreast.stats.intervals.sequence import Look, confidence_sequence
from abreast.stats.intervals.units import Weight, units_of
from abreast.stats.numerics.arrays import UNIT, Floats, Numbers, Scale, integer, unit_differences, unit_margin, width
from abreast.stats.power import POWER, cases_needed, deviates, spread
from abreast.stats.significance import holm

SEQUENCE_ALPHA = 0.02  # chance of error of all interim looks together
FINAL_ALPHA = 0.03  # chance of error of the final interval, at the planned number of cases
SEQUENTIAL_CASES = 60  # with fewer planned, the final interval gets both, and no run stops early
EFFECT = 0.1  # the effect for which needed cases are computed, without a margin
NO_CASE = "no case is compared"

Word = Literal["better", "worse", "equivalent", "not worse", "inconclusive", "no comparison"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One word and the interval behind it. The estimate has the sign of the word and lies in the interval."""

    word: Word
    interval: Interval | None  # None where nothing is compared; at level 1 it is the whole range
    wins: int
    losses: int
    ties: int
    reason: str = ""  # why there is no verdict, if not because of the width of the interval
    planned: int = 0  # cases
    p: float = 1.0  # p value of the final interval; before the end, of the sequence
    needed: int | None = None  # cases in all (on these cases: repeats) to detect `effect`, if they vary as before
    effect: float = EFFECT
    population: Population = ALL_CASES  # the cases that the word is about
    look: Look | None = None
    final: Estimate | None = None
    demoted: Word | None = None  # the verdict that lost pairs could change; `word` is inconclusive then

    @property
    def cases(self) -> int:
        return self.wins + self.losses + self.ties

    @property
    def still_needed(self) -> int | None:
        """Cases still needed to detect `effect`; 0 if there are enough, so that the difference is likely smaller."""
        if self.needed is None or self.population == THESE_CASES:
            return None
        return max(0, self.needed - self.cases)

    @property
    def settled(self) -> bool:
        """Whether a run may stop here."""
        return self.word in ("better", "worse", "equivalent")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ComparisonInput:
    """The data of one comparison. Values are shares of the scale's width; margin, effect and look are on the scale."""

    values: Floats
    groups: Sequence[Hashable] | None
    weight: Weight
    largest: int
    planned: int
    dropped: int
    margin: float
    effect: float | None
    seen: Look | None
    scale: Scale
    comparisons: int
    only_sequence: bool
    repeats: RepeatedScores | None  # the scores behind the differences, if the verdict is about these cases

    @property
    def population(self) -> Population:
        return ALL_CASES if self.repeats is None else THESE_CASES

    def alphas(self, comparisons: int) -> tuple[float, float]:
        """The chances of error of the sequence and of the final interval, divided by this many comparisons.

        There are no interim looks if repeats are the sample.
        """
        if self.repeats is None:
            return alphas(self.planned, comparisons, self.only_sequence)
        return 0.0, 0.0 if self.only_sequence else (SEQUENCE_ALPHA + FINAL_ALPHA) / comparisons

    @property
    def expected(self) -> int:
        """Number of differences at the end of the run."""
        return max(0, self.planned - self.dropped)

    @property
    def unit_margin(self) -> float:
        return unit_margin(self.margin, self.scale)

    @property
    def unit_effect(self) -> float:
        return (self.unit_margin or EFFECT) if self.effect is None else self.effect / width(self.scale)

    @property
    def estimate(self) -> float:
        return units_of(self.values, self.groups, self.weight).estimate


def alphas(planned: int, comparisons: int = 1, only_sequence: bool = False) -> tuple[float, float]:
    """The chances of error of the sequence and of the final interval, for each of this many comparisons.

    `only_sequence`: an earlier run with fewer cases has used up that of the final interval.

    >>> alphas(500), alphas(40), alphas(500, comparisons=2), alphas(500, only_sequence=True)
    ((0.02, 0.03), (0.0, 0.05), (0.01, 0.015), (0.02, 0.0))
    """
    planned, comparisons = integer(planned, "planned", least=1), integer(comparisons, "comparisons", least=1)
    if only_sequence:
        return SEQUENCE_ALPHA / comparisons, 0.0
    if planned < SEQUENTIAL_CASES:
        return 0.0, (SEQUENCE_ALPHA + FINAL_ALPHA) / comparisons
    return SEQUENCE_ALPHA / comparisons, FINAL_ALPHA / comparisons


def verdict(
    differences: Numbers,
    planned: int | None = None,
    margin: float = 0.0,
    groups: Sequence[Hashable] | None = None,
    *,
    weight: Weight = "case",
    largest: int = 1,
    comparisons: int = 1,
    effect: float | None = None,
    seen: Look | None = None,
    dropped: int = 0,
    only_sequence: bool = False,
    scale: Scale = UNIT,
    repeats: RepeatedScores | None = None,
) -> Verdict:
    """Decide whether B is better than A, worse, equivalent or not worse within the margin, or whether that is unclear.

    `differences` has one difference per case, B − A, averaged over repeats, in the order in which cases were started.
    `planned` is the number of cases decided on beforehand (by default all of these), of which `dropped` cannot be
    compared. `seen` is the last look of a `RunningSequence` that watched the run. `weight` is whether every case or
    every group weighs the same, `largest` the size of the largest group of the plan. With several variants against
    the same baseline, give the number of `comparisons`, or use `verdicts`. With `repeats`, the scores behind the
    differences, the verdict is about these cases alone.

    >>> verdict([1.0] * 20 + [0.0] * 30 + [-1.0] * 4).word
    'better'
    >>> verdict([1.0] * 20 + [0.0] * 70 + [-1.0] * 14, margin=0.1).word
    'not worse'
    >>> verdict([1.0] * 10 + [0.0] * 580 + [-1.0] * 10, margin=0.05).word
    'equivalent'
    >>> result = verdict([1.0] * 12 + [0.0] * 30 + [-1.0] * 8, planned=300)
    >>> result.word, result.still_needed
    ('inconclusive', 315)
    >>> verdict([1.0] * 9 + [0.0] * 31).word
    'better'
    >>> verdict([1.0] * 3).word, verdict([1.0] * 3, repeats=RepeatedScores.of([[0] * 10] * 3, [[1] * 10] * 3)).word
    ('inconclusive', 'better')
    """
    values, dropped = unit_differences(differences, scale, least=0), integer(dropped, "dropped")
    data = _ComparisonInput(
        values=values,
        groups=groups,
        weight=weight,
        largest=largest,
        planned=_planned(planned, "", len(values) + dropped),
        dropped=dropped,
        margin=margin,
        effect=effect,
        seen=seen,
        scale=scale,
        comparisons=integer(comparisons, "comparisons", least=1),
        only_sequence=only_sequence,
        repeats=repeats,
    )
    sequence, final = data.alphas(comparisons)
    return _decide(data, sequence, final, final or FINAL_ALPHA / comparisons)


def verdicts(
    differences: Mapping[str, Numbers],
    planned: int | Mapping[str, int] | None = None,
    margin: float = 0.0,
    groups: Mapping[str, Sequence[Hashable]] | None = None,
    *,
    weight: Weight = "case",
    largest: int = 1,
    effect: float | None = None,
    seen: Mapping[str, Look] | None = None,
    dropped: Mapping[str, int] | None = None,
    only_sequence: bool = False,
    scale: Scale = UNIT,
    repeats: Mapping[str, RepeatedScores] | None = None,
) -> dict[str, Verdict]:
    """Verdicts on several variants, each against the baseline; all are right in 19 of 20 experiments.

    Interim looks share their chance of error equally; the final p values are tested in Holm's order. Each interval has
    the level at which Holm tests it, and holds at that level on its own.

    >>> better, same = [1.0] * 20 + [0.0] * 76 + [-1.0] * 4, [1.0] * 10 + [0.0] * 81 + [-1.0] * 9
    >>> {name: result.word for name, result in verdicts({"short": better, "long": same}).items()}
    {'short': 'better', 'long': 'inconclusive'}
    """
    if not differences:
        raise ValueError("at least one variant is needed, got none")
    groups, seen, dropped, repeats, inputs = groups or {}, seen or {}, dropped or {}, repeats or {}, {}
    for name, numbers in differences.items():
        values = unit_differences(numbers, scale, least=0)
        missing = integer(dropped.get(name, 0), "dropped")
        inputs[name] = _ComparisonInput(
            values=values,
            groups=groups.get(name),
            weight=weight,
            largest=largest,
            planned=_planned(planned, name, len(values) + missing),
            dropped=missing,
            margin=margin,
            effect=effect,
            seen=seen.get(name),
            scale=scale,
            comparisons=len(differences),
            only_sequence=only_sequence,
            repeats=repeats.get(name),
        )
    steps = _holm_steps(
        [final.p if (final := _final(data, FINAL_ALPHA)) else 1.0 for data in inputs.values()],
        [replace(data, only_sequence=False).alphas(1)[1] for data in inputs.values()],
    )
    results = {}
    for (name, data), step in zip(inputs.items(), steps, strict=True):
        sequence, first = data.alphas(len(inputs))
        first_step = first or FINAL_ALPHA / len(inputs)
        results[name] = _decide(data, sequence, data.alphas(step)[1], first_step)
    return results


def _planned(planned: int | Mapping[str, int] | None, name: str, count: int) -> int:
    number = planned.get(name) if isinstance(planned, Mapping) else planned
    return integer(count or 1 if number is None else number, "planned", least=1)


def _holm_steps(ps: list[float], levels: list[float]) -> list[int]:
    """Holm's divisor of the chance of error for each p value; all after the first undecided one share its divisor."""
    adjusted, order = holm(ps), np.argsort(ps, kind="stable")
    steps, divisor, rejecting = [0] * len(ps), len(ps), True
    for index in order:
        steps[index] = divisor
        rejecting = rejecting and adjusted[index] <= levels[index]
        if rejecting:
            divisor = max(1, divisor - 1)
    return steps


def _decide(data: _ComparisonInput, sequence_alpha: float, final_alpha: float, first_step_alpha: float) -> Verdict:
    """The verdict at these chances of error: of the looks, of the final interval, and at the first step of Holm."""
    values, groups, size = data.values, data.groups, width(data.scale)
    if not len(values):
        return Verdict(
            word="no comparison", interval=None, wins=0, losses=0, ties=0, reason=NO_CASE, planned=data.planned
        )
    if groups is not None and len(groups) != len(values):
        raise ValueError(f"as many groups as differences are needed, got {len(groups)} and {len(values)}")
    wins, losses = int((values > 0).sum()), int((values < 0).sum())
    final = _final(data, final_alpha)
    look = _look(data, sequence_alpha)
    interval = _combine(data.estimate, look, final, 1 - sequence_alpha - final_alpha)
    word = word_of(interval, data.unit_margin)
    reason = _no_verdict(data, interval, look, final) if word == "inconclusive" else ""
    return Verdict(
        word=word,
        interval=interval.times(size),
        wins=wins,
        losses=losses,
        ties=len(values) - wins - losses,
        reason=reason,
        planned=data.planned,
        p=final.p if final else look.p,
        needed=_needed(data, first_step_alpha),
        effect=data.unit_effect * size,
        population=data.population,
        look=look.times(size),
        final=final.times(size) if final else None,
    )


def _final(data: _ComparisonInput, alpha: float) -> Estimate | None:
    """The interval of the first planned cases; None before they are complete, or if no α is left."""
    expected, groups = data.expected, data.groups
    if not alpha or not len(data.values) or len(data.values) < expected:
        return None
    if data.repeats is not None:
        return fixed_cases_interval(data.repeats.first(expected) if expected else data.repeats, 1 - alpha)
    return final_interval(
        data.values[:expected] if expected else data.values,
        1 - alpha,
        groups[:expected] if expected and groups is not None else groups,
        weight=data.weight,
        largest=data.largest,
    )


def _look(data: _ComparisonInput, alpha: float) -> Look:
    """One look at all differences, or the narrowest of all interim looks."""
    look = confidence_sequence(
        data.values, alpha, data.unit_margin or None, data.groups, weight=data.weight, largest=data.largest
    )
    if data.seen is None or not alpha:
        return look
    seen = data.seen.times(1 / width(data.scale))
    if abs(seen.level - look.level) > 1e-9:
        raise ValueError(f"the sequence was observed at level {seen.level:g}, this verdict needs {look.level:g}")
    low, high = max(look.low, seen.low), min(look.high, seen.high)
    if not low <= look.estimate <= high:
        return look
    margin = data.unit_margin
    inside = low >= -margin and high <= margin if margin else None
    return replace(look, low=low, high=high, p=min(look.p, seen.p), equivalent=inside)


def _combine(estimate: float, look: Look, final: Estimate | None, level: float) -> Interval:
    """The intersection of both intervals: the whole range if empty, the look alone if it misses the estimate."""
    if final is None and not look.level < 1:
        return Interval(estimate, look.low, look.high, 1.0)
    low, high = (max(look.low, final.low), min(look.high, final.high)) if final else (look.low, look.high)
    if low > high:
        return Interval(estimate, -1.0, 1.0, 1.0)
    if not low <= estimate <= high:
        low, high = look.low, look.high
    return Interval(estimate, low, high, round(level, 12))


def _no_verdict(data: _ComparisonInput, interval: Interval, look: Look, final: Estimate | None) -> str:
    """Explain why a comparison is inconclusive, unless the width of its interval is the reason."""
    values = data.values
    if interval.level == 1 and final is None and data.repeats is not None and data.only_sequence:
        return "an earlier run has already decided about these cases; --fresh begins a new experiment"
    if interval.level == 1 and final is None:
        return (
            f"{len(values)} of {data.expected} planned cases are complete: with fewer than "
            f"{SEQUENTIAL_CASES} planned, the verdict comes at the end"
        )
    if interval.level == 1:
        return "the final interval and the confidence sequence contradict each other"
    informative = int(np.count_nonzero(values))
    if not informative:
        return "no case differs"
    if data.repeats is not None:
        return ""
    units = units_of(values, data.groups, data.weight)
    if len(units) < min(GROUPS, len(values)):
        return f"only {len(units)} group{'' if len(units) == 1 else 's'}: at least {GROUPS} are needed"
    least = units_needed(data.comparisons)
    if data.expected < least:
        return f"{len(values)} case{'' if len(values) == 1 else 's'} cannot decide: at least {least} are needed"
    if informative < INFORMATIVE:
        return f"only {informative} of {len(values)} cases {'differs' if informative == 1 else 'differ'}"
    return ""


def _needed(data: _ComparisonInput, alpha: float) -> int | None:
    if data.repeats is not None:
        return data.repeats.repeats_needed(data.unit_effect, deviates(POWER, alpha))
    if data.expected < units_needed(data.comparisons) and data.groups is None:
        return None  # too few cases to estimate how others vary
    return needed_in_all(data.values, data.groups, data.weight, data.unit_effect, alpha)


def word_of(interval: Interval, margin: float) -> Word:
    """The verdict that an interval supports."""
    if interval.low > 0:
        return "better"
    if interval.high < 0:
        return "worse"
    if margin and interval.low >= -margin and interval.high <= margin:
        return "equivalent"
    return "not worse" if margin and interval.low > -margin else "inconclusive"


def needed_in_all(
    values: Floats,
    groups: Sequence[Hashable] | None = None,
    weight: Weight = "case",
    effect: float = EFFECT,
    alpha: float = FINAL_ALPHA,
) -> int | None:
    """Cases to detect the effect and to have enough that differ; None if these cases do not allow an estimate."""
    units, informative = units_of(values, groups, weight), int(np.count_nonzero(values))
    if not informative or len(units) < 2:
        return None
    enough = -(-INFORMATIVE * len(values) // informative)
    return max(enough, cases_needed(spread(units, len(values)), effect, alpha=alpha))
