"""A second analysis, as slow and plain as possible: dictionaries and loops, straight from the rules.

It shares only the distributions of scipy with the product, so that both can be wrong only in different ways.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats

BETS = [(j - 0.5) / 64 for j in range(1, 65)]
Key = tuple[int, int, int]  # case, variant, repeat
Pairs = list[tuple[float, float]]  # scores of baseline and variant, repeat by repeat


@dataclass
class Run:
    """The rows of a run as stored."""

    variants: list[str]
    repeats: int
    planned_cases: int
    baseline: int
    margin: float
    trials: dict[Key, dict[str, Any]]
    scores: dict[Key, float | None]  # of one metric
    groups: dict[int, str | None]
    tags: dict[int, dict[str, str]]
    weight: str = "case"
    largest_group: int = 1  # of the plan
    planned_groups: Sequence[str | None] = ()  # of every planned case

    def score(self, key: Key) -> float | None:
        row = self.trials[key]
        if row["status"] == "ok":
            return self.scores.get(key)
        return 0.0 if row["status"] == "error" and row["error_blame"] == "variant" else None


def accuracy(run: Run, variant: int) -> float | None:
    """The mean score over the trials of a variant; None if none of them gave an answer."""
    mine = [key for key in run.trials if key[1] == variant]
    scores = [score for key in mine if (score := run.score(key)) is not None]
    answered = any(run.trials[key]["status"] == "ok" for key in mine)
    return sum(scores) / len(scores) if scores and answered else None


def counted(run: Run) -> list[int]:
    """Complete cases in the order of starts, up to the first incomplete one; only complete groups."""
    turns, started = {}, {row["block"] // run.repeats: case for (case, _, _), row in run.trials.items()}
    for case in range(run.planned_cases):
        rows = [run.trials.get((case, v, k)) for v in range(len(run.variants)) for k in range(run.repeats)]
        if all(row is not None and row["status"] != "cancelled" for row in rows):
            assert rows[0] is not None
            turns[rows[0]["block"] // run.repeats] = case
    prefix: list[int] = []
    while len(prefix) in turns:
        prefix.append(turns[len(prefix)])
    if not prefix or len(prefix) == run.planned_cases:
        return prefix
    last, following = run.groups[prefix[-1]], started.get(len(prefix))
    if last is None or (following is not None and run.groups[following] != last):
        return prefix
    return [case for case in prefix if run.groups[case] != last]


def complete(run: Run) -> int:
    finished = Counter(case for (case, _, _), row in run.trials.items() if row["status"] != "cancelled")
    return sum(number == len(run.variants) * run.repeats for number in finished.values())


@dataclass
class Compared:
    """One comparison: the differences of cases, why others have none, and the bounds of what is missing."""

    cases: list[int] = field(default_factory=list)
    scores: list[Pairs] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    repeats_left_out: int = 0
    is_lossy: bool = False  # some outcome is lost
    all_cases: list[int] = field(default_factory=list)  # with lost ones
    worst: list[Pairs] = field(default_factory=list)
    best: list[Pairs] = field(default_factory=list)

    @property
    def differences(self) -> list[float]:
        return [mean_difference(scores) for scores in self.scores]


def mean_difference(pairs: Sequence[tuple[float, float]]) -> float:
    difference = sum(b for _, b in pairs) / len(pairs) - sum(a for a, _ in pairs) / len(pairs)
    return 0.0 if abs(difference) < 1e-9 else difference


def compared(run: Run, base: int, other: int) -> Compared:
    comparison = Compared()
    for case in counted(run):
        cells, usable = [], []
        for k in range(run.repeats):
            rows = [run.trials[case, v, k] for v in (base, other)]
            scores = [run.score((case, v, k)) for v in (base, other)]
            cells.append(scores)
            if not any(row["status"] == "skipped" for row in rows):
                usable.append(scores)
        both = [(a, b) for a, b in cells if a is not None and b is not None]
        if usable:
            comparison.all_cases.append(case)
            comparison.is_lossy = comparison.is_lossy or any(None in scores for scores in usable)
            comparison.worst.append([(1 if a is None else a, 0 if b is None else b) for a, b in usable])
            comparison.best.append([(0 if a is None else a, 1 if b is None else b) for a, b in usable])
        if both:
            comparison.cases.append(case)
            comparison.scores.append(both)
            comparison.repeats_left_out += run.repeats - len(both)
            continue
        rows = [run.trials[case, v, k] for v in (base, other) for k in range(run.repeats)]
        if any(row["status"] == "error" and row["error_blame"] != "variant" for row in rows):
            comparison.dropped["failed"] += 1
        elif any(row["status"] == "skipped" for row in rows):
            comparison.dropped["skipped"] += 1
        else:
            comparison.dropped["unscored"] += 1
    return comparison


Units = list[tuple[float, float]]  # sum and size


def units_of(run: Run, cases: Sequence[int], values: Sequence[float]) -> Units:
    """Cases or groups as units, in the order of starts."""
    sums: dict[Hashable, list[float]] = {}
    for case, value in zip(cases, values, strict=True):
        sums.setdefault(run.groups[case] or ("alone", case), []).append(value)
    if run.weight == "group":
        return [(sum(group) / len(group), 1.0) for group in sums.values()]
    return [(sum(group), float(len(group))) for group in sums.values()]


def estimate(units: Units) -> float:
    return sum(total for total, _ in units) / sum(size for _, size in units)


def bounds(run: Run, comparison: Compared) -> tuple[float, float] | None:
    if not comparison.is_lossy:
        return None
    low, high = (
        estimate(units_of(run, comparison.all_cases, differences((comparison.all_cases, scores))))
        for scores in (comparison.worst, comparison.best)
    )
    return low, high


# -- the formulas ------------------------------------------------------------------------------------------------------


def log_wealth(units: Units, largest: float, m: float, above: bool) -> float:
    """The logarithm of W⁺(m), or of W⁻(m)."""
    logs = []
    for u in BETS:
        growth = 0.0
        for (total, size), number in Counter(units).items():
            bet = u * (total - m * size) / largest
            growth += number * math.log1p(bet / (1 + m) if above else -bet / (1 - m))
        logs.append(growth)
    top = max(logs)
    return top + math.log(sum(math.exp(log - top) for log in logs) / len(logs))


def sequence(units: Units, alpha: float, largest: float) -> tuple[float, float, float]:
    """One look: low, high, p."""
    largest, goal, ends = max([largest, *(size for _, size in units)]), math.log(2 / alpha), []
    for above in (True, False):
        poor, wealthy = (1 - 1e-12, -1 + 1e-9) if above else (-1 + 1e-12, 1 - 1e-9)
        if not log_wealth(units, largest, wealthy, above) > goal:
            ends.append(-1.0 if above else 1.0)
            continue
        for _ in range(50):
            middle = (poor + wealthy) / 2
            if log_wealth(units, largest, middle, above) > goal:
                wealthy = middle
            else:
                poor = middle
        ends.append(wealthy)
    most = max(log_wealth(units, largest, 0.0, True), log_wealth(units, largest, 0.0, False), 0.0)
    return ends[0], ends[1], min(1.0, 2 * math.exp(-most))


def looks(n: int) -> list[int]:
    sizes, at = [], 10
    while at < n:
        sizes.append(at)
        at += max(10, at // 20)
    return [*sizes, n] if n else []


def watched(run: Run, cases: Sequence[int], values: Sequence[float], alpha: float) -> tuple[float, float, float]:
    """The narrowest bounds of all looks, or those of the last one if they no longer contain the estimate."""
    low, high, p = -1.0, 1.0, 1.0
    for at in looks(len(values)):
        prefix = list(cases[:at])
        if is_grouped(run):  # the last group is open
            last = run.groups[prefix[-1]]
            prefix = prefix[:-1] if last is None else [case for case in prefix if run.groups[case] != last]
        samples = [prefix, list(cases)] if at == len(values) else [prefix]
        for sample in samples:
            if sample:
                look = sequence(units_of(run, sample, values[: len(sample)]), alpha, largest(run))
                low, high, p = max(low, look[0]), min(high, look[1]), min(p, look[2])
    units = units_of(run, cases, values)
    if not low <= estimate(units) <= high:
        return sequence(units, alpha, largest(run))
    return low, high, p


def is_grouped(run: Run) -> bool:
    return any(run.groups[case] is not None for case, _, _ in run.trials)


def largest(run: Run) -> float:
    return run.largest_group if run.weight == "case" else 1


def t_error(units: Units) -> tuple[float, float]:
    """CR2 and Bell and McCaffrey's degrees of freedom, from the matrices of their definition."""
    total_size, mean = sum(size for _, size in units), estimate(units)
    shares = [size / total_size for _, size in units]
    square = sum(((s - mean * n) / total_size) ** 2 / (1 - p) for (s, n), p in zip(units, shares, strict=True))
    gram = [
        [((p if g == h else 0) - p * q) / math.sqrt((1 - p) * (1 - q)) / total_size for h, q in enumerate(shares)]
        for g, p in enumerate(shares)
    ]
    trace = sum(gram[g][g] for g in range(len(units)))
    return math.sqrt(square), trace**2 / sum(cell**2 for row in gram for cell in row)


