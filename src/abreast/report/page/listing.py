"""The cases of a run for its page: all of them in a list, as many as fit with their answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from abreast.analyse.paired import TrialGrid, trial_grid
from abreast.analyse.rows import Rows
from abreast.analyse.run import Analysis, Comparison, largest_cases
from abreast.report.page.answers import LARGE, SMALL, AnswerReader, Caps, CaseAnswers
from abreast.report.page.trial_artifacts import Links, RunArtifacts, SizeBudget, cut, size
from abreast.report.words.variant_figures import short_score
from abreast.report.words.verdict_sentence import points
from abreast.stats.numerics.arrays import ROUNDING
from abreast.text import many

ANSWERS = 3_000_000  # bytes of a page for what was asked and answered
LINES = 1_300_000  # and for the list of cases
ANSWERED = 500  # cases of a page that are shown with their answers
LISTED = 20  # comparisons whose cases are listed
TOGETHER = 3  # variants side by side where nothing is compared
_LINE = 130  # bytes of a line of the list besides its words
LONGEST = LINES // _LINE  # cases of a group that can be listed at most
_BATCH = 200  # cases read at once


@dataclass(slots=True)
class ListedCase:
    case: int
    id: str
    scores: tuple[float | None, ...]
    tags: str
    why: str = ""  # it is not compared
    shown: CaseAnswers | None = None
    above: bool = False  # among those that differ most

    @property
    def score_text(self) -> str:
        """The scores side by side; empty if there is none."""
        has_score = any(score is not None for score in self.scores)
        return " → ".join(map(short_score, self.scores)) if has_score else ""

    @property
    def note(self) -> str:
        """Why the case is not compared, else the difference between two scores in points."""
        if self.why or len(self.scores) != 2 or self.scores[0] is None or self.scores[1] is None:
            return self.why
        return points(self.scores[1] - self.scores[0])


@dataclass(slots=True)
class CaseGroup:
    """Cases that ended alike."""

    word: str
    entries: list[ListedCase]
    count: int = 0  # with those that are not listed

    @property
    def left_out(self) -> int:
        return self.count - len(self.entries)


@dataclass(slots=True)
class CaseListing:
    """All cases of one comparison, or of a run that compares nothing."""

    title: str
    names: tuple[str, ...]
    groups: list[CaseGroup] = field(default_factory=list)
    most: list[ListedCase] = field(default_factory=list)  # that differ most

    @property
    def left_out(self) -> int:
        return sum(group.left_out for group in self.groups)

    @property
    def closed(self) -> int:
        """Cases that are listed without their answers."""
        return sum(1 for group in self.groups for entry in group.entries if not entry.shown and not entry.above)


def artifacts_of(analysis: Analysis) -> RunArtifacts:
    """What the trials of a run left; the cases that differ most come first."""
    pairs = [item.pairs for item in analysis.comparisons[:LISTED]]
    return RunArtifacts(analysis.rows, list(dict.fromkeys(case for found in pairs for case in largest_cases(found))))


def listings(analysis: Analysis, left: RunArtifacts, links: Links, taken: int) -> list[CaseListing]:
    """The cases of each comparison; every one has its share of the page, of which so many bytes are taken."""
    reader = AnswerReader(analysis.rows, left, links)
    compared = analysis.comparisons[:LISTED]
    if not compared:
        found = [_alone(analysis)]
    else:
        found = [_of_comparison(analysis, item) for item in compared]
    for listing in found:
        variants = [analysis.rows.variants.index(name) for name in listing.names]
        room = SizeBudget((ANSWERS - taken) // len(found))
        _fill(reader, listing.most, variants, LARGE, room, with_diff=True)
        _shorten(analysis.rows, listing, LINES // len(found))
        cases, groups = ANSWERED // len(found), sorted(listing.groups, key=lambda group: group.count)
        for number, group in enumerate(groups):  # small groups take what they need, large ones share the rest
            entries = [entry for entry in group.entries if not entry.above][: cases // (len(groups) - number)]
            _fill(reader, entries, variants, SMALL, room)
            cases -= len(entries)
    return found


def _of_comparison(analysis: Analysis, item: Comparison) -> CaseListing:
    rows, pairs = analysis.rows, item.pairs
    one, other = (trial_grid(rows, rows.variants.index(name), rows.score) for name in (item.baseline, item.variant))
    differences = pairs.differences
    by_size = np.lexsort((pairs.cases, -np.abs(differences)))
    by_case = np.argsort(pairs.cases)
    orders = {
        "wins": by_size[differences[by_size] > 0],
        "losses": by_size[differences[by_size] < 0],
        "ties": by_case[differences[by_case] == 0],
    }
    largest = by_size[: len(item.differences)].tolist()
    entries = {
        at: ListedCase(int(pairs.cases[at]), "", (float(pairs.baseline[at]), float(pairs.variant[at])), "")
        for places in (*orders.values(), by_size[: len(largest)])
        for at in places[:LONGEST].tolist()
    }
    groups = [
        CaseGroup(word, [entries[at] for at in order[:LONGEST].tolist()], len(order)) for word, order in orders.items()
    ]
    compared = set(pairs.cases.tolist())
    rest = [case for case in sorted(rows.cases) if case not in compared]
    not_compared = [_not_compared(rows, case, one, other) for case in rest[:LONGEST]]
    groups.append(CaseGroup("not compared", not_compared, len(rest)))
    most = [entries[at] for at in largest]
    listing = CaseListing(
        f"{item.variant} against {item.baseline}",
        (item.baseline, item.variant),
        [group for group in groups if group.count],
        [ListedCase(entry.case, "", entry.scores, "") for entry in most],
    )
    for entry in most:
        entry.above = True
    _name(rows, listing.most)
    return listing


def _not_compared(rows: Rows, case: int, one: TrialGrid, other: TrialGrid) -> ListedCase:
    scores = tuple(_mean(each.score[case]) for each in (one, other))
    both = np.concatenate((one.present[case], other.present[case]))
    if (one.failed[case] | other.failed[case]).any():
        why = "failed by infrastructure"
    elif (one.skipped[case] | other.skipped[case]).any():
        why = "skipped"
    elif not both.all() or not rows.complete[case]:
        why = "not finished"
    else:
        why = "no score" if None in scores else "finished before an earlier one"
    return ListedCase(case, "", scores, "", why)


def _alone(analysis: Analysis) -> CaseListing:
    """A run that compares nothing: its cases, worst first, if there is a score."""
    rows = analysis.rows
    names = tuple(rows.variants[:TOGETHER])
    sides = [trial_grid(rows, index, rows.score) for index in range(len(names))]
    groups = {word: CaseGroup(word, []) for word in ("answers", "wrong", "right", "no score")}
    for case in rows.cases:
        entry = ListedCase(case, "", tuple(_mean(each.score[case]) for each in sides), "")
        known = [score for score in entry.scores if score is not None]
        word = "no score" if not known else "right" if min(known) >= 1 - ROUNDING else "wrong"
        group = groups[word if rows.primary else "answers"]
        group.count += 1
        if len(group.entries) < LONGEST:
            group.entries.append(entry)
    return CaseListing("", names, [group for group in groups.values() if group.count])


def _mean(scores: Any) -> float | None:
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if len(known) else None


def _name(rows: Rows, entries: Iterable[ListedCase]) -> None:
    """Ids and tags, shortened where somebody wrote a book."""
    for entry in entries:
        facts = rows.cases[entry.case]
        entry.id = cut(facts.id, 120)
        entry.tags = cut(", ".join(f"{tag}={value}" for tag, value in list(facts.tags.items())[:20]), 160)


def _shorten(rows: Rows, listing: CaseListing, room: int) -> None:
    """Leave out of the list what has no room; small groups take what they need, large ones share the rest."""
    left = len(listing.groups)
    for group in sorted(listing.groups, key=lambda group: group.count):
        kept: list[ListedCase] = []
        share = room // left
        for entry in group.entries:
            _name(rows, [entry])
            share -= (needed := size(entry.id) + size(entry.tags) + _LINE)
            if share < 0:
                break
            room -= needed
            kept.append(entry)
        group.entries, left = kept, left - 1


def _fill(
    reader: AnswerReader,
    entries: Sequence[ListedCase],
    variants: Sequence[int],
    caps: Caps,
    room: SizeBudget,
    with_diff: bool = False,
) -> None:
    """Add the answers to these cases, until there is no room."""
    for begin in range(0, len(entries), _BATCH):
        if room.used_up:
            return
        part = entries[begin : begin + _BATCH]
        found = reader.read([entry.case for entry in part], variants, caps, with_diff)
        for entry, shown in zip(part, found, strict=True):
            if not room.takes(shown.size()):
                return
            entry.shown = shown


def closed_in_words(listing: CaseListing) -> str:
    parts = []
    if listing.closed:
        parts.append(f"{many(listing.closed, 'case')} listed without answers, to keep this file small")
    if listing.left_out:
        parts.append(f"{many(listing.left_out, 'further case')} not listed")
    return "; ".join(parts)
