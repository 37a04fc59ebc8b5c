"""The verdict on a variant against the baseline: one word, and the interval behind it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np

from abreast.stats.final import GROUPS, INFORMATIVE, final_interval
from abreast.stats.intervals import Estimate, Interval
from abreast.stats.multiple import holm
from abreast.stats.power import cases_needed, spread
from abreast.stats.sequence import Look, confidence_sequence
from abreast.stats.significance import sign_flip
from abreast.stats.values import UNIT, Floats, Numbers, Scale, unit_differences, unit_margin, whole, width

LOOKING = 0.02  # the chance of error that looks on the way may use
AT_THE_END = 0.03  # and the one that is kept for the planned number of cases
SEQUENTIAL_CASES = 60  # with fewer planned, all of it is kept for the end and nothing stops early
EFFECT = 0.1  # the effect that needed cases are counted for, if there is no margin
CROSS_CHECKED = 5_000  # beyond so many cases a mean is as good as normal

Word = Literal["better", "worse", "equivalent", "not worse", "inconclusive", "no comparison"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One word, the interval behind it, and why there is no verdict where none is possible."""

    word: Word
    interval: Interval | None  # the sequence's and, at the planned number of cases, the final one's: what both hold
    wins: int
    losses: int
    ties: int
    reason: str = ""  # why no verdict is possible at all; empty where the interval speaks for itself
    planned: int = 0  # cases
    p: float = 1.0  # of the final test; before the end, the one of the sequence
    needed: int | None = None  # cases in all to detect `effect`, if cases go on to vary as they do
    effect: float = EFFECT
    caution: str = ""
    look: Look | None = None
    final: Estimate | None = None

    @property
    def cases(self) -> int:
        return self.wins + self.losses + self.ties

    @property
    def still_needed(self) -> int | None:
        """Cases still needed to detect `effect`; 0 if there are enough, so that the difference is likely smaller."""
        return None if self.needed is None else max(0, self.needed - self.cases)

    @property
    def settled(self) -> bool:
        """Whether more cases cannot take the word back or make it a stronger one, so that a run may stop."""
        return self.word in ("better", "worse", "equivalent")


@dataclass(frozen=True, slots=True)
class _Question:
    """One comparison: differences as shares of the width of the scale, the rest as it was given."""

    values: Floats
    groups: Sequence[Hashable] | None
    planned: int
    given_margin: float
    given_effect: float | None
    given_seen: Look | None
    scale: Scale
    dropped: int = 0

    @property
    def awaited(self) -> int:
        """Differences that there are at the end."""
        return max(0, self.planned - self.dropped)

    @property
    def margin(self) -> float:
        return unit_margin(self.given_margin, self.scale)

    @property
    def effect(self) -> float:
        return (self.margin or EFFECT) if self.given_effect is None else self.given_effect / width(self.scale)

    @property
    def seen(self) -> Look | None:
        return None if self.given_seen is None else _times(self.given_seen, 1 / width(self.scale))


def alphas(planned: int, comparisons: int = 1) -> tuple[float, float]:
    """The chances of error for looks on the way and for the end, of each of so many comparisons.

    >>> alphas(500), alphas(40), alphas(500, comparisons=2)
    ((0.02, 0.03), (0.0, 0.05), (0.01, 0.015))
    """
    planned, comparisons = whole(planned, "planned", least=1), whole(comparisons, "comparisons", least=1)
    looking, at_the_end = (LOOKING, AT_THE_END) if planned >= SEQUENTIAL_CASES else (0.0, LOOKING + AT_THE_END)
    return looking / comparisons, at_the_end / comparisons


