"""Early stopping: decide by the same rule as the report whether a run may stop.

Cases count in the order in which they were started, up to the first incomplete one. Trials finish in another order,
slow failures last, and counting them as they finish would flatter a variant.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Sequence

import numpy as np

from abreast.analyse.decision.verdicts import DecisionRule, stands
from abreast.execute.early_stopping import Decision
from abreast.plan.plan import Plan
from abreast.stats import Futility, RunningSequence, Verdict, alphas, futility, looks, verdict
from abreast.stats.numerics.arrays import ROUNDING
from abreast.stats.verdict import SEQUENTIAL_CASES

MIN_CASES = 30

_UNKNOWN, _LOST, _SKIPPED = math.inf, math.nan, -1.0


class UntilDecided:
    """Observes the score of each trial, in any order, until every comparison is settled or futile.

    With fewer than 60 planned cases it never stops a run: the verdict comes at the end.
    """

    def __init__(
        self,
        plan: Plan,
        baseline: str,
        score: str,
        rule: DecisionRule | None = None,
        min_cases: int = MIN_CASES,
        begun: Collection[int] = (),
    ) -> None:
        """`begun` are cases that earlier executions of the run completed in part."""
        self.score = score
        self.decision: Decision | None = None
        self.begun = begun
        self._plan, self._min_cases, self._rule = plan, min_cases, rule or DecisionRule()
        self._planned = len(plan.cases)
        self._per_case = len(plan.variants) * plan.repeats
        self._scores = array("d", [_UNKNOWN]) * len(plan)
        self._missing = array("q", [self._per_case]) * self._planned
        self._complete = 0  # cases, in the order of their starts
        self._groups = _numbered(plan.cases.groups)
        names = [variant.name for variant in plan.variants]
        self._base = names.index(baseline)
        others = [index for index in range(len(names)) if index != self._base]
        self._comparisons = [
            _RunningComparison(
                names[index], baseline, index, planned=self._planned, comparisons=len(others), rule=self._rule
            )
            for index in others
        ]
        self._decides = bool(others) and (self._planned >= SEQUENTIAL_CASES or self._rule.only_sequence)

    def observe(self, position: int, value: float | None, skipped: bool = False) -> Decision | None:
        """Process the final score of a trial: 0 for the variant's own failure, None if the outcome is lost."""
        if self._scores[position] != _UNKNOWN or not self._decides:
            return self.decision
        usable = value if value is not None and 0 <= value <= 1 else _LOST
        self._scores[position] = _SKIPPED if skipped else usable
        turn = self._plan.block(position // self._per_case, 0) // self._plan.repeats
        self._missing[turn] -= 1
        if turn == self._complete and not self._missing[turn]:
            self._advance()
        return self.decision

    def _advance(self) -> None:
        """Process the cases that are complete without a gap, until the run is decided."""
        while self.decision is None and self._complete < self._planned and not self._missing[self._complete]:
            case = self._plan.case(self._complete * self._plan.repeats)
            first, self._complete = case * self._per_case, self._complete + 1
            scores = self._scores[first : first + self._per_case]
            group = None if self._groups is None else self._groups[case]
            has_looked = [comparison.add(scores, self._base, group) for comparison in self._comparisons]
            if any(has_looked) and self._complete < self._planned:
                self.decision = self._decision()

    def _decision(self) -> Decision | None:
        enough = all(comparison.cases >= self._min_cases for comparison in self._comparisons)
        if not enough or not all(comparison.settled or comparison.futile for comparison in self._comparisons):
            return None
        settled = [comparison.sentence() for comparison in self._comparisons if comparison.settled]
        undecided = [comparison for comparison in self._comparisons if not comparison.settled]
        if not undecided:
            message = f"decided: {', '.join(settled)} after {self._complete:,} of {self._planned:,} cases"
            return Decision("decided", message, self._complete, self._planned)
        chance = max(comparison.futility.chance for comparison in undecided)
        names = "it" if len(self._comparisons) == 1 else " or ".join(comparison.name for comparison in undecided)
        remaining = f"the remaining {self._planned - self._complete:,} cases"
        futile = f"the chance that {remaining} decide {names} is {_percent(chance)}"
        return Decision("futile", f"futile: {'; '.join([*settled, futile])}", self._complete, self._planned)


class _CaseDifferences:
    """One difference per case, with its group if cases have groups."""

    def __init__(self) -> None:
        self.values, self.groups = array("d"), array("q")

    def __len__(self) -> int:
        return len(self.values)

    def add(self, value: float, group: int | None) -> None:
        self.values.append(value)
        if group is not None:
            self.groups.append(group)

    def complete(self) -> tuple[np.typing.NDArray[np.float64], list[int] | None]:
        """Values and groups, without the last group, which may be incomplete."""
        values, groups = np.array(self.values), self.groups.tolist()
        if not groups:
            return values, None
        end = groups.index(groups[-1])
        return values[:end], groups[:end]


class _RunningComparison:
    """One variant against the baseline while the run goes on."""

    def __init__(
        self, name: str, baseline: str, index: int, planned: int, comparisons: int, rule: DecisionRule
    ) -> None:
        self.name, self._baseline, self._index = name, baseline, index
        self._planned, self._comparisons, self._rule = planned, comparisons, rule
        self._alpha, _ = alphas(planned, comparisons, rule.only_sequence)
        self._sequence = RunningSequence(self._alpha, rule.margin or None, weight=rule.weight, largest=rule.largest)
        self._schedule = iter(looks(planned))
        self._next = next(self._schedule)
        self._compared, self._worst, self._best = _CaseDifferences(), _CaseDifferences(), _CaseDifferences()
        self._observed = 0  # cases that the sequence has seen
        self._skipped = 0
        self._lost = 0
        self.verdict: Verdict | None = None
        self.futility = Futility(False, 1.0)

    @property
    def cases(self) -> int:
        return len(self._compared)

    @property
    def settled(self) -> bool:
        return self.verdict is not None and self.verdict.settled

    @property
    def futile(self) -> bool:
        return self.futility.stop

    def add(self, scores: Sequence[float], base: int, group: int | None) -> bool:
        """Add one more case; return whether a look was due."""
        step = self._comparisons + 1
        pairs = [
            pair for pair in zip(scores[base::step], scores[self._index :: step], strict=True) if _SKIPPED not in pair
        ]
        if not pairs:
            self._skipped += 1
            return False
        complete = [pair for pair in pairs if not any(map(math.isnan, pair))]
        self._lost += len(complete) < len(pairs)
        self._worst.add(_difference(pairs, baseline=1.0, variant=0.0), group)
        self._best.add(_difference(pairs, baseline=0.0, variant=1.0), group)
        if not complete:
            return False
        self._compared.add(_difference(complete), group)
        if self.cases < self._next:
            return False
        self._look()
        self._next = next(self._schedule, self._planned + 1)
        return True

    def _look(self) -> None:
        """Look at exactly the numbers of cases in `looks`, as the report does from the rows."""
        compared, rule = self._compared, self._rule
        batch = np.array(compared.values[self._observed :])
        look = self._sequence.observe(batch, compared.groups[self._observed :].tolist() if compared.groups else None)
        self._observed = len(compared)
        self.verdict = None  # an earlier verdict may no longer hold
        if look.low > 0 or look.high < 0 or look.equivalent:
            self.verdict = self._verdict(compared)
            if self._lost and self.verdict.settled:
                worst, best = self._verdict(self._worst), self._verdict(self._best)
                if not stands(self.verdict.word, worst.word, best.word):
                    self.verdict = None
        values, groups = compared.complete()
        if len(values) and not self.settled:
            expected = max(1, self._planned - self._skipped)
            alpha = alphas(self._planned, 1, rule.only_sequence)
            self.futility = futility(values, expected, rule.margin, groups, alpha[1] or alpha[0], weight=rule.weight)

    def _verdict(self, differences: _CaseDifferences) -> Verdict:
        values, groups = differences.complete()
        return verdict(
            values,
            self._planned,
            self._rule.margin,
            groups,
            weight=self._rule.weight,
            largest=self._rule.largest,
            comparisons=self._comparisons,
            seen=self._sequence.look() if differences is self._compared else None,
            dropped=self._planned_without(differences),
            only_sequence=self._rule.only_sequence,
        )

    def _planned_without(self, differences: _CaseDifferences) -> int:
        """Number of cases without a difference."""
        return self._skipped + (len(self._worst) - len(differences))

    def sentence(self) -> str:
        word = self.verdict.word if self.verdict else "inconclusive"
        if word == "equivalent":
            return f"{self.name} is equivalent to {self._baseline} within ±{self._rule.margin:g}"
        return f"{self.name} is {word} than {self._baseline}"


def _difference(pairs: Sequence[tuple[float, float]], baseline: float = 0.0, variant: float = 0.0) -> float:
    """The mean of the variant minus that of the baseline, with these scores for the lost outcomes."""
    sides = (baseline, variant)
    first, second = (
        math.fsum(sides[side] if math.isnan(pair[side]) else pair[side] for pair in pairs) / len(pairs)
        for side in (0, 1)
    )
    return 0.0 if abs(second - first) < ROUNDING else second - first


def _numbered(groups: Sequence[str | None]) -> array[int] | None:
    """The group of each case as a number, unique for cases without one; None if no case has a group."""
    numbers: dict[str, int] = {}
    ids = (
        len(groups) + case if group is None else numbers.setdefault(group, len(numbers))
        for case, group in enumerate(groups)
    )
    numbered = array("q", ids)
    return numbered if numbers else None


def _percent(share: float) -> str:
    """A share in percent; never `0 %`.

    >>> _percent(0.0213), _percent(0.00004)
    ('2 %', 'under 1 %')
    """
    return f"{share * 100:.0f} %" if share >= 0.005 else "under 1 %"
