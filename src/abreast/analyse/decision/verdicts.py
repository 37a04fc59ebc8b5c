"""From paired cases to verdicts: interim looks, Holm's order, and bounds for lost pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from abreast import stats
from abreast.analyse.paired import PairedScores, Pairs
from abreast.analyse.rows import Floats, Ints
from abreast.stats.calibration import case_weights
from abreast.stats.intervals.population import ALL_CASES, THESE_CASES
from abreast.stats.verdict import SEQUENTIAL_CASES

DRAWN = 0.05  # chance of error of a sequence that is only displayed, because too few cases are planned

Question = tuple[int, int]  # the indexes of baseline and variant


@dataclass(frozen=True, slots=True)
class DecisionRule:
    """The rule by which differences become a verdict; fixed before the run."""

    margin: float = 0.0
    weight: stats.Weight = "case"
    largest: int = 1  # cases in the largest group of the plan
    only_sequence: bool = False  # an earlier run has used up the final interval's chance of error
    population: stats.Population = ALL_CASES  # the cases that the verdict is about


@dataclass(frozen=True, slots=True)
class Decided:
    """A verdict with its interim looks and the scores behind it."""

    verdict: stats.Verdict
    looks: tuple[stats.Look, ...]  # empty without interim looks
    scores: tuple[float, float] | None  # mean scores of baseline and variant on the compared cases
    bounds: tuple[float, float] | None  # the difference with lost pairs counted at their worst and at their best


@dataclass(frozen=True, slots=True)
class _ScoredCases:
    """The scores of each compared case; `dropped` counts the cases without scores."""

    cases: Ints
    repeats: PairedScores
    differences: Floats
    dropped: int

    @classmethod
    def of(cls, cases: Ints, repeats: PairedScores, dropped: int) -> _ScoredCases:
        return cls(cases, repeats, repeats.differences, dropped)


class Decider:
    """Decides all comparisons of a run, or of two runs, together."""

    def __init__(
        self,
        planned: Mapping[Question, int],
        groups_of: Callable[[Question, Ints], list[str] | None],
        rule: DecisionRule,
        watch: bool = True,
    ) -> None:
        """With `watch`, cases are in the order in which they were started, and interim looks count."""
        self._planned, self._groups_of, self._rule, self._watch = planned, groups_of, rule, watch

    def decide(self, paired: Mapping[Question, Pairs]) -> dict[Question, Decided]:
        if not paired:
            return {}
        samples = {q: _ScoredCases.of(pairs.cases, pairs.repeats, pairs.dropped) for q, pairs in paired.items()}
        looks = {q: self._looks(q, sample) for q, sample in samples.items()}
        results = self._verdicts(samples, looks)
        if any(pairs.worst for pairs in paired.values()):
            low, high = ({q: _at_worst(pairs, end) for q, pairs in paired.items()} for end in ("low", "high"))
            results = self._demote(results, paired, low, high)
        return {
            q: Decided(
                results[q],
                looks[q],
                (self._mean(q, pairs.cases, pairs.baseline), self._mean(q, pairs.cases, pairs.variant))
                if len(pairs.cases)
                else None,
                (self._mean(q, low[q].cases, low[q].differences), self._mean(q, high[q].cases, high[q].differences))
                if pairs.worst
                else None,
            )
            for q, pairs in paired.items()
        }

    def decide_on_these_cases(self, paired: Mapping[Question, Pairs]) -> dict[Question, stats.Verdict]:
        """Verdicts about these cases alone; none if the verdict is about them anyway, or has enough cases."""
        if self._rule.population == THESE_CASES or max(self._planned.values(), default=0) >= SEQUENTIAL_CASES:
            return {}
        rule = replace(self._rule, population=THESE_CASES)
        decided = Decider(self._planned, self._groups_of, rule, watch=False).decide(paired)
        return {question: item.verdict for question, item in decided.items()}

    def _demote(
        self,
        results: dict[Question, stats.Verdict],
        paired: Mapping[Question, Pairs],
        low: Mapping[Question, _ScoredCases],
        high: Mapping[Question, _ScoredCases],
    ) -> dict[Question, stats.Verdict]:
        """Replace verdicts that the lost pairs, at worst or at best, would have changed by `inconclusive`."""
        worst, best = (self._verdicts(end, {q: self._looks(q, end[q]) for q in end}) for end in (low, high))
        return {
            q: result
            if paired[q].worst is None or stands(result.word, worst[q].word, best[q].word)
            else replace(result, word="inconclusive", demoted=result.word)
            for q, result in results.items()
        }

    def _looks(self, question: Question, sample: _ScoredCases) -> tuple[stats.Look, ...]:
        if not self._watch:
            return ()
        groups, rule = self._groups_of(question, sample.cases), self._rule
        alpha = self._sequence_alpha or DRAWN
        return tuple(
            stats.watched(
                sample.differences, alpha, rule.margin or None, groups, weight=rule.weight, largest=rule.largest
            )
        )

    @property
    def _sequence_alpha(self) -> float:
        if self._rule.population == THESE_CASES:
            return 0.0
        planned = max(1, *self._planned.values())
        return stats.alphas(planned, len(self._planned), self._rule.only_sequence)[0]

    def _verdicts(
        self, samples: Mapping[Question, _ScoredCases], looks: Mapping[Question, tuple[stats.Look, ...]]
    ) -> dict[Question, stats.Verdict]:
        rule = self._rule
        groups = {q: self._groups_of(q, sample.cases) for q, sample in samples.items()}
        results = stats.verdicts(
            {_key(q): sample.differences for q, sample in samples.items()},
            {_key(q): max(1, self._planned[q]) for q in samples},
            rule.margin,
            {_key(q): labels for q, labels in groups.items() if labels is not None},
            weight=rule.weight,
            largest=rule.largest,
            seen={_key(q): history[-1] for q, history in looks.items() if history and self._sequence_alpha},
            dropped={_key(q): sample.dropped for q, sample in samples.items()},
            only_sequence=rule.only_sequence,
            repeats={_key(q): self._repeats(q, sample) for q, sample in samples.items() if len(sample.cases)}
            if rule.population == THESE_CASES
            else None,
        )
        return {q: results[_key(q)] for q in samples}

    def _repeats(self, question: Question, sample: _ScoredCases) -> stats.RepeatedScores:
        groups = self._groups_of(question, sample.cases)
        weights = None if groups is None else case_weights(groups, self._rule.weight)
        return stats.RepeatedScores.of(sample.repeats.baseline, sample.repeats.variant, weights)

    def _mean(self, question: Question, cases: Ints, values: Floats) -> float:
        return stats.weighted_mean(values, self._groups_of(question, cases), self._rule.weight)


def _key(question: Question) -> str:
    return f"{question[0]}:{question[1]}"


def _at_worst(pairs: Pairs, end: str) -> _ScoredCases:
    if pairs.worst is None:
        return _ScoredCases.of(pairs.cases, pairs.repeats, pairs.dropped)
    return _ScoredCases.of(pairs.worst.cases, pairs.worst.low if end == "low" else pairs.worst.high, pairs.skipped)


def stands(word: stats.Word, at_worst: stats.Word, at_best: stats.Word) -> bool:
    """Whether a verdict survives the lost pairs.

    >>> stands("better", "inconclusive", "better"), stands("not worse", "not worse", "better")
    (False, True)
    """
    if word == "better":
        return at_worst == "better"
    if word == "worse":
        return at_best == "worse"
    if word == "equivalent":
        return at_worst == at_best == "equivalent"
    return word != "not worse" or at_worst in ("not worse", "equivalent", "better")


CENSORED = {
    "timeout": "timeouts",
    "too_long": "prompts that were too long",
    "too_big": "answers that were too big",
    "resources": "stops for lack of memory",
    "refused": "refusals",
}
CHANCE = 0.05

Errors = Mapping[tuple[str, str], int]  # count by kind and blame


@dataclass(frozen=True, slots=True)
class Censoring:
    """One kind of failure that one variant has more often than another, beyond chance."""

    kind: str
    baseline: int
    variant: int

    @property
    def noun(self) -> str:
        return CENSORED[self.kind]


def lopsided(baseline: Errors, variant: Errors) -> tuple[Censoring, ...]:
    """Kinds of censoring that one of two variants meets more often, beyond chance; both have about as many trials.

    >>> lopsided({}, {("timeout", "variant"): 14})
    (Censoring(kind='timeout', baseline=0, variant=14),)
    >>> lopsided({("timeout", "variant"): 9}, {("timeout", "variant"): 14})
    ()
    """
    counts = [Censoring(kind, _count(baseline, kind), _count(variant, kind)) for kind in CENSORED]
    return tuple(item for item in counts if stats.mcnemar(item.baseline, item.variant, exact=True).p < CHANCE)


def _count(errors: Errors, kind: str) -> int:
    return sum(number for (name, _), number in errors.items() if name == kind)
