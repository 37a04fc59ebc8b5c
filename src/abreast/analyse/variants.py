"""One contender over all its trials: scores, failures, time, tokens, cost, and the agreement of its repeats."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from abreast.analyse.paired import TrialGrid, trial_grid
from abreast.analyse.rows import Bools, Floats, Ints, Rows, mean_of_known
from abreast.stats import Interval, cost_per_correct, paired_t, pass_at_k, pass_hat_k, wilson
from abreast.stats.intervals.units import units_of
from abreast.stats.numerics.arrays import ROUNDING
from abreast.store.queries.trials import TOKENS

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
MODES = 8  # kinds of wrong answers listed for a variant
MOST_TRIES = 10  # k of pass@k


@dataclass(frozen=True, slots=True)
class Repeats:
    """Agreement of the repeats of a case; pass rates only for scores that are 0 or 1."""

    pass_at: Mapping[int, float]  # chance that at least one of k tries succeeds, by k
    pass_hat: Mapping[int, float]  # chance that all of k tries succeed, by k
    consistent: float  # the share of cases whose repeats all have the same score


@dataclass(frozen=True, slots=True)
class VariantSummary:
    """One contender, over all its trials. Reused answers add no time and no cost."""

    name: str
    trials: int
    ok: int
    errors: dict[tuple[str, str], int]  # count by kind and blame
    skipped: int
    unscored: int
    reused: int
    scores: dict[str, Interval]  # mean by score, the primary one first
    primary: str | None
    cost_usd: float | None
    cost_per_correct: Interval | None
    latency: dict[str, float]  # service time: p50 … p99
    queue: dict[str, float]
    backoff: dict[str, float]
    tokens: dict[str, int]  # count by class, as reported by the target
    repeats: Repeats | None
    accuracy: float | None = None  # the mean score over trials; None if none of them was answered
    included_usd: float = 0.0  # part of the cost that a subscription covers
    in_vain_usd: float = 0.0  # cost of retried attempts that infrastructure failed; not part of `cost_usd`
    unpriced: int = 0  # new answers of unknown cost, which `cost_usd` lacks

    @property
    def score(self) -> Interval | None:
        return self.scores.get(self.primary) if self.primary else None

    @property
    def all_failed(self) -> bool:
        """Whether no trial gave an answer and at least one failed; then its mean score says nothing about answers."""
        return not self.ok and bool(self.errors)


def error_counts(rows: Rows, variant: int) -> dict[tuple[str, str], int]:
    failed = (rows.variant == variant) & rows.error
    counts = Counter(zip(rows.kind[failed].tolist(), rows.blame[failed].tolist(), strict=True))
    return {(str(kind), str(blame)): count for (kind, blame), count in counts.items()}


def compared_trials(rows: Rows, base: int) -> dict[str, Bools]:
    """By score, the trials that enter the mean scores in tables: those that are compared with the baseline.

    So the difference of two scores in a table is the effect that the verdict reports. For the baseline these are the
    trials that any variant is compared on.
    """
    others = [index for index in range(len(rows.variants)) if index != base]
    if not others:
        return {}
    counted = np.zeros((rows.planned_cases, 1), dtype=bool)
    counted[rows.counted] = True
    masks = {}
    for name, score in {**({rows.primary: rows.score} if rows.primary else {}), **rows.scores}.items():
        scored = [~np.isnan(trial_grid(rows, index, score).score) & counted for index in range(len(rows.variants))]
        cells = {index: scored[index] & scored[base] for index in others}
        cells[base] = np.logical_or.reduce(list(cells.values()))
        masks[name] = np.zeros(len(rows.position), dtype=bool)
        for index, compared in cells.items():
            of_variant = rows.variant == index
            masks[name][of_variant] = compared[rows.case[of_variant], rows.repeat[of_variant]]
    return masks


def summarise(rows: Rows, variant: int, compared: Mapping[str, Bools] | None = None) -> VariantSummary:
    """Summarise one variant. Scores are means over the trials in `compared`, by score."""
    of_variant = rows.variant == variant
    new = of_variant & ~rows.reused
    answered = new & rows.ok
    cost = rows.cost_usd[new]
    scores = {rows.primary: rows.score} if rows.primary else {}  # also if all trials failed and none has a score
    compared = compared or {}
    means = {
        name: mean_score(rows, of_variant & compared.get(name, True), score)
        for name, score in {**scores, **rows.scores}.items()
    }
    own = trial_grid(rows, variant, rows.score)
    return VariantSummary(
        name=rows.variants[variant],
        trials=int((of_variant & rows.present).sum()),
        ok=int((of_variant & rows.ok).sum()),
        errors=error_counts(rows, variant),
        skipped=int((of_variant & rows.skipped).sum()),
        unscored=int(np.isnan(rows.score[of_variant & rows.ok]).sum()) if rows.primary else 0,
        reused=int((of_variant & rows.reused).sum()),
        scores={name: mean for name, mean in means.items() if mean is not None},
        primary=rows.primary,
        cost_usd=float(np.nansum(cost)) if len(cost) and not np.isnan(cost).all() else None,
        cost_per_correct=_cost_per_correct(rows, own),
        latency=quantiles(rows.service_s[answered]),
        queue=quantiles(rows.queue_s[answered]),
        backoff=quantiles(rows.backoff_s[answered]),
        tokens={name: int(np.nansum(count)) for name in TOKENS if not np.isnan(count := rows.tokens[name][new]).all()},
        repeats=_repeats(own),
        accuracy=mean_of_known(rows.score[of_variant]) if (of_variant & rows.ok).any() else None,
        included_usd=float(np.nansum(rows.cost_usd[new & rows.included])),
        in_vain_usd=rows.in_vain_usd[variant],
        unpriced=int(np.isnan(rows.cost_usd[answered]).sum()),
    )


def quantiles(values: Floats) -> dict[str, float]:
    """Nearest-rank quantiles, as in the view `metrics`."""
    numbers = values[~np.isnan(values)]
    if not len(numbers):
        return {}
    ranks = np.quantile(numbers, list(QUANTILES.values()), method="inverted_cdf")
    return dict(zip(QUANTILES, map(float, ranks), strict=True))


def mean_score(rows: Rows, trials: Bools, score: Floats) -> Interval | None:
    """The mean score over cases, or over groups if each weighs the same, as in the view `metrics`.

    The interval is Wilson's for scores of 0 and 1, else Student's t.
    """
    usable = trials & ~np.isnan(score)
    scores = score[usable]
    if not len(scores):
        return None
    cases, means = _mean_by(rows.case[usable], scores)
    groups = rows.groups(cases)
    if groups is None and rows.repeats == 1 and np.isin(scores, (0.0, 1.0)).all():
        return wilson(float(scores.sum()), len(scores))
    units = units_of(means, groups, rows.weight)
    if len(units) < 2:
        return Interval(units.estimate, 0.0, 1.0)
    interval = paired_t(means, groups=groups, weight=rows.weight)
    if interval.high - interval.low < ROUNDING:  # identical values are not certainty
        return wilson(min(1.0, max(0.0, units.estimate)) * len(units), len(units))
    return Interval(interval.estimate, max(0.0, interval.low), min(1.0, interval.high))


def _mean_by(keys: Ints, values: Floats) -> tuple[Ints, Floats]:
    unique, inverse = np.unique(keys, return_inverse=True)
    return unique, np.bincount(inverse, weights=values) / np.bincount(inverse)


def _cost_per_correct(rows: Rows, grid: TrialGrid) -> Interval | None:
    """Compute the cost per correct answer from the trials of known cost and score, case by case."""
    usable = ~np.isnan(grid.cost_usd) & ~np.isnan(grid.score)
    cases = np.flatnonzero(usable.any(axis=1))
    if not len(cases) or not grid.cost_usd[usable].any():
        return None
    trials = usable.sum(axis=1)[cases]
    cost = np.where(usable, grid.cost_usd, 0.0).sum(axis=1)[cases] / trials
    correct = np.where(usable, grid.score, 0.0).sum(axis=1)[cases] / trials
    return cost_per_correct(cost, correct, cost, correct, groups=rows.groups(cases)).a


def _repeats(grid: TrialGrid) -> Repeats | None:
    """Measure agreement over the cases that have all repeats; None without repeats."""
    scores, tries = grid.score[~np.isnan(grid.score).any(axis=1)], grid.score.shape[1]
    if tries < 2 or not len(scores):
        return None
    consistent = float((np.ptp(scores, axis=1) < ROUNDING).mean())
    if not np.isin(scores, (0.0, 1.0)).all():
        return Repeats({}, {}, consistent)
    successes = Counter(scores.sum(axis=1).astype(int).tolist())

    def mean(chance: Callable[[int, int, int], float], k: int) -> float:
        return sum(chance(tries, right, k) * cases for right, cases in successes.items()) / len(scores)

    ks = [k for k in range(1, tries + 1) if k <= MOST_TRIES or k == tries]
    return Repeats({k: mean(pass_at_k, k) for k in ks}, {k: mean(pass_hat_k, k) for k in ks}, consistent)


def failures_by_case(rows: Rows) -> dict[tuple[int, int], Counter[tuple[str, str]]]:
    """Failures by kind and blame, for each case and variant that has any."""
    failures: dict[tuple[int, int], Counter[tuple[str, str]]] = {}
    for at in np.flatnonzero(rows.error).tolist():
        kind = str(rows.kind[at]), str(rows.blame[at])
        failures.setdefault((int(rows.case[at]), int(rows.variant[at])), Counter())[kind] += 1
    return failures


_VALUES = re.compile(  # values of one case in a scorer's explanation
    r"U\+[0-9A-F]{4,6} [A-Z0-9 -]+|"
    r"""…?'(?:[^'\\]|\\.)*'…?|…?"(?:[^"\\]|\\.)*"…?|\[.*\]|\{.*\}|[-+]?\d[\d.,e+-]*""",
    re.DOTALL,
)


