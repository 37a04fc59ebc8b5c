"""Prompts, expected answers and answers of cases, side by side, cut to what a page shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from abreast.analyse.rows import Rows
from abreast.report.page.trial_artifacts import Link, Links, RunArtifacts, TrialArtifacts, cut, size
from abreast.report.words.verdict_sentence import failure
from abreast.store.queries.answers import TrialTexts
from abreast.store.rows import to_json

if TYPE_CHECKING:
    from abreast.report.page.changes import Block, Changes


@dataclass(frozen=True, slots=True)
class Caps:
    """The most characters of each text."""

    answer: int
    prompt: int
    expected: int


LARGE, SMALL = Caps(4_000, 2_000, 1_000), Caps(1_200, 600, 400)
LINES = 400_000  # most lines of diffs read for the page


@dataclass(frozen=True, slots=True)
class Answered:
    name: str
    text: str
    ok: bool
    score: float | None
    prompt: str
    links: tuple[Link, ...] = ()  # links to artifacts


@dataclass(frozen=True, slots=True)
class CaseAnswers:
    sides: tuple[Answered, ...]
    expected: str
    prompt: str | None  # None if sides have different prompts
    repeat: str
    diff: tuple[tuple[str, str], ...] = ()  # (sign, words): " " both, "-" only the first, "+" only the second
    blocks: tuple[Block, ...] = ()  # changes side by side
    changes: str = ""  # link to the page with all changes of the case

    def size(self) -> int:
        texts = [self.expected, self.prompt or "", *(words for _, words in self.diff)]
        for side in self.sides:
            texts += [side.name, side.text, side.prompt if self.prompt is None else ""]
        links = sum(len("".join(link)) + 60 for side in self.sides for link in side.links)
        return sum(map(size, texts)) + 500 + 25 * len(self.diff) + links + sum(block.size() for block in self.blocks)


def side_by_side(
    sides: Sequence[Answered], expected: str, repeat: int, repeats: int, with_diff: bool = True
) -> CaseAnswers:
    prompts = {side.prompt for side in sides if side.prompt}
    return CaseAnswers(
        sides=tuple(sides),
        expected=expected,
        prompt=next(iter(prompts), "") if len(prompts) < 2 else None,
        repeat=f"repeat {repeat + 1} of {repeats}" if repeats > 1 else "",
        diff=word_diff(*sides) if with_diff and len(sides) == 2 else (),
    )


class AnswerReader:
    """Reads prompts and answers, only as much of them as is displayed."""

    def __init__(self, rows: Rows, artifacts: RunArtifacts, links: Links) -> None:
        self._rows, self._artifacts, self._links = rows, artifacts, links
        keys = self._key(rows.case, rows.variant, rows.repeat)
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    def _key(self, case: Any, variant: Any, repeat: Any) -> Any:
        return (case * len(self._rows.variants) + variant) * self._rows.repeats + repeat

    def _row(self, case: int, variant: int, repeat: int) -> int | None:
        key = self._key(case, variant, repeat)
        at = int(np.searchsorted(self._keys, key))
        return int(self._order[at]) if at < len(self._keys) and self._keys[at] == key else None

    def read(
        self, cases: Sequence[int], variants: Sequence[int], caps: Caps, with_diff: bool = False
    ) -> list[CaseAnswers]:
        repeats = [self._repeat(case, variants) for case in cases]
        indexes = [
            [self._row(case, variant, repeat) for variant in variants]
            for case, repeat in zip(cases, repeats, strict=True)
        ]
        texts = self._texts([row for of_case in indexes for row in of_case if row is not None], caps)
        return [
            self._answers(case, variants, repeat, of_case, texts, caps, with_diff)
            for case, repeat, of_case in zip(cases, repeats, indexes, strict=True)
        ]

    def _repeat(self, case: int, variants: Sequence[int]) -> int:
        """Choose the repeat with the largest difference in the direction of the case's; the first if none differs."""
        if self._rows.repeats == 1 or len(variants) < 2:
            return 0
        rows = [[self._row(case, index, repeat) for index in variants] for repeat in range(self._rows.repeats)]
        scores = [[0.0 if row is None else float(self._rows.score[row]) for row in of_repeat] for of_repeat in rows]
        baseline, variant = np.nan_to_num(np.array(scores), nan=0.0).T[:2]
        differences = variant - baseline
        return int(np.argmax(differences if differences.sum() >= 0 else -differences))

    def _texts(self, rows: Sequence[int], caps: Caps) -> dict[int, dict[str, Any]]:
        by_position = {int(self._rows.position[row]): row for row in rows}
        most = {"error": caps.answer * 4, "prompt": caps.prompt * 4, "answer": caps.answer * 4}  # bytes
        trials = self._rows.store.queries.trial_texts(self._rows.run_id, by_position, most)
        return {by_position[trial.position]: _as_texts(trial, caps, bool(self._artifacts)) for trial in trials}

    def _answers(
        self,
        case: int,
        variants: Sequence[int],
        repeat: int,
        indexes: Sequence[int | None],
        texts: dict[int, dict[str, Any]],
        caps: Caps,
        with_diff: bool,
    ) -> CaseAnswers:
        rows, sides = self._rows, []
        expected = ""
        for variant, row in zip(variants, indexes, strict=True):
            trial = texts.get(row) if row is not None else None
            if row is None or trial is None:
                sides.append(Answered(rows.variants[variant], "not run", False, None, ""))
                continue
            ok, score = trial["status"] == "ok", float(rows.score[row])
            text = trial["answer"] if ok else cut(failure(trial), caps.answer)
            links = self._links.of(self._trial(row))
            usable = None if np.isnan(score) else score
            sides.append(Answered(rows.variants[variant], text, ok, usable, trial["prompt"], links=links))
            expected = trial["expected"]
        return replace(
            side_by_side(sides, expected, repeat, rows.repeats, with_diff),
            blocks=self._blocks(map(self._trial, indexes)) if with_diff and len(indexes) == 2 else (),
            changes=self._links.changes.get(case, ""),
        )

    def _blocks(self, trials: Iterable[TrialArtifacts | None]) -> tuple[Block, ...]:
        if not self._artifacts:
            return ()
        from abreast.report.page.changes import ON_THE_PAGE

        return self._changes.of_two(trials, ON_THE_PAGE)

    @cached_property
    def _changes(self) -> Changes:
        from abreast.report.page.changes import Changes  # late: most runs change no files

        return Changes(self._rows.store.queries, self._rows.run_id, self._artifacts.trial_name, LINES)

    def _trial(self, row: int | None) -> TrialArtifacts | None:
        return None if row is None else self._artifacts.trials.get(int(self._rows.position[row]))


