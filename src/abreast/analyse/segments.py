"""Where a variant helps and where it hurts: the same comparison among the cases of each tag. Exploratory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from abreast.analyse.paired import Pairs
from abreast.analyse.rows import CaseFacts, Ints
from abreast.stats import Estimate, benjamini_hochberg, final_interval
from abreast.stats.verdict import needed_in_all

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


def segments_of(
    metric: str,
    variant: str,
    baseline: str,
    pairs: Pairs,
    groups: Sequence[str] | None,
    facts: Mapping[int, CaseFacts],
    counted: Ints,
) -> list[Segment]:
    """A segment for each value of each tag that has enough cases, as long as it is not all of them."""
    there = {tag: len(cases) for tag, cases in _by_tag(counted, facts).items()}
    differences, found = pairs.differences, []
    for (tag, value), places in sorted(_by_tag(pairs.cases, facts).items()):
        if not LEAST_CASES <= len(places) < len(differences):
            continue
        among = differences[places]
        wins, losses = int((among > 0).sum()), int((among < 0).sum())
        theirs = None if groups is None else [groups[place] for place in places]
        estimate = final_interval(among, LEVEL, theirs)
        estimate = replace(estimate, low=max(-1.0, estimate.low), high=min(1.0, estimate.high))
        ties, dropped = len(among) - wins - losses, there[tag, value] - len(among)
        needed = needed_in_all(among, theirs)
        found.append(Segment(metric, variant, baseline, tag, value, estimate, wins, losses, ties, dropped, needed))
    return found


def _by_tag(cases: Ints, facts: Mapping[int, CaseFacts]) -> dict[tuple[str, str], list[int]]:
    """The places of the cases with each value of each tag."""
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