def failure_modes(rows: Rows) -> dict[str, list[tuple[str, int]]]:
    """Count the ways in which each variant fails, the most frequent first: errors by kind, and wrong answers by the
    scorer's explanation without the values of the case."""
    modes = {name: Counter[str]() for name in rows.variants}
    for index, name in enumerate(rows.variants):
        failed = (rows.variant == index) & rows.error
        modes[name].update(f"error: {kind}" for kind in rows.kind[failed].tolist())
    for variant, explanation, count in rows.store.queries.wrong_answers(rows.run_id, rows.primary):
        modes[rows.variants[variant]][f"wrong: {_general(explanation or '')}"] += count
    return {name: counts.most_common(MODES) for name, counts in modes.items()}


def _general(explanation: str) -> str:
    """Replace the values of one case in a scorer's explanation.

    >>> _general("read 41.5 (the last number), expected 42"), _general("names no class, expected 'cat'")
    ('read … (the last number), expected …', 'names no class, expected …')
    >>> _general("only whitespace differs, first at character 5: read U+00A0 NO-BREAK SPACE, expected U+0020 SPACE")
    'only whitespace differs, first at character …: read …, expected …'
    """
    text = _VALUES.sub("…", explanation[:2_000]).strip()
    return (text if len(text) <= 120 else text[:119] + "…") or "without an explanation"
