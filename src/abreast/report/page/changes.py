"""The changes of a case side by side: each agent's next to the human's or, without one, the baseline's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from abreast.report.page.side_by_side import DiffPair, ParsedDiff, SizeLimits, side_by_side
from abreast.report.page.trial_artifacts import DIFF, SizeBudget, TrialArtifacts, cut, size
from abreast.store.queries import Queries
from abreast.text import many

HUMAN = "the human"
ON_THE_PAGE = SizeLimits(24_000, 80, 240, 2_000)
ON_ITS_OWN = SizeLimits(120_000, 400, 500, 6_000)
READ = 1_000_000  # most bytes read of a diff
LINES = 30_000  # most lines read of a diff
_LINE = 50  # bytes that count as one line
_COUNTS = ("files_changed", "lines_added", "lines_deleted")  # columns of a trial
HUMAN_READ, HUMAN_LINES = 3_000_000, 100_000  # a human's diff has all lines of its files


@dataclass(slots=True)
class Block:
    """Two changes side by side, or a single one if `left` is empty."""

    left: str
    right: str
    diffs: DiffPair
    notes: list[str] = field(default_factory=list)
    plain: list[tuple[str, str]] = field(default_factory=list)  # names and texts of diffs that cannot be parsed

    def size(self) -> int:
        texts = (self.left, self.right, *self.notes, *self.diffs.names, *(part for pair in self.plain for part in pair))
        return self.diffs.used + sum(map(size, texts)) + 500


class Changes:
    """Reads changes of a run: at most `lines` lines of all together, or the equivalent in bytes.

    `name` gives a trial its name, by variant and repeat."""

    def __init__(self, queries: Queries, run_id: int, name: Callable[[int, int], str], lines: int) -> None:
        self._queries, self._run_id, self._name = queries, run_id, name
        self._lines = SizeBudget(lines)
        self._human: tuple[int, ParsedDiff | None] = (-1, None)  # case index and human's change, as last read

    @property
    def is_used_up(self) -> bool:
        return self._lines.is_used_up

    def of_case(self, trials: Iterable[TrialArtifacts], baseline: int, limits: SizeLimits) -> Iterator[Block]:
        """All changes of a case, the first repeat of each variant first."""
        trials = sorted(trials, key=lambda trial: (trial.repeat, trial.variant))
        changed = [trial for trial in trials if trial.has_change]
        human = self._of_human(changed[0]) if changed else None
        for trial in () if self.is_used_up else changed:
            if human is not None:
                block = self._block(HUMAN, human, trial, limits)
            elif trial.variant == baseline:
                if any(other.repeat == trial.repeat for other in changed if other is not trial):
                    continue  # it is displayed to the left of the others
                block = self._block("", None, trial, limits)
            else:
                opposite = (other for other in changed if (other.variant, other.repeat) == (baseline, trial.repeat))
                block = self._against(next(opposite, None), trial, limits)
            if block is None:
                return
            yield block

    def of_two(self, trials: Iterable[TrialArtifacts | None], limits: SizeLimits) -> tuple[Block, ...]:
        """The changes of two trials of one case: each next to the human's, or next to each other."""
        changed = [trial for trial in trials if trial is not None and trial.has_change]
        if not changed:
            return ()
        human = self._of_human(changed[0])
        if self.is_used_up:
            return ()
        if human is not None:
            blocks = [self._block(HUMAN, human, trial, limits) for trial in changed]
        elif len(changed) == 1:
            blocks = [self._block("", None, changed[0], limits)]
        else:
            blocks = [self._against(changed[0], changed[1], limits)]
        return tuple(block for block in blocks if block is not None)

    def _against(self, first: TrialArtifacts | None, second: TrialArtifacts, limits: SizeLimits) -> Block | None:
        change = None if first is None else self._of_trial(first)
        if first is None or change is None:
            return self._block("", None, second, limits)
        return self._block(self._name_of(first), change, second, limits)

    def _block(self, left: str, change: ParsedDiff | None, trial: TrialArtifacts, limits: SizeLimits) -> Block | None:
        """Put a change of this name next to that of a trial; None if the line budget is used up."""
        other = self._of_trial(trial)
        if other is None:
            return None
        block = Block(left, self._name_of(trial), side_by_side(change, other, limits))
        for name, parsed in ((left, change), (block.right, other)):
            if parsed is not None:
                block.notes += [f"{name}: {note}" for note in parsed.notes]
                block.plain += [(name, cut(parsed.plain, limits.plain))] if parsed.plain else []
        return block

    def _name_of(self, trial: TrialArtifacts) -> str:
        return self._name(trial.variant, trial.repeat)

    def _of_trial(self, trial: TrialArtifacts) -> ParsedDiff | None:
        stored = self._queries.artifact_begin(self._run_id, trial.position, DIFF, READ)
        if stored is None:
            return ParsedDiff()
        begin, total, data = stored
        change = self._read(begin, total, LINES)
        if change is not None and not change.notes and not change.plain:
            change.notes += _missing(change, [data.get(name) for name in _COUNTS])
        return change

    def _of_human(self, trial: TrialArtifacts) -> ParsedDiff | None:
        """The human's change of the case; None if there is none, or it cannot be parsed."""
        if self._human[0] != trial.case:
            diff = _human_diff(self._queries.expected_answer(self._run_id, trial.position))
            change = self._read(diff[:HUMAN_READ], len(diff), HUMAN_LINES) if diff else None
            self._human = (trial.case, change if change is not None and change.files else None)
        return self._human[1]

    def _read(self, begin: bytes, total: int, most: int) -> ParsedDiff | None:
        text = begin.decode(errors="replace" if len(begin) == total else "ignore")
        lines = text.count("\n") + 1
        if self.is_used_up or not self._lines.take(min(lines, most) + len(begin) // _LINE):
            return None
        if lines <= most and len(begin) == total:
            return ParsedDiff.read(text)
        change = ParsedDiff.read("\n".join(text.split("\n")[: most - 1]) + "\n")
        change.notes.append(f"only the beginning of the diff of {total:,} bytes is displayed")
        return change


def _human_diff(expected: Any) -> bytes:
    """The diff of an expected answer that is a mapping, or a mapping as JSON text."""
    if isinstance(expected, str):
        try:
            expected = json.loads(expected)
        except (ValueError, RecursionError):
            return b""
    diff = expected.get("diff") if isinstance(expected, Mapping) else None
    return diff.encode(errors="replace") if isinstance(diff, str) else b""


def _missing(change: ParsedDiff, counted: Sequence[object]) -> list[str]:
    """A note if the diff has less than the trial's counts, because large diffs are stored in part."""
    files, added, deleted = (number if isinstance(number, int) else 0 for number in counted)
    if files <= len(change.files) and added <= change.lines("+") and deleted <= change.lines("-"):
        return []
    return [f"the diff is incomplete: {many(files, 'file')}, +{added:,} and −{deleted:,} lines were changed"]
