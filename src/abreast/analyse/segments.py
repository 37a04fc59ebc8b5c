"""Segments: the comparison within each value of a tag, to see where a variant helps. Exploratory."""

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
FALSE_DISCOVERIES = 0.05  # accepted share of false differences among those reported
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Segment:
    """The cases with one value of one tag. `q` is the p value adjusted over all segments."""

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
        """The verdict, to be confirmed by a run of its own. Never claims more than the interval supports."""
        if self.q > FALSE_DISCOVERIES or self.estimate.low <= 0 <= self.estimate.high:
            return "inconclusive"
        return "better" if self.estimate.low > 0 else "worse"


def segments_of(item: Comparison, rows: Rows) -> list[Segment]:
    """A segment for each value of each tag that has enough cases, but not all of them."""
    facts, pairs, weight = rows.cases, item.pairs, rows.weight
    groups = rows.groups(pairs.cases)
    counts = {tag: len(cases) for tag, cases in _by_tag(rows.counted, facts).items()}
    differences, segments = pairs.differences, []
    for (tag, value), indexes in sorted(_by_tag(pairs.cases, facts).items()):
        if not LEAST_CASES <= len(indexes) < len(differences):
            continue
        tagged = differences[indexes]
        labels = None if groups is None else [groups[index] for index in indexes]
        wins, losses = int((tagged > 0).sum()), int((tagged < 0).sum())
        segments.append(
            Segment(
                metric=item.metric,
                variant=item.variant,
                baseline=item.baseline,
                tag=tag,
                value=value,
                estimate=final_interval(tagged, LEVEL, labels, weight=weight, largest=rows.largest_group),
                wins=wins,
                losses=losses,
                ties=len(tagged) - wins - losses,
                dropped=counts[tag, value] - len(tagged),
                needed=needed_in_all(tagged, labels, weight),
            )
        )
    return segments


def _by_tag(cases: Ints, facts: Mapping[int, CaseFacts]) -> dict[tuple[str, str], list[int]]:
    """The indexes into `cases` by tag and value. Cases with equal tags share one object, so each is read once."""
    by_tags: defaultdict[int, list[int]] = defaultdict(list)
    for index, case in enumerate(cases.tolist()):
        by_tags[id(facts[case].tags)].append(index)
    by_tag: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for indexes in by_tags.values():
        for tag, value in facts[int(cases[indexes[0]])].tags.items():
            by_tag[str(tag), str(value)] += indexes
    return {tag: sorted(indexes) for tag, indexes in by_tag.items()}


def adjusted(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """All segments of a run, with their p values adjusted together (Benjamini–Hochberg)."""
    if not segments:
        return ()
    qs = benjamini_hochberg(np.array([segment.estimate.p for segment in segments]))
    return tuple(replace(segment, q=q) for segment, q in zip(segments, qs, strict=True))