def _as_texts(trial: TrialTexts, caps: Caps, without_diff: bool) -> dict[str, Any]:
    return {
        "status": trial.status,
        "error_kind": trial.error_kind,
        "error_blame": trial.error_blame,
        "error": beginning(*trial.error, caps.answer),
        "prompt": beginning(*trial.prompt, caps.prompt),
        "answer": beginning(*trial.answer, caps.answer),
        "expected": _expected(trial.expected, caps.expected, without_diff),
    }


def _expected(stored: str, most: int, without_diff: bool) -> str:
    """Format an expected answer: text as it is, anything else as JSON. `without_diff` omits a human's change."""
    expected = json.loads(stored)
    if without_diff and isinstance(expected, dict):
        stored = to_json({key: value for key, value in expected.items() if key != "diff"})
    text = (expected if isinstance(expected, str) else stored).encode()
    return "" if text in (b"null", b"{}") else beginning(text[: most * 4], len(text), most)


def beginning(begin: bytes | None, total: int | None, most: int) -> str:
    """The beginning of a text, with the total length if it is cut."""
    if begin is None:
        return ""
    is_complete = len(begin) == total
    text = begin.decode(errors="replace" if is_complete else "ignore")
    if is_complete:
        return cut(text, most)
    return f"{text[:most]} … ({total:,} bytes in all)"


_WORD = re.compile(r"\s*\S+")


def word_diff(before: Answered, after: Answered) -> tuple[tuple[str, str], ...]:
    """Removed and added words; empty for equal answers."""
    if not (before.ok and after.ok) or before.text == after.text:
        return ()
    return tuple(_changes(_WORD.findall(before.text), _WORD.findall(after.text)))


def _changes(before: list[str], after: list[str]) -> Iterator[tuple[str, str]]:
    import difflib  # late: only for answers that differ

    for kind, from_, to, begin, end in difflib.SequenceMatcher(None, before, after).get_opcodes():
        if kind == "equal":
            yield " ", "".join(before[from_:to])
            continue
        if to > from_:
            yield "-", "".join(before[from_:to])
        if end > begin:
            yield "+", "".join(after[begin:end])