def skewness(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    return sum((value - mean) ** 3 for value in values) / len(values) / variance**1.5 if variance > 1e-24 else 0.0


def final(run: Run, cases: Sequence[int], values: Sequence[float], level: float) -> tuple[float, float, float]:
    """The interval at the planned number of cases: low, high, p."""
    n, wins, losses = len(values), sum(value > 0 for value in values), sum(value < 0 for value in values)
    units, binary = units_of(run, cases, values), all(value in (-1, 0, 1) for value in values)
    if binary and len(units) == n and wins + losses >= 10:
        return bonett_price(wins, losses, n, level)
    means = [total / size for total, size in units]
    if wins + losses >= 10 and len(units) >= 5 and (binary or n >= 60):
        error, degrees = t_error(units)
        samples = (means, [*means, -1.0], [*means, 1.0])
        symmetric = all(len(sample) > 25 * skewness(sample) ** 2 for sample in samples)
        if error >= 1e-12 and (len(units) < 25 or symmetric):
            mean, half = estimate(units), stats.t.ppf(0.5 + level / 2, degrees) * error
            p = 2 * stats.t.sf(abs(mean) / error, degrees) if mean else 1.0
            return max(-1.0, mean - half), min(1.0, mean + half), p
    if len({size for _, size in units}) == 1:
        return gaffke(means, level)
    return sequence(units, 1 - level, largest(run))


def gaffke(values: Sequence[float], level: float) -> tuple[float, float, float]:
    """Quantiles of the mean with uniform weights on the simplex, with one further value at the end of the range."""
    return weighted_gaffke(Counter(values), sum(values) / len(values), level)


def weighted_gaffke(values: Counter[float], mean: float, level: float) -> tuple[float, float, float]:
    """Like `gaffke`, for values with fractional weights."""
    tail = (1 - level) / 2

    def chance(sample: Counter[float], bound: float) -> float:
        """The probability that exponential variables weighted by these distances sum to at most 0."""
        spread = math.sqrt(sum(count * (value - bound) ** 2 for value, count in sample.items()))
        at, phase, damping = np.exp(np.arange(-30, 24, 0.03)), 0.0, 0.0
        for value, count in sample.items():
            argument = at * (value - bound) / spread
            phase, damping = phase + count * np.arctan(argument), damping + count * np.log1p(argument**2) / 2
        return 0.5 - 0.03 / math.pi * float((np.sin(phase) * np.exp(-damping)).sum())

    def lowest(sample: Counter[float], centre: float) -> float:
        low, high = -1.0 + 1e-9, centre
        if centre <= low or chance(sample, low) > tail:
            return -1.0
        for _ in range(24):
            middle = (low + high) / 2
            low, high = (middle, high) if chance(sample, middle) < tail else (low, middle)
        return low

    up, down = Counter(values), Counter({-value: count for value, count in values.items()})
    up[-1.0] += 1
    down[-1.0] += 1
    p = 2 * min(chance(up, 0.0), chance(down, 0.0))
    return lowest(up, mean), -lowest(down, -mean), min(1.0, max(0.0, p))


def bonett_price(wins: int, losses: int, n: int, level: float) -> tuple[float, float, float]:
    z = stats.norm.ppf(0.5 + level / 2)
    won, lost = (wins + 1) / (n + 2), (losses + 1) / (n + 2)
    error = math.sqrt((won + lost - (won - lost) ** 2) / (n + 2))
    p = 2 * stats.norm.sf(abs(won - lost) / error)
    return max(-1.0, won - lost - z * error), min(1.0, won - lost + z * error), p


# -- the decision ------------------------------------------------------------------------------------------------------


@dataclass
class Decided:
    word: str
    low: float
    high: float
    level: float
    p: float


Sample = tuple[list[int], list[Pairs]]  # cases and their scores
Question = tuple[int, int]


def decide(run: Run, questions: Sequence[Question]) -> dict[Question, tuple[Compared, Decided | None]]:
    """All verdicts on one score, weakened where lost pairs could have changed them."""
    everything = {question: compared(run, *question) for question in questions}
    data = {q: comparison for q, comparison in everything.items() if not any(never_answered(run, index) for index in q)}
    plain = decide_all(run, {question: (comparison.cases, comparison.scores) for question, comparison in data.items()})
    worst = decide_all(
        run, {question: (comparison.all_cases, comparison.worst) for question, comparison in data.items()}
    )
    best = decide_all(run, {question: (comparison.all_cases, comparison.best) for question, comparison in data.items()})
    for question, result in plain.items():
        low, high = worst[question], best[question]
        if result is not None and data[question].is_lossy:
            assert low is not None
            assert high is not None
            stands = {
                "better": low.word == "better",
                "worse": high.word == "worse",
                "equivalent": low.word == high.word == "equivalent",
                "not worse": low.word in ("better", "equivalent", "not worse"),
                "inconclusive": True,
            }
            if not stands[result.word]:
                result.word = "inconclusive"
    return {question: (everything[question], plain.get(question)) for question in questions}


def never_answered(run: Run, variant: int) -> bool:
    statuses = [row["status"] for (_, v, _), row in run.trials.items() if v == variant]
    return "ok" not in statuses and "error" in statuses


def differences(sample: Sample) -> list[float]:
    return [mean_difference(scores) for scores in sample[1]]


def at_the_end(run: Run, sample: Sample, level: float) -> tuple[float, float, float]:
    if is_about_these_cases(run):
        return on_these_cases(run, *sample, level)
    return final(run, sample[0], differences(sample), level)


def is_about_these_cases(run: Run) -> bool:
    """Check that the cases are too few to generalize, but their repeats can decide about these cases."""
    comparisons, groups = len(run.variants) - 1, list(run.planned_groups)
    units = len({group for group in groups if group is not None}) + groups.count(None)
    if units < len(groups) and units >= 5 and (run.repeats == 1 or len(groups) >= 60):
        return False
    unanimous = 2 * 0.5**units <= 0.05 / comparisons
    rearranged = 2 / math.comb(2 * run.repeats, run.repeats) ** len(groups) <= 0.05 / comparisons
    return not unanimous and rearranged


def on_these_cases(run: Run, cases: Sequence[int], pairs: Sequence[Pairs], level: float) -> tuple[float, float, float]:
    """Low, high, p: Gaffke's interval of all scores, and the permutation test on what is excluded."""
    groups = [run.groups[case] or ("alone", case) for case in cases]
    weights = [1 / groups.count(group) if run.weight == "group" else 1.0 for group in groups]
    weights = [weight / sum(weights) for weight in weights]
    mean = sum(weight * mean_difference(scores) for weight, scores in zip(weights, pairs, strict=True))
    heaviest = max(weight / len(scores) for weight, scores in zip(weights, pairs, strict=True))
    values: Counter[float] = Counter()
    for weight, scores in zip(weights, pairs, strict=True):
        for a, b in scores:
            for value in (2 * b - 1, 1 - 2 * a):
                values[value] += weight / len(scores) / heaviest  # type: ignore[assignment]
    low, high, p = weighted_gaffke(values, mean, level)
    rare = rearrangements(weights, pairs)
    binary = all(score in (0, 1) for scores in pairs for pair in scores for score in pair)
    p = rare if binary else max(rare, p)
    low, high = min(low, mean), max(high, mean)
    if p > 1 - level + 1e-12:
        return min(low, 0.0), max(high, 0.0), p
    return (max(low, 1e-9), high, p) if mean > 0 else (low, min(high, -1e-9), p)


def rearrangements(weights: Sequence[float], pairs: Sequence[Pairs]) -> float:
    """The two-sided p value over all ways to assign the scores of a case to the variant."""
    sums = Counter({0.0: 1})
    for weight, scores in zip(weights, pairs, strict=True):
        k, pool, grown = len(scores), [score for pair in scores for score in pair], Counter[float]()
        ways = Counter(round(sum(chosen), 9) for chosen in combinations(pool, k))
        for total, count in sums.items():
            for chosen, number in ways.items():
                grown[round(total + weight / k * chosen, 9)] += count * number
        sums = grown
    actual = sum(
        weight * sum(b for _, b in scores) / len(scores) for weight, scores in zip(weights, pairs, strict=True)
    )
    above = sum(count for total, count in sums.items() if total >= actual - 1e-9)
    below = sum(count for total, count in sums.items() if total <= actual + 1e-9)
    return min(1.0, 2 * min(above, below) / sums.total())


def decide_all(run: Run, samples: dict[Question, Sample]) -> dict[Question, Decided | None]:
    """Looks share α₁ equally, the end takes α₂ in Holm's order."""
    planned, ended = run.planned_cases, len(counted(run)) == run.planned_cases
    alpha, end = (0.02, 0.03) if planned >= 60 else (0.0, 0.05)
    alpha, end = (0.0, 0.05) if is_about_these_cases(run) else (alpha, end)
    ps = {
        question: at_the_end(run, sample, 0.97)[2] if ended and sample[0] else 1.0
        for question, sample in samples.items()
    }
    steps, divisor, going = {}, len(samples), True
    for question in sorted(samples, key=lambda question: ps[question]):
        steps[question] = divisor
        going = going and ps[question] <= end / divisor
        divisor -= going and divisor > 1
    return {
        question: _decided(run, sample, ended, alpha / len(samples), end / steps[question]) if sample[0] else None
        for question, sample in samples.items()
    }


def _decided(run: Run, sample: Sample, ended: bool, alpha: float, end: float) -> Decided:
    cases, values = sample[0], differences(sample)
    mean = estimate(units_of(run, cases, values))
    low, high, p = watched(run, cases, values, alpha) if alpha else (-1.0, 1.0, None)
    if p is None and not ended:
        most = sequence(units_of(run, cases, values), 0.5, largest(run))[2]
        return Decided("inconclusive", -1.0, 1.0, 1.0, most)
    if ended:
        look = low, high
        low_end, high_end, p = at_the_end(run, sample, 1 - end)
        low, high = max(low, low_end), min(high, high_end)
        if low > high:
            return Decided("inconclusive", -1.0, 1.0, 1.0, p)
        if not low <= mean <= high:
            low, high = look
    assert p is not None
    margin = run.margin
    if low > 0:
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
    adjusted, most = [0.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda index: ps[index])):
        most = max(most, ps[index] * (len(ps) - rank))
        adjusted[index] = min(1.0, most)
    return adjusted


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    order = sorted(range(len(ps)), key=lambda index: ps[index])
    return [
        min(1.0, min(ps[order[rank]] * len(ps) / (rank + 1) for rank in range(order.index(index), len(ps))))
        for index in range(len(ps))
    ]
