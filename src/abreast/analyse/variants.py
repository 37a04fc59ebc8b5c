"""One contender over all its trials: scores, failures, time, tokens, cost, and what its repeats say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from abreast.analyse.paired import Side, side_of
from abreast.analyse.rows import Bools, Floats, Ints, Rows
from abreast.stats import Interval, cost_per_correct, paired_t, pass_at_k, pass_hat_k, wilson
from abreast.stats.intervals.units import units_of
from abreast.stats.numerics.arrays import ROUNDING
from abreast.store.queries.trials import TOKENS

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
MODES = 8  # kinds of wrong answers told of a variant
MOST_TRIES = 10  # k of pass@k


@dataclass(frozen=True, slots=True)
class Repeats:
    """What several repeats of the same case say; only for scores that are plain yes or no."""

    pass_at: Mapping[int, float]  # the chance that at least one of k tries succeeds
    pass_hat: Mapping[int, float]  # and that all of them do
    consistent: float  # the share of cases whose repeats all have the same score


@dataclass(frozen=True, slots=True)
class VariantSummary:
    """One contender, over all its trials. Reused answers add no time and no cost."""

    name: str
    trials: int
    ok: int
    errors: dict[tuple[str, str], int]  # by kind and blame
    skipped: int
    unscored: int
    reused: int
    scores: dict[str, Interval]  # the mean of each, the primary one first
    primary: str | None
    cost_usd: float | None
    cost_per_correct: Interval | None
    latency: dict[str, float]  # service time: p50 … p99
    queue: dict[str, float]
    backoff: dict[str, float]
    tokens: dict[str, int]  # by class; only what the target told
    repeats: Repeats | None
    accuracy: float | None = None  # the mean score over trials; None if none of them was answered
    included_usd: float = 0.0  # of the cost, what a subscription pays
    in_vain_usd: float = 0.0  # beside it: attempts that failed by infrastructure and were made again
    unpriced: int = 0  # new answers whose cost is not known, so that `cost_usd` is not all of it

    @property
    def score(self) -> Interval | None:
        return self.scores.get(self.primary) if self.primary else None

    @property
    def all_failed(self) -> bool:
        """No trial gave an answer, and at least one failed: the mean of its scores says nothing about answers."""
        return not self.ok and bool(self.errors)

    @property
    def latency_p50(self) -> float | None:
        return self.latency.get("p50")

    @property
    def latency_p95(self) -> float | None:
        return self.latency.get("p95")


def error_counts(rows: Rows, variant: int) -> dict[tuple[str, str], int]:
    failed = (rows.variant == variant) & rows.error
    counts = Counter(zip(rows.kind[failed].tolist(), rows.blame[failed].tolist(), strict=True))
    return {(str(kind), str(blame)): count for (kind, blame), count in counts.items()}


def compared_trials(rows: Rows, base: int) -> dict[str, Bools]:
    """For each score, the trials whose scores tables show: those that are compared with the baseline.

    So the difference of two scores in a table is the effect that the verdict names. The baseline's own trials are those
    that every variant is compared on; if variants lost different cases, those that any of them is.
    """
    others = [index for index in range(len(rows.variants)) if index != base]
    if not others:
        return {}
    counted = np.zeros((rows.planned_cases, 1), dtype=bool)
    counted[rows.counted] = True
    masks = {}
    for name, score in {**({rows.primary: rows.score} if rows.primary else {}), **rows.scores}.items():
        scored = [~np.isnan(side_of(rows, index, score).score) & counted for index in range(len(rows.variants))]
        cells = {index: scored[index] & scored[base] for index in others}
        cells[base] = np.logical_or.reduce(list(cells.values()))
        masks[name] = np.zeros(len(rows.position), dtype=bool)
        for index, compared in cells.items():
            mine = rows.variant == index
            masks[name][mine] = compared[rows.case[mine], rows.repeat[mine]]
    return masks


def summarise(rows: Rows, variant: int, compared: Mapping[str, Bools] | None = None) -> VariantSummary:
    """Everything about one variant. Its scores are over the trials in `compared`, by the name of the score."""
    mine = rows.variant == variant
    new = mine & ~rows.reused
    answered = new & rows.ok
    cost = rows.cost_usd[new]
    scores = {rows.primary: rows.score} if rows.primary else {}  # also if all failed, so that there is none
    compared = compared or {}
    means = {
        name: mean_score(rows, mine & compared.get(name, True), score)
        for name, score in {**scores, **rows.scores}.items()
    }
    own = side_of(rows, variant, rows.score)
    return VariantSummary(
        name=rows.variants[variant],
        trials=int((mine & rows.present).sum()),
        ok=int((mine & rows.ok).sum()),
        errors=error_counts(rows, variant),
        skipped=int((mine & rows.skipped).sum()),
        unscored=int(np.isnan(rows.score[mine & rows.ok]).sum()) if rows.primary else 0,
        reused=int((mine & rows.reused).sum()),
        scores={name: mean for name, mean in means.items() if mean is not None},
        primary=rows.primary,
        cost_usd=float(np.nansum(cost)) if len(cost) and not np.isnan(cost).all() else None,
        cost_per_correct=_cost_per_correct(rows, own),
        latency=quantiles(rows.service_s[answered]),
        queue=quantiles(rows.queue_s[answered]),
        backoff=quantiles(rows.backoff_s[answered]),
        tokens={name: int(np.nansum(found)) for name in TOKENS if not np.isnan(found := rows.tokens[name][new]).all()},
        repeats=_repeats(own),
        accuracy=_accuracy(rows, mine),
        included_usd=float(np.nansum(rows.cost_usd[new & rows.included])),
        in_vain_usd=rows.in_vain_usd[variant],
        unpriced=int(np.isnan(rows.cost_usd[answered]).sum()),
    )


def _accuracy(rows: Rows, mine: Bools) -> float | None:
    """As the view `metrics` has it: of a variant that always failed nothing is known."""
    known = rows.score[mine & ~np.isnan(rows.score)]
    return float(known.mean()) if len(known) and (mine & rows.ok).any() else None


def quantiles(values: Floats) -> dict[str, float]:
    """The nearest ranks, as the view `metrics` has them."""
    known = values[~np.isnan(values)]
    if not len(known):
        return {}
    found = np.quantile(known, list(QUANTILES.values()), method="inverted_cdf")
    return dict(zip(QUANTILES, map(float, found), strict=True))


def mean_score(rows: Rows, mine: Bools, score: Floats) -> Interval | None:
    """The mean score over cases, or over groups if each weighs the same: Wilson for plain yes or no, else t.

    The view `metrics` has the same.
    """
    usable = mine & ~np.isnan(score)
    known = score[usable]
    if not len(known):
        return None
    cases, means = _mean_by(rows.case[usable], known)
    groups = rows.groups(cases)
    if groups is None and rows.repeats == 1 and np.isin(known, (0.0, 1.0)).all():
        return wilson(float(known.sum()), len(known))
    units = units_of(means, groups, rows.weight)
    if len(units) < 2:
        return Interval(units.estimate, 0.0, 1.0)
    interval = paired_t(means, groups=groups, weight=rows.weight)
    if interval.high - interval.low < ROUNDING:  # all alike: that is not certainty
        return wilson(min(1.0, max(0.0, units.estimate)) * len(units), len(units))
    return Interval(interval.estimate, max(0.0, interval.low), min(1.0, interval.high))


def _mean_by(keys: Ints, values: Floats) -> tuple[Ints, Floats]:
    unique, inverse = np.unique(keys, return_inverse=True)
    return unique, np.bincount(inverse, weights=values) / np.bincount(inverse)


def _cost_per_correct(rows: Rows, own: Side) -> Interval | None:
    """On the trials whose cost and score are known, case by case."""
    known = ~np.isnan(own.cost_usd) & ~np.isnan(own.score)
    cases = np.flatnonzero(known.any(axis=1))
    if not len(cases) or not own.cost_usd[known].any():
        return None
    trials = known.sum(axis=1)[cases]
    cost = np.where(known, own.cost_usd, 0.0).sum(axis=1)[cases] / trials
    correct = np.where(known, own.score, 0.0).sum(axis=1)[cases] / trials
    return cost_per_correct(cost, correct, cost, correct, groups=rows.groups(cases)).a


def _repeats(own: Side) -> Repeats | None:
    """Over the cases that have all repeats, if there is more than one and every score is 0 or 1."""
    whole = ~np.isnan(own.score).any(axis=1)
    scores, tries = own.score[whole], own.score.shape[1]
    if tries < 2 or not len(scores):
        return None
    consistent = float((np.ptp(scores, axis=1) < ROUNDING).mean())
    if not np.isin(scores, (0.0, 1.0)).all():
        return Repeats({}, {}, consistent)
    successes = Counter(scores.sum(axis=1).astype(int).tolist())

    def mean(of: object, k: int) -> float:
        chance = pass_at_k if of == "any" else pass_hat_k
        return sum(chance(tries, right, k) * number for right, number in successes.items()) / len(scores)

    ks = [k for k in range(1, tries + 1) if k <= MOST_TRIES or k == tries]
    return Repeats({k: mean("any", k) for k in ks}, {k: mean("all", k) for k in ks}, consistent)


def failures_by_case(rows: Rows) -> dict[tuple[int, int], Counter[tuple[str, str]]]:
    found: dict[tuple[int, int], Counter[tuple[str, str]]] = {}
    for at in np.flatnonzero(rows.error).tolist():
        kind = str(rows.kind[at]), str(rows.blame[at])
        found.setdefault((int(rows.case[at]), int(rows.variant[at])), Counter())[kind] += 1
    return found


_PARTICULAR = re.compile(
    r"U\+[0-9A-F]{4,6} [A-Z0-9 -]+|"
    r"""…?'(?:[^'\\]|\\.)*'…?|…?"(?:[^"\\]|\\.)*"…?|\[.*\]|\{.*\}|[-+]?\d[\d.,e+-]*""",
    re.DOTALL,
)


