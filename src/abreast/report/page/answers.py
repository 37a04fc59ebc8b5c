"""What was asked, expected and answered in a case, side by side, and never more of it than a page shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
    answer: int
    prompt: int
    expected: int


LARGE, SMALL = Caps(4_000, 2_000, 1_000), Caps(1_200, 600, 400)
LINES = 400_000  # of diffs that are read for the page


@dataclass(frozen=True, slots=True)
class Answered:
    """What one variant was asked and said."""

    name: str
    text: str
    ok: bool
    score: float | None
    prompt: str
    links: tuple[Link, ...] = ()  # to what it left


@dataclass(frozen=True, slots=True)
class CaseAnswers:
    """One case in full, or as much of it as the caps allow."""

    sides: tuple[Answered, ...]
    expected: str
    prompt: str | None  # None if each side has its own
    repeat: str
    diff: tuple[tuple[str, str], ...] = ()  # (sign, words): " " both, "-" only the first, "+" only the second
    blocks: tuple[Block, ...] = ()  # changes side by side
    changes: str = ""  # where all changes of the case are

    def size(self) -> int:
        told = [self.expected, self.prompt or "", *(words for _, words in self.diff)]
        told += [text for one in self.sides for text in (one.name, one.text, one.prompt if self.prompt is None else "")]
        links = sum(len("".join(link)) + 60 for one in self.sides for link in one.links)
        return sum(map(size, told)) + 500 + 25 * len(self.diff) + links + sum(block.size() for block in self.blocks)


class AnswerReader:
    """Reads what was asked and answered, and never more of it than is shown."""

    def __init__(self, rows: Rows, left: RunArtifacts, links: Links) -> None:
        self._rows, self._left, self._links = rows, left, links
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
        """These cases with the answers of these variants."""
        chosen = [self._repeat(case, variants) for case in cases]
        places = [
            [self._row(case, index, repeat) for index in variants] for case, repeat in zip(cases, chosen, strict=True)
        ]
        texts = self._texts([row for found in places for row in found if row is not None], caps)
        return [
            self._shown(case, variants, repeat, found, texts, caps, with_diff)
            for case, repeat, found in zip(cases, chosen, places, strict=True)
        ]

    def _repeat(self, case: int, variants: Sequence[int]) -> int:
        """The repeat that shows the difference of the case best; the first, if they do not differ."""
        if self._rows.repeats == 1:
            return 0
        found = []
        for repeat in range(self._rows.repeats):
            rows = [self._row(case, index, repeat) for index in variants]
            found.append([np.nan if row is None else float(self._rows.score[row]) for row in rows])
        scores = np.nan_to_num(np.array(found), nan=0.0)
        if scores.shape[1] < 2:
            return 0
        apart = scores[:, 1] - scores[:, 0]
        return int(np.argmax(apart if apart.sum() >= 0 else -apart))

    def _texts(self, rows: Sequence[int], caps: Caps) -> dict[int, dict[str, Any]]:
        at = {int(self._rows.position[row]): row for row in rows}
        most = {"error": caps.answer * 4, "prompt": caps.prompt * 4, "answer": caps.answer * 4}  # bytes
        found = self._rows.store.queries.trial_texts(self._rows.run_id, at, most)
        return {at[trial.position]: _as_texts(trial, caps, bool(self._left)) for trial in found}

    def _shown(
        self,
        case: int,
        variants: Sequence[int],
        repeat: int,
        places: Sequence[int | None],
        texts: dict[int, dict[str, Any]],
        caps: Caps,
        with_diff: bool,
    ) -> CaseAnswers:
        rows, sides = self._rows, []
        expected = ""
        for index, row in zip(variants, places, strict=True):
            told = texts.get(row) if row is not None else None
            if row is None or told is None:
                sides.append(Answered(rows.variants[index], "not run", False, None, ""))
                continue
            ok, score = told["status"] == "ok", float(rows.score[row])
            text = told["answer"] if ok else cut(failure(told), caps.answer)
            links = self._links.of(self._trial(row))
            known = None if np.isnan(score) else score
            sides.append(Answered(rows.variants[index], text, ok, known, told["prompt"], links=links))
            expected = told["expected"]
        prompts = {one.prompt for one in sides if one.prompt}
        return CaseAnswers(
            sides=tuple(sides),
            expected=expected,
            prompt=next(iter(prompts), "") if len(prompts) < 2 else None,
            repeat=f"repeat {repeat + 1} of {rows.repeats}" if rows.repeats > 1 else "",
            diff=_diff(*sides) if with_diff and len(sides) == 2 else (),
            blocks=self._blocks(map(self._trial, places)) if self._left and with_diff and len(places) == 2 else (),
            changes=self._links.changes.get(case, ""),
        )

    def _blocks(self, trials: Iterable[TrialArtifacts | None]) -> tuple[Block, ...]:
        from abreast.report.page.changes import ON_THE_PAGE

        return self._changes.of_two(trials, ON_THE_PAGE)

    @cached_property
    def _changes(self) -> Changes:
        from abreast.report.page.changes import Changes  # late: most runs change no files

        return Changes(self._left, LINES)

    def _trial(self, row: int | None) -> TrialArtifacts | None:
        return None if row is None else self._left.trials.get(int(self._rows.position[row]))


def _as_texts(trial: TrialTexts, caps: Caps, without_diff: bool) -> dict[str, Any]:
    return {
        "status": trial.status,
        "error_kind": trial.error_kind,
        "error_blame": trial.error_blame,
        "error": _text(*trial.error, caps.answer),
        "prompt": _text(*trial.prompt, caps.prompt),
        "answer": _text(*trial.answer, caps.answer),
        "expected": _expected(trial.expected, caps.expected, without_diff),
    }


def _expected(stored: str, most: int, without_diff: bool) -> str:
    """An expected text as it is, anything else as JSON; a human's change is shown beside those of agents."""
    expected = json.loads(stored)
    if without_diff and isinstance(expected, dict):
        stored = to_json({key: value for key, value in expected.items() if key != "diff"})
    text = (expected if isinstance(expected, str) else stored).encode()
    return "" if text in (b"null", b"{}") else _text(text[: most * 4], len(text), most)


def _text(begin: bytes | None, whole: int | None, most: int) -> str:
    """The beginning of a text, and how long it is if that is not all of it."""
    if begin is None:
        return ""
    text = begin.decode(errors="replace" if len(begin) == whole else "ignore")
    if len(begin) == whole and len(text) <= most:
        return text
    length = f"{len(text):,} characters" if len(begin) == whole else f"{whole:,} bytes"
    return f"{text[:most]} … ({length} in all)"


_WORD = re.compile(r"\s*\S+")


def _diff(one: Answered, other: Answered) -> tuple[tuple[str, str], ...]:
    """What was taken out and put in, word by word; nothing if they are alike."""
    if not (one.ok and other.ok) or one.text == other.text:
        return ()
    return tuple(_changes(_WORD.findall(one.text), _WORD.findall(other.text)))


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
