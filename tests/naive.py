"""The analysis once more, as slowly and plainly as it can be written: dictionaries and loops, straight from the rules.

It shares nothing with the product but the distributions of scipy, so that both can be wrong only in different ways.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from scipy import stats

BETS = [(j - 0.5) / 64 for j in range(1, 65)]
Key = tuple[int, int, int]  # case, variant, repeat


@dataclass
class Run:
    """The rows of a run as they lie in the store."""

    variants: list[str]
    repeats: int
    planned_cases: int
    baseline: int
    margin: float
    trials: dict[Key, dict[str, Any]]
    scores: dict[Key, float | None]  # of one metric
    groups: dict[int, str | None]
    tags: dict[int, dict[str, str]]

    def score(self, key: Key) -> float | None:
        row = self.trials[key]
        if row["status"] == "ok":
            return self.scores.get(key)
        return 0.0 if row["status"] == "error" and row["error_blame"] == "variant" else None


def accuracy(run: Run, variant: int) -> float | None:
    """The mean score over the trials of a variant; not known if none of them gave an answer."""
    mine = [key for key in run.trials if key[1] == variant]
    scores = [score for key in mine if (score := run.score(key)) is not None]
    answered = any(run.trials[key]["status"] == "ok" for key in mine)
    return sum(scores) / len(scores) if scores and answered else None


def counted(run: Run) -> list[int]:
    """Cases with an outcome everywhere, in the order of starts, up to the first that has not."""
    turns = {}
    for case in range(run.planned_cases):
        rows = [run.trials.get((case, v, k)) for v in range(len(run.variants)) for k in range(run.repeats)]
        if all(row is not None and row["status"] != "cancelled" for row in rows):
            assert rows[0] is not None
            turns[rows[0]["block"] // run.repeats] = case
    found = []
    while len(found) in turns:
        found.append(turns[len(found)])
    return found


def complete(run: Run) -> int:
    there = Counter(case for (case, _, _), row in run.trials.items() if row["status"] != "cancelled")
    return sum(number == len(run.variants) * run.repeats for number in there.values())


@dataclass
class Compared:
    """One question: a difference for each case that has one, why others have none, and what they could be."""

    cases: list[int] = field(default_factory=list)
    differences: list[float] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    repeats_left_out: int = 0
    low: float = 0.0  # sums of what lost cases could say
    high: float = 0.0
    lost: int = 0


def compared(run: Run, base: int, other: int) -> Compared:
    found = Compared()
    for case in counted(run):
        sides = [[run.score((case, v, k)) for k in range(run.repeats)] for v in (base, other)]
        both = [(a, b) for a, b in zip(*sides, strict=True) if a is not None and b is not None]
        if both:
            a, b = (sum(side) / len(both) for side in zip(*both, strict=True))
            found.cases.append(case)
            found.differences.append(0.0 if abs(b - a) < 1e-9 else b - a)
            found.repeats_left_out += run.repeats - len(both)
            continue
        rows = [run.trials[case, v, k] for v in (base, other) for k in range(run.repeats)]
        if any(row["status"] == "error" and row["error_blame"] != "variant" for row in rows):
            why = "failed"
        elif any(row["status"] == "skipped" for row in rows):
            why = "skipped"
        else:
            why = "unscored"
        found.dropped[why] += 1
        if why != "skipped":
            worst = [[bad if s is None else s for s in side] for side, bad in zip(sides, (1, 0), strict=True)]
            best = [[good if s is None else s for s in side] for side, good in zip(sides, (0, 1), strict=True)]
            found.lost += 1
            found.low += (sum(worst[1]) - sum(worst[0])) / run.repeats
            found.high += (sum(best[1]) - sum(best[0])) / run.repeats
    return found


def bounds(found: Compared) -> tuple[float, float] | None:
    if not found.lost:
        return None
    known, count = sum(found.differences), len(found.differences) + found.lost
    return (known + found.low) / count, (known + found.high) / count


# -- the formulas ------------------------------------------------------------------------------------------------------


def log_wealth(values: Sequence[float], m: float, above: bool) -> float:
    """The logarithm of W⁺(m), or of W⁻(m)."""
    counts = Counter(values)
    logs = []
    for u in BETS:
        made = 0.0
        for value, number in counts.items():
            bet = u * (value - m) / (1 + m) if above else -u * (value - m) / (1 - m)
            made += number * math.log1p(bet)
        logs.append(made)
    top = max(logs)
    return top + math.log(sum(math.exp(each - top) for each in logs) / len(logs))


def sequence(values: Sequence[float], alpha: float) -> tuple[float, float, float]:
    """One look: low, high, p."""
    rich = math.log(2 / alpha)
    low = high = None
    for above in (True, False):
        poor, wealthy = (1 - 1e-12, -1 + 1e-9) if above else (-1 + 1e-12, 1 - 1e-9)
        if not log_wealth(values, wealthy, above) > rich:
            end = -1.0 if above else 1.0
        else:
            for _ in range(50):
                middle = (poor + wealthy) / 2
                if log_wealth(values, middle, above) > rich:
                    wealthy = middle
                else:
                    poor = middle
            end = wealthy
        low, high = (end, high) if above else (low, end)
    assert low is not None
    assert high is not None
    most = max(log_wealth(values, 0.0, True), log_wealth(values, 0.0, False), 0.0)
    return low, high, min(1.0, 2 * math.exp(-most))


def looks(n: int) -> list[int]:
    found, at = [], 10
    while at < n:
        found.append(at)
        at += max(10, at // 20)
    return [*found, n] if n else []


def means_of_groups(values: Sequence[float], groups: Sequence[Hashable]) -> list[float]:
    by_group: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, group in zip(values, groups, strict=True):
        by_group[group].append(value)
    return [sum(each) / len(each) for each in by_group.values()]


def watched(
    values: Sequence[float], groups: Sequence[Hashable] | None, alpha: float, ended: bool
) -> tuple[float, float, float]:
    """The narrowest bounds of all looks on the way, and of one at everything."""
    low, high, p = -1.0, 1.0, 1.0
    for at in [*looks(len(values)), len(values)]:
        seen = list(values[:at])
        if groups is not None:
            held = list(groups[:at])
            if at < len(values) or not ended:  # the last group is open
                held = held[: held.index(held[-1])]
            seen = means_of_groups(seen[: len(held)], held)
        if seen:
            one = sequence(seen, alpha)
            low, high, p = max(low, one[0]), min(high, one[1]), min(p, one[2])
    everything = sequence(values if groups is None else means_of_groups(values, groups), alpha)
    return max(low, everything[0]), min(high, everything[1]), min(p, everything[2])


def clustered_error(values: Sequence[float], groups: Sequence[Hashable]) -> tuple[float, int]:
    mean = sum(values) / len(values)
    sums: defaultdict[Hashable, float] = defaultdict(float)
    for value, group in zip(values, groups, strict=True):
        sums[group] += value - mean
    count = len(sums)
    return math.sqrt(count / (count - 1) * sum(each**2 for each in sums.values())) / len(values), count - 1


def final(values: Sequence[float], groups: Sequence[Hashable] | None, level: float) -> tuple[float, float, float]:
    """The interval at the planned number of cases: low, high, p."""
    n, wins, losses = len(values), sum(value > 0 for value in values), sum(value < 0 for value in values)
    mean = sum(values) / n
    by_sequence = sequence(values if groups is None else means_of_groups(values, groups), 1 - level)
    if wins + losses < 10 or (groups is not None and len(set(groups)) < 5):
        return by_sequence
    if groups is None and all(value in (-1, 0, 1) for value in values):
        z = stats.norm.ppf(0.5 + level / 2)
        won, lost = (wins + 1) / (n + 2), (losses + 1) / (n + 2)
        half = z * math.sqrt((won + lost - (won - lost) ** 2) / (n + 2))
        fewer, both = min(wins, losses), wins + losses
        tail = sum(stats.binom.pmf(k, both, 0.5) for k in range(fewer + 1))
        p = 1.0 if wins == losses else min(1.0, 2 * tail - stats.binom.pmf(fewer, both, 0.5))
        return max(-1.0, won - lost - half), min(1.0, won - lost + half), p
    if groups is None:
        error = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1) / n)
        degrees = n - 1
    else:
        error, degrees = clustered_error(values, groups)
    if error <= 1e-12:
        return by_sequence
    half = stats.t.ppf(0.5 + level / 2, degrees) * error
    p = 2 * stats.t.sf(abs(mean) / error, degrees) if mean else 1.0
    return max(-1.0, mean - half), min(1.0, mean + half), p


# -- the decision ------------------------------------------------------------------------------------------------------


@dataclass
class Decided:
    word: str
    low: float
    high: float
    level: float
    p: float


def decide(run: Run, questions: Sequence[tuple[int, int]]) -> dict[tuple[int, int], tuple[Compared, Decided | None]]:
    """All verdicts by one score: looks share α₁ equally, the end takes α₂ in Holm's order."""
    ended, planned = len(counted(run)) == run.planned_cases, run.planned_cases
    alpha, end = (0.02, 0.03) if planned >= 60 else (0.0, 0.05)
    grouped = any(run.groups[case] is not None for case, _, _ in run.trials)
    data = {question: compared(run, *question) for question in questions}
    groups = {
        question: [run.groups[case] or ("alone", case) for case in found.cases] if grouped else None
        for question, found in data.items()
    }
    ps = {
        question: final(found.differences, groups[question], 0.97)[2] if ended and found.differences else 1.0
        for question, found in data.items()
    }
    steps, left, going = {}, len(questions), True
    for question in sorted(questions, key=lambda question: ps[question]):
        steps[question] = left
        going = going and ps[question] <= end / left
        left -= going and left > 1
    return {
        question: (
            found,
            _decided(found, groups[question], planned, ended, alpha / len(questions), end / steps[question], run.margin)
            if found.differences
            else None,
        )
        for question, found in data.items()
    }