def failure_modes(rows: Rows) -> dict[str, list[tuple[str, int]]]:
    """How each contender's trials go wrong, the most frequent first: its errors by kind, and its wrong answers by what
    the scorer said, without what is particular to one case."""
    found = {name: Counter[str]() for name in rows.variants}
    for index, name in enumerate(rows.variants):
        mine = (rows.variant == index) & rows.error
        found[name].update(f"error: {kind}" for kind in rows.kind[mine].tolist())
    for variant, explanation, number in rows.store.queries.wrong_answers(rows.run_id, rows.primary):
        found[rows.variants[variant]][f"wrong: {_general(explanation or '')}"] += number
    return {name: modes.most_common(MODES) for name, modes in found.items()}


def _general(explanation: str) -> str:
    """What an explanation says besides the values of one case.

    >>> _general("read 41.5 (the last number), expected 42"), _general("names no class, expected 'cat'")
    ('read … (the last number), expected …', 'names no class, expected …')
    >>> _general("only whitespace differs, first at character 5: read U+00A0 NO-BREAK SPACE, expected U+0020 SPACE")
    'only whitespace differs, first at character …: read …, expected …'
    """
    text = _PARTICULAR.sub("…", explanation[:2_000]).strip()
    return (text if len(text) <= 120 else text[:119] + "…") or "without an explanation"
