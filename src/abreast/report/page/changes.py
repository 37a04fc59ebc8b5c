"""The changes of a case side by side: each agent's beside the human's, or where no human made one, the baseline's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from abreast.report.page.side_by_side import DiffPair, ParsedDiff, SizeLimits, side_by_side
from abreast.report.page.trial_artifacts import DIFF, RunArtifacts, SizeBudget, TrialArtifacts, cut, size
from abreast.text import many

HUMAN = "the human"
ON_THE_PAGE = SizeLimits(24_000, 80, 240, 2_000)
ON_ITS_OWN = SizeLimits(120_000, 400, 500, 6_000)
READ = 1_000_000  # bytes of a diff that are looked at
LINES = 30_000  # and lines
_LINE = 50  # bytes that count as one
_COUNTS = ("files_changed", "lines_added", "lines_deleted")  # what a trial returns of its change
HUMAN_READ, HUMAN_LINES = 3_000_000, 100_000  # of a human's, which has all lines of its files


@dataclass(slots=True)
class Block:
    """Two changes beside each other; only one, if `left` is nobody."""

    left: str
    right: str
    found: DiffPair
    notes: list[str] = field(default_factory=list)
    plain: list[tuple[str, str]] = field(default_factory=list)  # who, and the text of a diff that cannot be read

    def size(self) -> int:
        told = (self.left, self.right, *self.notes, *self.found.names, *(part for pair in self.plain for part in pair))
        return self.found.used + sum(map(size, told)) + 500


class Changes:
    """Reads changes, and of all of them together no more than so many lines, or as many bytes as that would be."""

    def __init__(self, left: RunArtifacts, lines: int) -> None:
        self._left = left
        self._lines = SizeBudget(lines)
        self._baseline = left.rows.variants.index(left.rows.meta["baseline"])
        self._human: tuple[int, ParsedDiff | None] = (-1, None)  # of the case that was asked for last

    @property
    def used_up(self) -> bool:
        return self._lines.used_up

    def of_case(self, case: int, limits: SizeLimits) -> Iterator[Block]:
        """All of a case, the first repeat of each variant first."""
        trials = sorted(self._left.cases.get(case, ()), key=lambda trial: (trial.repeat, trial.variant))
        changed = [trial for trial in trials if trial.has_change]
        human = self._of_human(changed[0]) if changed else None
        for trial in () if self.used_up else changed:
            if human is not None:
                block = self._block(HUMAN, human, trial, limits)
            elif trial.variant == self._baseline:
                if any(other.repeat == trial.repeat for other in changed if other is not trial):
                    continue  # it stands on the left of theirs
                block = self._block("", None, trial, limits)
            else:
                first = next((one for one in changed if self._leads(one, trial)), None)
                block = self._against(first, trial, limits)
            if block is None:
                return
            yield block

    def of_two(self, trials: Iterable[TrialArtifacts | None], limits: SizeLimits) -> tuple[Block, ...]:
        """Those of two trials of one case: each beside the human's, or beside each other."""
        changed = [trial for trial in trials if trial is not None and trial.has_change]
        if not changed:
            return ()
        human = self._of_human(changed[0])
        if self.used_up:
            return ()
        if human is not None:
            blocks = [self._block(HUMAN, human, trial, limits) for trial in changed]
        elif len(changed) == 1:
            blocks = [self._block("", None, changed[0], limits)]
        else:
            blocks = [self._against(changed[0], changed[1], limits)]
        return tuple(block for block in blocks if block is not None)

    def _leads(self, one: TrialArtifacts, other: TrialArtifacts) -> bool:
        return one.variant == self._baseline and one.repeat == other.repeat

    def _against(self, one: TrialArtifacts | None, other: TrialArtifacts, limits: SizeLimits) -> Block | None:
        change = None if one is None else self._of_trial(one)
        if one is None or change is None:
            return self._block("", None, other, limits)
        return self._block(self._who(one), change, other, limits)

    def _block(self, who: str, left: ParsedDiff | None, trial: TrialArtifacts, limits: SizeLimits) -> Block | None:
        """None if there were too many lines to read already."""
        change = self._of_trial(trial)
        if change is None:
            return None
        block = Block(who, self._who(trial), side_by_side(left, change, limits))
        for name, one in ((who, left), (block.right, change)):
            if one is not None:
                block.notes += [f"{name}: {note}" for note in one.notes]
                block.plain += [(name, cut(one.plain, limits.plain))] if one.plain else []
        return block

    def _who(self, trial: TrialArtifacts) -> str:
        return self._left.who(trial.variant, trial.repeat)

    def _of_trial(self, trial: TrialArtifacts) -> ParsedDiff | None:
        rows = self._left.rows
        found = rows.store.queries.artifact_begin(rows.run_id, trial.position, DIFF, READ)
        if found is None:
            return ParsedDiff()
        begin, size, data = found
        change = self._read(begin, size, LINES)
        if change is not None and not change.notes and not change.plain:
            change.notes += _missing(change, [data.get(name) for name in _COUNTS])
        return change

    def _of_human(self, trial: TrialArtifacts) -> ParsedDiff | None:
        """What a human made of the case; None if nobody did, or it cannot be read."""
        if self._human[0] != trial.case:
            rows = self._left.rows
            diff = _human_diff(rows.store.queries.expected_answer(rows.run_id, trial.position))
            change = self._read(diff[:HUMAN_READ], len(diff), HUMAN_LINES) if diff else None
            self._human = (trial.case, change if change is not None and change.files else None)
        return self._human[1]

    def _read(self, begin: bytes, whole: int, lines: int) -> ParsedDiff | None:
        text = begin.decode(errors="replace" if len(begin) == whole else "ignore")
        there = text.count("\n") + 1
        if self.used_up or not self._lines.takes(min(there, lines) + len(begin) // _LINE):
            return None
        if there <= lines and len(begin) == whole:
            return ParsedDiff.read(text)
        change = ParsedDiff.read("\n".join(text.split("\n")[: lines - 1]) + "\n")
        change.notes.append(f"only the beginning of its diff of {whole:,} bytes is looked at here")
        return change


def _human_diff(expected: Any) -> bytes:
    """The diff of an expected answer that is a mapping, or a text that holds one as JSON."""
    if isinstance(expected, str):
        try:
            expected = json.loads(expected)
        except (ValueError, RecursionError):
            return b""
    diff = expected.get("diff") if isinstance(expected, Mapping) else None
    return diff.encode(errors="replace") if isinstance(diff, str) else b""


def _missing(change: ParsedDiff, counted: Sequence[object]) -> list[str]:
    """What the counts of the trial have and its diff has not: large diffs are stored in part."""
    files, added, deleted = (number if isinstance(number, int) else 0 for number in counted)
    if files <= len(change.files) and added <= change.lines("+") and deleted <= change.lines("-"):
        return []
    return [f"the diff does not tell all: {many(files, 'file')}, +{added:,} and −{deleted:,} lines were changed"]
