"""The cases of a run on its page: a list of them, and the answers of as many as fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from abreast.analyse.paired import TrialGrid, trial_grid
from abreast.analyse.rows import Rows, mean_of_known
from abreast.analyse.run import Analysis, Comparison, largest_cases
from abreast.report.page.answers import LARGE, SMALL, AnswerReader, Caps, CaseAnswers
from abreast.report.page.trial_artifacts import Links, RunArtifacts, SizeBudget, cut, size
from abreast.report.words.variant_figures import short_score
from abreast.report.words.verdict_sentence import points
from abreast.stats.numerics.arrays import ROUNDING
from abreast.text import many

MAX_ANSWER_BYTES = 3_000_000  # bytes of a page for prompts and answers
MAX_LIST_BYTES = 1_300_000  # bytes of a page for the list of cases
MAX_ANSWERED_CASES = 500  # cases of a page that have their answers
MAX_LISTED_COMPARISONS = 20  # comparisons whose cases are listed
MAX_VARIANTS_TOGETHER = 3  # variants side by side if nothing is compared
_LINE = 130  # bytes of a line of the list, without id and tags
MAX_GROUP_CASES = MAX_LIST_BYTES // _LINE  # cases of a group that fit at most
_BATCH = 200  # cases read at once


@dataclass(slots=True)
class ListedCase:
    case: int
    id: str
    scores: tuple[float | None, ...]
    tags: str
    reason: str = ""  # why it is not compared
    answers: CaseAnswers | None = None
    is_above: bool = False  # already above the list, among the cases that differ most

    @property
    def score_text(self) -> str:
        """The scores side by side; empty without scores."""
        has_score = any(score is not None for score in self.scores)
        return " → ".join(map(short_score, self.scores)) if has_score else ""

    @property
    def note(self) -> str:
        """The reason why the case is not compared, else the difference between two scores in points."""
        if self.reason or len(self.scores) != 2 or self.scores[0] is None or self.scores[1] is None:
            return self.reason
        return points(self.scores[1] - self.scores[0])


@dataclass(slots=True)
class CaseGroup:
    word: str
    cases: list[ListedCase]
    count: int = 0  # including those that are not listed

    @property
    def left_out(self) -> int:
        return self.count - len(self.cases)


@dataclass(slots=True)
class CaseListing:
    """All cases of one comparison, or of a run that compares nothing."""

    title: str
    names: tuple[str, ...]
    groups: list[CaseGroup] = field(default_factory=list)
    most: list[ListedCase] = field(default_factory=list)  # the cases that differ most

    @property
    def left_out(self) -> int:
        return sum(group.left_out for group in self.groups)

    @property
    def without_answers(self) -> int:
        return sum(not case.answers and not case.is_above for group in self.groups for case in group.cases)


def artifacts_of(analysis: Analysis) -> RunArtifacts:
    """The artifacts of a run; those of the cases that differ most come first."""
    pairs = [item.pairs for item in analysis.comparisons[:MAX_LISTED_COMPARISONS]]
    return RunArtifacts(analysis.rows, list(dict.fromkeys(case for item in pairs for case in largest_cases(item))))


def listings(analysis: Analysis, artifacts: RunArtifacts, links: Links, used: int) -> list[CaseListing]:
    """List the cases of each comparison. All share the page equally; `used` bytes of it are already taken."""
    reader = AnswerReader(analysis.rows, artifacts, links)
    items = [_of_comparison(analysis, item) for item in analysis.comparisons[:MAX_LISTED_COMPARISONS]] or [
        _uncompared(analysis)
    ]
    for listing in items:
        variants = [analysis.rows.variants.index(name) for name in listing.names]
        budget = SizeBudget((MAX_ANSWER_BYTES - used) // len(items))
        _fill(reader, listing.most, variants, LARGE, budget, with_diff=True)
        _shorten(analysis.rows, listing, MAX_LIST_BYTES // len(items))
        count, groups = MAX_ANSWERED_CASES // len(items), sorted(listing.groups, key=lambda group: group.count)
        for number, group in enumerate(groups):  # small groups take what they need, large ones share the rest
            cases = [case for case in group.cases if not case.is_above][: count // (len(groups) - number)]
            _fill(reader, cases, variants, SMALL, budget)
            count -= len(cases)
    return items


def _of_comparison(analysis: Analysis, item: Comparison) -> CaseListing:
    rows, pairs = analysis.rows, item.pairs
    grids = [trial_grid(rows, rows.variants.index(name), rows.score) for name in (item.baseline, item.variant)]
    differences = pairs.differences
    by_size = np.lexsort((pairs.cases, -np.abs(differences)))
    by_case = np.argsort(pairs.cases)
    orders = {
        "wins": by_size[differences[by_size] > 0],
        "losses": by_size[differences[by_size] < 0],
        "ties": by_case[differences[by_case] == 0],
    }
    largest = by_size[: len(item.differences)]
    listed = {
        at: ListedCase(int(pairs.cases[at]), "", (float(pairs.baseline[at]), float(pairs.variant[at])), "")
        for order in (*orders.values(), largest)
        for at in order[:MAX_GROUP_CASES].tolist()
    }
    groups = [
        CaseGroup(word, [listed[at] for at in order[:MAX_GROUP_CASES].tolist()], len(order))
        for word, order in orders.items()
    ]
    compared = set(pairs.cases.tolist())
    rest = [case for case in sorted(rows.cases) if case not in compared]
    not_compared = [_not_compared(rows, case, *grids) for case in rest[:MAX_GROUP_CASES]]
    groups.append(CaseGroup("not compared", not_compared, len(rest)))
    most = [listed[at] for at in largest.tolist()]
    listing = CaseListing(
        f"{item.variant} against {item.baseline}",
        (item.baseline, item.variant),
        [group for group in groups if group.count],
        [ListedCase(case.case, "", case.scores, "") for case in most],
    )
    for case in most:
        case.is_above = True
    for case in listing.most:
        _name(rows, case)
    return listing


def _not_compared(rows: Rows, case: int, first: TrialGrid, second: TrialGrid) -> ListedCase:
    scores = tuple(mean_of_known(grid.score[case]) for grid in (first, second))
    if (first.failed[case] | second.failed[case]).any():
        reason = "failed by infrastructure"
    elif (first.skipped[case] | second.skipped[case]).any():
        reason = "skipped"
    elif not (first.present[case] & second.present[case]).all() or not rows.complete[case]:
        reason = "not finished"
    else:
        reason = "no score" if None in scores else "waiting for an earlier case"
    return ListedCase(case, "", scores, "", reason)


def _uncompared(analysis: Analysis) -> CaseListing:
    """List the cases of a run that compares nothing: wrong ones first, if there is a score."""
    rows = analysis.rows
    names = tuple(rows.variants[:MAX_VARIANTS_TOGETHER])
    grids = [trial_grid(rows, index, rows.score) for index in range(len(names))]
    groups = {word: CaseGroup(word, []) for word in ("answers", "wrong", "right", "no score")}
    for case in rows.cases:
        scores = tuple(mean_of_known(grid.score[case]) for grid in grids)
        numbers = [score for score in scores if score is not None]
        word = "no score" if not numbers else "right" if min(numbers) >= 1 - ROUNDING else "wrong"
        group = groups[word if rows.primary else "answers"]
        group.count += 1
        if len(group.cases) < MAX_GROUP_CASES:
            group.cases.append(ListedCase(case, "", scores, ""))
    return CaseListing("", names, [group for group in groups.values() if group.count])


def _name(rows: Rows, case: ListedCase) -> None:
    """Set id and tags, cut to a maximum length."""
    facts = rows.cases[case.case]
    case.id = cut(facts.id, 120)
    case.tags = cut(", ".join(f"{tag}={value}" for tag, value in list(facts.tags.items())[:20]), 160)


def _shorten(rows: Rows, listing: CaseListing, budget: int) -> None:
    """Cut the list to `budget` bytes; small groups take what they need, large ones share the rest."""
    remaining = len(listing.groups)
    for group in sorted(listing.groups, key=lambda group: group.count):
        cases: list[ListedCase] = []
        share = budget // remaining
        for case in group.cases:
            _name(rows, case)
            share -= (needed := size(case.id) + size(case.tags) + _LINE)
            if share < 0:
                break
            budget -= needed
            cases.append(case)
        group.cases, remaining = cases, remaining - 1


def _fill(
    reader: AnswerReader,
    cases: Sequence[ListedCase],
    variants: Sequence[int],
    caps: Caps,
    budget: SizeBudget,
    with_diff: bool = False,
) -> None:
    """Add the answers of these cases until the budget is used up."""
    for begin in range(0, len(cases), _BATCH):
        if budget.is_used_up:
            return
        batch = cases[begin : begin + _BATCH]
        answers = reader.read([case.case for case in batch], variants, caps, with_diff)
        for case, of_case in zip(batch, answers, strict=True):
            if not budget.take(of_case.size()):
                return
            case.answers = of_case


def omissions(listing: CaseListing) -> str:
    parts = []
    if listing.without_answers:
        parts.append(f"{many(listing.without_answers, 'case')} listed without answers, to keep this file small")
    if listing.left_out:
        parts.append(f"{many(listing.left_out, 'further case')} not listed")
    return "; ".join(parts)