def _decided(
    found: Compared,
    groups: Sequence[Hashable] | None,
    planned: int,
    ended: bool,
    alpha: float,
    end: float,
    margin: float,
) -> Decided:
    values = found.differences
    low, high, p = -1.0, 1.0, 1.0
    if alpha:
        low, high, p = watched(values, groups, alpha, ended)
    elif not ended:
        low, high, p = sequence(values if groups is None else means_of_groups(values, groups), end)
    if ended:
        low_end, high_end, p = final(values, groups, 1 - end)
        low, high = sorted((max(low, low_end), min(high, high_end)))
    few = sum(value != 0 for value in values) < 10 or (groups is not None and len(set(groups)) < 5)
    if few or (not ended and planned < 60):
        word = "inconclusive"
    elif low > 0:
        word = "better"
    elif high < 0:
        word = "worse"
    elif margin and -margin <= low and high <= margin:
        word = "equivalent"
    elif margin and low > -margin:
        word = "not worse"
    else:
        word = "inconclusive"
    return Decided(word, low, high, 1 - alpha - end, p)


def holm(ps: Sequence[float]) -> list[float]:
    found, most = [0.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda index: ps[index])):
        most = max(most, ps[index] * (len(ps) - rank))
        found[index] = min(1.0, most)
    return found


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    order = sorted(range(len(ps)), key=lambda index: ps[index])
    return [
        min(1.0, min(ps[order[rank]] * len(ps) / (rank + 1) for rank in range(order.index(index), len(ps))))
        for index in range(len(ps))
    ]