def verdict(
    differences: Numbers,
    planned: int | None = None,
    margin: float = 0.0,
    groups: Sequence[Hashable] | None = None,
    *,
    comparisons: int = 1,
    effect: float | None = None,
    seen: Look | None = None,
    dropped: int = 0,
    scale: Scale = UNIT,
) -> Verdict:
    """Is B better than A, worse, equivalent within the margin, not worse than by the margin, or is it not known?

    A difference per case, B − A, repeats averaged, in the order in which cases were started. `planned` is the number
    of cases decided on beforehand (all of these, if not given), of which `dropped` cannot be compared. `seen` is the
    last look of a `RunningSequence` that watched the run. With further variants against the same baseline say how many
    `comparisons` there are, or use `verdicts`.

    >>> verdict([1.0] * 20 + [0.0] * 30 + [-1.0] * 4).word
    'better'
    >>> verdict([1.0] * 20 + [0.0] * 70 + [-1.0] * 14, margin=0.1).word
    'not worse'
    >>> verdict([1.0] * 10 + [0.0] * 580 + [-1.0] * 10, margin=0.05).word
    'equivalent'
    >>> found = verdict([1.0] * 12 + [0.0] * 30 + [-1.0] * 8, planned=300)
    >>> found.word, found.still_needed
    ('inconclusive', 315)
    >>> verdict([1.0, 0.0, 1.0]).reason
    'too few informative cases: 2 of 3 differ, at least 10 are needed'
    """
    values = unit_differences(differences, scale, least=0)
    number = _planned(planned, "", len(values) + dropped)
    question = _Question(values, groups, number, margin, effect, seen, scale, whole(dropped, "dropped"))
    return _answer(question, *alphas(question.planned, comparisons))


def verdicts(
    differences: Mapping[str, Numbers],
    planned: int | Mapping[str, int] | None = None,
    margin: float = 0.0,
    groups: Mapping[str, Sequence[Hashable]] | None = None,
    *,
    effect: float | None = None,
    seen: Mapping[str, Look] | None = None,
    dropped: Mapping[str, int] | None = None,
    scale: Scale = UNIT,
) -> dict[str, Verdict]:
    """Several variants, each against the baseline: together wrong in one of twenty at most.

    Looks on the way share their chance of error equally; the final p values are taken in Holm's order, and each
    interval has the level at which Holm tests it.

    >>> better, same = [1.0] * 20 + [0.0] * 76 + [-1.0] * 4, [1.0] * 10 + [0.0] * 81 + [-1.0] * 9
    >>> {name: found.word for name, found in verdicts({"short": better, "long": same}).items()}
    {'short': 'better', 'long': 'inconclusive'}
    """
    if not differences:
        raise ValueError("at least one variant is needed, got none")
    groups, seen, dropped, questions = groups or {}, seen or {}, dropped or {}, {}
    for name, given in differences.items():
        values = unit_differences(given, scale, least=0)
        lost = whole(dropped.get(name, 0), "dropped")
        number = _planned(planned, name, len(values) + lost)
        questions[name] = _Question(values, groups.get(name), number, margin, effect, seen.get(name), scale, lost)
    steps = _holm_steps(
        [final.p if (final := _final(question, AT_THE_END)) else 1.0 for question in questions.values()],
        [alphas(question.planned)[1] for question in questions.values()],
    )
    return {
        name: _answer(question, alphas(question.planned, len(questions))[0], alphas(question.planned, step)[1])
        for (name, question), step in zip(questions.items(), steps, strict=True)
    }


def _planned(planned: int | Mapping[str, int] | None, name: str, there: int) -> int:
    number = planned.get(name) if isinstance(planned, Mapping) else planned
    return whole(there or 1 if number is None else number, "planned", least=1)


def _holm_steps(ps: list[float], levels: list[float]) -> list[int]:
    """By what Holm divides the chance of error for each; all after the first undecided one share its divisor."""
    adjusted, order = holm(ps), np.argsort(ps, kind="stable")
    steps, divisor, going = [0] * len(ps), len(ps), True
    for index in order:
        steps[index] = divisor
        going = going and adjusted[index] <= levels[index]
        if going:
            divisor = max(1, divisor - 1)
    return steps


def _answer(question: _Question, looking: float, at_the_end: float) -> Verdict:
    """The verdict, with these chances of error for looks on the way and for the end."""
    values, groups, wide = question.values, question.groups, width(question.scale)
    if not len(values):
        return Verdict("no comparison", None, 0, 0, 0, "no case is compared", question.planned)
    if groups is not None and len(groups) != len(values):
        raise ValueError(f"as many groups as differences are needed, got {len(groups)} and {len(values)}")
    wins, losses = int((values > 0).sum()), int((values < 0).sum())
    final = _final(question, at_the_end)
    look = _look(question, looking) if looking or final else confidence_sequence(values, at_the_end, groups=groups)
    interval = _what_both_hold(look, final, float(values.mean()), 1 - looking - at_the_end)
    reason = _no_verdict(question, interval, looking, final)
    word: Word = "inconclusive" if reason else _word(interval, question.margin)
    return Verdict(
        word,
        _times(interval, wide),
        wins,
        losses,
        len(values) - wins - losses,
        reason,
        question.planned,
        final.p if final else look.p,
        needed_in_all(values, groups, question.effect),
        question.effect * wide,
        _caution(question, word, look, final, at_the_end),
        _times(look, wide),
        _times(final, wide) if final else None,
    )


