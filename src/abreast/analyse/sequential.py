"""Whether a run has seen enough: looked at while it goes on, by the rule that the report follows afterwards.

What counts are cases in the order in which they were started, up to the first that is not complete. Trials end in
another order, and slow failures last: taken as they end, they would flatter a variant.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Sequence

import numpy as np

from abreast.execute import Decision
from abreast.plan import Plan
from abreast.stats import Futility, RunningSequence, Verdict, alphas, futility, looks, verdict
from abreast.stats.values import ROUNDING
from abreast.stats.verdict import SEQUENTIAL_CASES

MIN_CASES = 30

_UNKNOWN, _INCOMPARABLE = math.inf, math.nan


class UntilDecided:
    """Hears the score of each trial, in any order, and says when every comparison is settled or not worth more cases.

    With fewer than 60 planned cases it never does: then all of the verdict comes at the end.
    """

    def __init__(
        self,
        plan: Plan,
        baseline: str,
        score: str,
        margin: float | None = None,
        min_cases: int = MIN_CASES,
        begun: Collection[int] = (),
    ) -> None:
        """`begun` are cases of which earlier executions of the run have left only a part."""
        self.score = score
        self.decision: Decision | None = None
        self.begun = begun
        self._plan, self._min_cases, self._margin = plan, min_cases, margin or 0.0
        self._planned = len(plan.cases)
        self._per_case = len(plan.variants) * plan.repeats
        self._scores = array("d", [_UNKNOWN]) * len(plan)
        self._left = array("q", [self._per_case]) * self._planned
        self._complete = 0  # cases, in the order of their starts
        self._groups = _numbered(plan.cases.groups)
        names = [variant.name for variant in plan.variants]
        self._base = names.index(baseline)
        others = [index for index in range(len(names)) if index != self._base]
        self._comparisons = [
            _Comparison(names[index], baseline, index, self._planned, len(others), self._margin) for index in others
        ]
        self._decides = bool(others) and self._planned >= SEQUENTIAL_CASES

    def observe(self, position: int, value: float | None) -> Decision | None:
        """The final score of a trial, 0 for a failure of the variant's own, None if it cannot be compared."""
        if self._scores[position] != _UNKNOWN or not self._decides:
            return self.decision
        self._scores[position] = value if value is not None and 0 <= value <= 1 else _INCOMPARABLE
        turn = self._plan.block(position // self._per_case, 0) // self._plan.repeats
        self._left[turn] -= 1
        if turn == self._complete and not self._left[turn]:
            self._go_on()
        return self.decision

    def _go_on(self) -> None:
        """Through the cases that are complete without a gap, until it is decided."""
        while self.decision is None and self._complete < self._planned and not self._left[self._complete]:
            case = self._plan.case(self._complete * self._plan.repeats)
            first, self._complete = case * self._per_case, self._complete + 1
            scores = self._scores[first : first + self._per_case]
            group = None if self._groups is None else self._groups[case]
            looked = [comparison.add(scores, self._base, group) for comparison in self._comparisons]
            if any(looked) and self._complete < self._planned:
                self.decision = self._decision()

    def _decision(self) -> Decision | None:
        enough = all(comparison.cases >= self._min_cases for comparison in self._comparisons)
        if not enough or not all(comparison.settled or comparison.futile for comparison in self._comparisons):
            return None
        settled = [comparison.sentence() for comparison in self._comparisons if comparison.settled]
        open_ones = [comparison for comparison in self._comparisons if not comparison.settled]
        if not open_ones:
            told = f"decided: {', '.join(settled)} after {self._complete:,} of {self._planned:,} cases"
            return Decision("decided", told, self._complete, self._planned)
        chance = max(comparison.futility.chance for comparison in open_ones)
        left = self._planned - self._complete
        what = "it" if len(self._comparisons) == 1 else " or ".join(comparison.name for comparison in open_ones)
        futile = f"the chance that the remaining {left:,} cases decide {what} is {_percent(chance)}"
        return Decision("futile", f"futile: {'; '.join([*settled, futile])}", self._complete, self._planned)


class _Comparison:
    """One contender against the baseline: a difference for each case that has one, and the looks at them."""

    def __init__(self, name: str, baseline: str, index: int, planned: int, comparisons: int, margin: float) -> None:
        self.name, self._baseline, self._index = name, baseline, index
        self._planned, self._comparisons, self._margin = planned, comparisons, margin
        self._sequence = RunningSequence(alphas(planned, comparisons)[0], margin or None)
        self._schedule = iter(looks(planned))
        self._next = next(self._schedule)
        self._differences, self._groups = array("d"), array("q")
        self._seen = 0  # so many of them have been looked at
        self._dropped = 0  # cases without a pair of scores
        self.verdict: Verdict | None = None
        self.futility = Futility(False, 1.0)

    @property
    def cases(self) -> int:
        return len(self._differences)

    @property
    def settled(self) -> bool:
        return self.verdict is not None and self.verdict.settled

    @property
    def futile(self) -> bool:
        return self.futility.stop

    def add(self, scores: Sequence[float], base: int, group: int | None) -> bool:
        """One more case; whether that was the time to look."""
        difference = self._difference(scores, base)
        if difference is None:
            self._dropped += 1
            return False
        self._differences.append(difference)
        if group is not None:
            self._groups.append(group)
        if self.cases < self._next:
            return False
        self._look()
        self._next = next(self._schedule, self._planned + 1)
        return True

    def _difference(self, scores: Sequence[float], base: int) -> float | None:
        """The means over those repeats that both sides have."""
        step = self._comparisons + 1
        pairs = [
            (one, other)
            for one, other in zip(scores[base::step], scores[self._index :: step], strict=True)
            if one == one and other == other  # not nan
        ]
        if not pairs:
            return None
        difference = sum(other for _, other in pairs) / len(pairs) - sum(one for one, _ in pairs) / len(pairs)
        return 0.0 if abs(difference) < ROUNDING else difference

    def _look(self) -> None:
        """At exactly the numbers of `looks`, so that the report sees the same from the rows."""
        values = np.array(self._differences)
        groups = self._groups.tolist() if self._groups else None
        look = self._sequence.observe(values[self._seen :], None if groups is None else groups[self._seen :])
        self._seen = len(values)
        if groups is not None:  # the last one may not be complete
            groups = groups[: groups.index(groups[-1])]
            values = values[: len(groups)]
        if look.low > 0 or look.high < 0 or look.equivalent:
            self.verdict = verdict(
                values,
                self._planned,
                self._margin,
                groups,
                comparisons=self._comparisons,
                seen=look,
                dropped=self._dropped,
            )
        if len(values) and not self.settled:
            awaited, at_the_end = max(1, self._planned - self._dropped), alphas(self._planned)[1]
            self.futility = futility(values, awaited, self._margin, groups, at_the_end)

    def sentence(self) -> str:
        word = self.verdict.word if self.verdict else "inconclusive"
        if word == "equivalent":
            return f"{self.name} is equivalent to {self._baseline} within ±{self._margin:g}"
        return f"{self.name} is {word} than {self._baseline}"


def _numbered(groups: Sequence[str | None]) -> array[int] | None:
    """The group of each case as a number, its own if it has none; None if no case has one."""
    numbers: dict[str, int] = {}
    found = array(
        "q",
        (
            len(groups) + case if group is None else numbers.setdefault(group, len(numbers))
            for case, group in enumerate(groups)
        ),
    )
    return found if numbers else None


def _percent(share: float) -> str:
    """`2 %`, and never nothing.

    >>> _percent(0.0213), _percent(0.00004)
    ('2 %', 'under 1 %')
    """
    return f"{share * 100:.0f} %" if share >= 0.005 else "under 1 %"
