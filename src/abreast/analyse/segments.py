"""Where a variant helps and where it hurts: the same comparison among the cases of each tag. Exploratory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from abreast.analyse.rows import CaseFacts, Ints, Rows
from abreast.stats import Estimate, benjamini_hochberg, final_interval
from abreast.stats.verdict import needed_in_all

if TYPE_CHECKING:
    from abreast.analyse.run import Comparison

LEAST_CASES = 10
WRONG = 0.05  # the share of found differences that may be none
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Segment:
    """The cases with one value of one tag. `q` is its p value after all segments were looked at."""

    metric: str
    variant: str
    baseline: str
    tag: str
    value: str
    estimate: Estimate
    wins: int
    losses: int
    ties: int
    dropped: int  # cases that cannot be compared
    needed: int | None  # cases to detect ten points
    q: float = 1.0

    @property
    def cases(self) -> int:
        return self.wins + self.losses + self.ties

    @property
    def word(self) -> str:
        """What it looks like; a run of its own would have to confirm it. Nothing that the interval does not say."""
        if self.q > WRONG or self.estimate.low <= 0 <= self.estimate.high:
            return "inconclusive"
        return "better" if self.estimate.low > 0 else "worse"


def segments_of(item: Comparison, rows: Rows) -> list[Segment]:
    """A segment for each value of each tag that has enough cases, as long as it is not all of them."""
    facts, pairs, weight = rows.cases, item.pairs, rows.weight
    groups = rows.groups(pairs.cases)
    counts = {tag: len(cases) for tag, cases in _by_tag(rows.counted, facts).items()}
    differences, segments = pairs.differences, []
    for (tag, value), places in sorted(_by_tag(pairs.cases, facts).items()):
        if not LEAST_CASES <= len(places) < len(differences):
            continue
        among = differences[places]
        labels = None if groups is None else [groups[place] for place in places]
        wins, losses = int((among > 0).sum()), int((among < 0).sum())
        segments.append(
            Segment(
                metric=item.metric,
                variant=item.variant,
                baseline=item.baseline,
                tag=tag,
                value=value,
                estimate=final_interval(among, LEVEL, labels, weight=weight, largest=rows.largest_group),
                wins=wins,
                losses=losses,
                ties=len(among) - wins - losses,
                dropped=counts[tag, value] - len(among),
                needed=needed_in_all(among, labels, weight),
            )
        )
    return segments


def _by_tag(cases: Ints, facts: Mapping[int, CaseFacts]) -> dict[tuple[str, str], list[int]]:
    alike: defaultdict[int, list[int]] = defaultdict(list)
    for place, case in enumerate(cases.tolist()):
        alike[id(facts[case].tags)].append(place)
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for places in alike.values():
        for tag, value in facts[int(cases[places[0]])].tags.items():
            found[str(tag), str(value)] += places
    return {tag: sorted(places) for tag, places in found.items()}


def adjusted(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """All segments of a run, with their p values made honest together."""
    if not segments:
        return ()
    qs = benjamini_hochberg(np.array([segment.estimate.p for segment in segments]))
    return tuple(replace(segment, q=q) for segment, q in zip(segments, qs, strict=True))