def _final(question: _Question, at_the_end: float) -> Estimate | None:
    """The interval at the planned number of cases, of those that came first; None before they are there."""
    awaited, groups = question.awaited, question.groups
    if not len(question.values) or len(question.values) < awaited:
        return None
    return final_interval(question.values[:awaited], 1 - at_the_end, None if groups is None else groups[:awaited])


def _look(question: _Question, alpha: float) -> Look:
    """One look at all differences; with what was seen on the way, the narrowest bounds of all looks."""
    look = confidence_sequence(question.values, alpha, question.margin or None, question.groups)
    seen = question.seen
    if seen is None or not alpha:
        return look
    if abs(seen.level - look.level) > 1e-9:
        raise ValueError(f"the sequence was observed at level {seen.level:g}, this verdict needs {look.level:g}")
    low, high = max(look.low, seen.low), min(look.high, seen.high)
    inside = low >= -question.margin and high <= question.margin if question.margin else None
    return replace(look, low=low, high=high, p=min(look.p, seen.p), equivalent=inside)


def _what_both_hold(look: Look, final: Estimate | None, mean: float, level: float) -> Interval:
    """The common part of both intervals; if there is none, what lies between them."""
    ends = (max(look.low, final.low), min(look.high, final.high)) if final else (look.low, look.high)
    return Interval(mean, min(ends), max(ends), round(level, 12))


def _no_verdict(question: _Question, interval: Interval, looking: float, final: Estimate | None) -> str:
    values, groups = question.values, question.groups
    informative = int(np.count_nonzero(values))
    if informative < INFORMATIVE:
        reason = f"too few informative cases: {informative} of {len(values)} differ, at least {INFORMATIVE} are needed"
        inside = max(-interval.low, interval.high) <= question.margin
        return f"{reason}; still, the whole interval lies inside the margin" if inside else reason
    if groups is not None and len(set(groups)) < GROUPS:
        return f"too few groups: {len(set(groups))}, at least {GROUPS} are needed"
    if final is None and not looking:
        return (
            f"{len(values)} of {question.awaited} planned cases are there: with fewer than {SEQUENTIAL_CASES} planned "
            "the verdict comes at the end"
        )
    return ""


def _word(interval: Interval, margin: float) -> Word:
    if interval.low > 0:
        return "better"
    if interval.high < 0:
        return "worse"
    if margin and interval.low >= -margin and interval.high <= margin:
        return "equivalent"
    return "not worse" if margin and interval.low > -margin else "inconclusive"


def _caution(question: _Question, word: Word, look: Look, final: Estimate | None, at_the_end: float) -> str:
    """Where t alone decided, the sign-flip test must not contradict it."""
    by_t_alone = final is not None and final.method == "paired t" and look.low <= 0 <= look.high
    if word not in ("better", "worse") or not by_t_alone or question.planned > CROSS_CHECKED:
        return ""
    check = sign_flip(question.values[: question.awaited])
    return f"the sign-flip test does not confirm it: p = {check.p:.3f}" if check.p > at_the_end else ""


def needed_in_all(values: Floats, groups: Sequence[Hashable] | None = None, effect: float = EFFECT) -> int | None:
    """Cases to detect the effect, and to have enough that differ; None if these cases cannot tell."""
    informative = int(np.count_nonzero(values))
    if not informative or len(values) < 2 or (groups is not None and len(set(groups)) < 2):
        return None
    enough = -(-INFORMATIVE * len(values) // informative)
    return max(enough, cases_needed(spread(values, groups), effect))


Bounded = TypeVar("Bounded", bound=Interval)


def _times(interval: Bounded, factor: float) -> Bounded:
    """The same interval on another scale."""
    if factor == 1:
        return interval
    return replace(
        interval, estimate=interval.estimate * factor, low=interval.low * factor, high=interval.high * factor
    )
