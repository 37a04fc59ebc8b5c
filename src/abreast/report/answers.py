"""The cases of a run for its page: what was asked, expected and answered, side by side, as much as fits."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import escape

from abreast.analyse import Analysis, Comparison, Rows
from abreast.analyse.paired import Side, side
from abreast.report.sentence import failure, many
from abreast.report.visible import visible
from abreast.stats.values import ROUNDING

ANSWERS = 3_000_000  # bytes of a page for what was asked and answered
LINES = 1_300_000  # and for the list of cases
LISTED = 20  # comparisons whose cases are listed
TOGETHER = 3  # variants side by side where nothing is compared
_LINE = 130  # bytes of a line of the list besides its words
_BATCH = 200  # cases read at once


@dataclass(frozen=True, slots=True)
class Caps:
    """So many characters are shown."""

    answer: int
    prompt: int
    expected: int


LARGE, SMALL = Caps(4_000, 2_000, 1_000), Caps(1_200, 600, 400)


@dataclass(frozen=True, slots=True)
class Answered:
    """What one variant was asked and said."""

    name: str
    text: str
    ok: bool
    score: float | None
    prompt: str


@dataclass(frozen=True, slots=True)
class Shown:
    """One case in full, or as much of it as the caps allow."""

    sides: tuple[Answered, ...]
    expected: str
    prompt: str | None  # None if each side has its own
    repeat: str
    diff: tuple[tuple[str, str], ...] = ()  # (sign, words): " " both, "-" only the first, "+" only the second

    def size(self) -> int:
        told = [self.expected, self.prompt or "", *(words for _, words in self.diff)]
        told += [text for one in self.sides for text in (one.name, one.text, one.prompt if self.prompt is None else "")]
        return sum(map(size, told)) + 500 + 25 * len(self.diff)


@dataclass(slots=True)
class Entry:
    """A line of the list."""

    case: int
    id: str
    scores: tuple[float | None, ...]
    tags: str
    why: str = ""  # it is not compared
    shown: Shown | None = None
    above: bool = False  # among those that differ most

    @property
    def scored(self) -> bool:
        return any(score is not None for score in self.scores)

    @property
    def difference(self) -> float | None:
        if len(self.scores) != 2 or self.scores[0] is None or self.scores[1] is None or self.why:
            return None
        found = self.scores[1] - self.scores[0]
        return 0.0 if abs(found) < ROUNDING else found


@dataclass(slots=True)
class Group:
    """Cases that ended alike."""

    word: str
    entries: list[Entry]
    count: int = 0  # with those that are not listed

    @property
    def left_out(self) -> int:
        return self.count - len(self.entries)


@dataclass(slots=True)
class Listing:
    """All cases of one comparison, or of a run that compares nothing."""

    title: str
    names: tuple[str, ...]
    groups: list[Group] = field(default_factory=list)
    most: list[Entry] = field(default_factory=list)  # that differ most

    @property
    def left_out(self) -> int:
        return sum(group.left_out for group in self.groups)

    @property
    def closed(self) -> int:
        """Cases that are listed without their answers."""
        return sum(1 for group in self.groups for entry in group.entries if not entry.shown and not entry.above)


def size(text: str) -> int:
    """How many bytes a text takes on the page."""
    return len(str(escape(visible(text))).encode())


def listings(analysis: Analysis) -> list[Listing]:
    """The cases of each comparison; every one has its share of the page."""
    reader = _Reader(analysis.rows)
    compared = analysis.comparisons[:LISTED]
    if not compared:
        found = [_alone(analysis)]
    else:
        found = [_of_comparison(analysis, item) for item in compared]
    for listing in found:
        variants = [analysis.rows.variants.index(name) for name in listing.names]
        room = _Room(ANSWERS // len(found))
        reader.fill(listing.most, variants, LARGE, room, with_diff=True)
        _shorten(analysis.rows, listing, LINES // len(found))
        for group in listing.groups:
            reader.fill([entry for entry in group.entries if not entry.above], variants, SMALL, room)
    return found


def _of_comparison(analysis: Analysis, item: Comparison) -> Listing:
    rows, pairs = analysis.rows, item.pairs
    one, other = (side(rows, rows.variants.index(name), rows.score) for name in (item.baseline, item.variant))
    differences = pairs.differences
    entries = [
        Entry(case, "", (before, after), "")
        for case, before, after in zip(
            pairs.cases.tolist(), pairs.baseline.tolist(), pairs.variant.tolist(), strict=True
        )
    ]
    by_size = np.lexsort((pairs.cases, -np.abs(differences))).tolist()
    wins = [entries[at] for at in by_size if differences[at] > 0]
    losses = [entries[at] for at in by_size if differences[at] < 0]
    ties = [entries[at] for at in np.argsort(pairs.cases).tolist() if differences[at] == 0]
    there = set(pairs.cases.tolist())
    rest = [_not_compared(rows, case, one, other) for case in sorted(rows.cases) if case not in there]
    groups = [("wins", wins), ("losses", losses), ("ties", ties), ("not compared", rest)]
    most = [entries[at] for at in by_size[: len(item.differences)]]
    listing = Listing(
        f"{item.variant} against {item.baseline}",
        (item.baseline, item.variant),
        [Group(word, found, len(found)) for word, found in groups if found],
        [Entry(entry.case, "", entry.scores, "") for entry in most],
    )
    for entry in most:
        entry.above = True
    _name(rows, listing.most)
    return listing


def _not_compared(rows: Rows, case: int, one: Side, other: Side) -> Entry:
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
    return Entry(case, "", scores, "", why)


def _alone(analysis: Analysis) -> Listing:
    """A run that compares nothing: its cases, worst first, if there is a score."""
    rows = analysis.rows
    names = tuple(rows.variants[:TOGETHER])
    sides = [side(rows, index, rows.score) for index in range(len(names))]
    entries = [Entry(case, "", tuple(_mean(each.score[case]) for each in sides), "") for case in sorted(rows.cases)]
    groups: dict[str, list[Entry]] = {"wrong": [], "right": [], "no score": []}
    for entry in entries:
        known = [score for score in entry.scores if score is not None]
        groups["no score" if not known else "right" if min(known) >= 1 - ROUNDING else "wrong"].append(entry)
    if not rows.primary:
        groups = {"answers": entries}
    return Listing("", names, [Group(word, found, len(found)) for word, found in groups.items() if found])


def _mean(scores: Any) -> float | None:
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if len(known) else None


def _name(rows: Rows, entries: Iterable[Entry]) -> None:
    """Ids and tags, shortened where somebody wrote a book."""
    for entry in entries:
        facts = rows.cases[entry.case]
        entry.id = cut(facts.id, 120)
        entry.tags = cut(", ".join(f"{tag}={value}" for tag, value in list(facts.tags.items())[:20]), 160)


def _shorten(rows: Rows, listing: Listing, room: int) -> None:
    """Leave out of the list what has no room; small groups take what they need, large ones share the rest."""
    left = len(listing.groups)
    for group in sorted(listing.groups, key=lambda group: group.count):
        kept: list[Entry] = []
        share = room // left
        for entry in group.entries:
            _name(rows, [entry])
            share -= (needed := size(entry.id) + size(entry.tags) + _LINE)
            if share < 0:
                break
            room -= needed
            kept.append(entry)
        group.entries, left = kept, left - 1


def cut(text: str, most: int) -> str:
    """A text, or its beginning and how long it is.

    >>> cut("short", 10), cut("x" * 2000, 3)
    ('short', 'xxx … (2,000 characters in all)')
    """
    return text if len(text) <= most else f"{text[:most]} … ({len(text):,} characters in all)"


class _Room:
    """Bytes that are left."""

    def __init__(self, left: int) -> None:
        self._left = left
        self.used_up = False

    def takes(self, needed: int) -> bool:
        if needed > self._left:
            self.used_up = True
            return False
        self._left -= needed
        return True


# Lengths in bytes, for the text functions of SQLite end at a NUL.
_FIELDS = "SELECT t.position, t.status, t.error_kind, t.error_blame, " + ", ".join(
    f"SUBSTR(CAST({source} AS BLOB), 1, ?), LENGTH(CAST({source} AS BLOB))"
    for source in (
        "t.error",
        "p.prompt",
        "p.answer",
        "CASE WHEN json_type(c.expected) = 'text' THEN json_extract(c.expected, '$') ELSE c.expected END",
    )
)
_SOURCE = (  # CROSS says in which order SQLite goes, else it reads all trials
    " FROM json_each(?) j CROSS JOIN trials t ON t.run_id = ? AND t.position = j.value "
    "CROSS JOIN cases c ON c.digest = t.case_digest "
    "LEFT JOIN payloads p ON p.run_id = t.run_id AND p.position = t.position"
)


class _Reader:
    """Reads what was asked and answered, and never more of it than is shown."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        keys = self._key(rows.case, rows.variant, rows.repeat)
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    def _key(self, case: Any, variant: Any, repeat: Any) -> Any:
        return (case * len(self._rows.variants) + variant) * self._rows.repeats + repeat

    def _row(self, case: int, variant: int, repeat: int) -> int | None:
        key = self._key(case, variant, repeat)
        at = int(np.searchsorted(self._keys, key))
        return int(self._order[at]) if at < len(self._keys) and self._keys[at] == key else None

    def fill(
        self, entries: Sequence[Entry], variants: Sequence[int], caps: Caps, room: _Room, with_diff: bool = False
    ) -> None:
        """Add the answers to these cases, until there is no room."""
        for begin in range(0, len(entries), _BATCH):
            if room.used_up:
                return
            part = entries[begin : begin + _BATCH]
            chosen = [self._repeat(entry.case, variants) for entry in part]
            places = [
                [self._row(entry.case, index, repeat) for index in variants]
                for entry, repeat in zip(part, chosen, strict=True)
            ]
            texts = self._read([row for found in places for row in found if row is not None], caps)
            for entry, repeat, found in zip(part, chosen, places, strict=True):
                shown = self._shown(variants, repeat, found, texts, caps, with_diff)
                if room.takes(shown.size()):
                    entry.shown = shown
                elif not with_diff:
                    return

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

    def _read(self, rows: Sequence[int], caps: Caps) -> dict[int, dict[str, Any]]:
        position = self._rows.position
        ends = (caps.answer * 4, caps.prompt * 4, caps.answer * 4, caps.expected * 4)
        wanted = json.dumps([int(position[row]) for row in rows])
        found = self._rows.store.rows(_FIELDS + _SOURCE, (*ends, wanted, self._rows.run_id))
        at = {int(position[row]): row for row in rows}
        return {at[one[0]]: _as_texts(one, caps) for one in found}

    def _shown(
        self,
        variants: Sequence[int],
        repeat: int,
        places: Sequence[int | None],
        texts: dict[int, dict[str, Any]],
        caps: Caps,
        with_diff: bool,
    ) -> Shown:
        rows, sides = self._rows, []
        expected = ""
        for index, row in zip(variants, places, strict=True):
            told = texts.get(row) if row is not None else None
            if row is None or told is None:
                sides.append(Answered(rows.variants[index], "not run", False, None, ""))
                continue
            ok, score = told["status"] == "ok", float(rows.score[row])
            text = told["answer"] if ok else cut(failure(told), caps.answer)
            sides.append(Answered(rows.variants[index], text, ok, None if np.isnan(score) else score, told["prompt"]))
            expected = told["expected"]
        prompts = {one.prompt for one in sides if one.prompt}
        return Shown(
            tuple(sides),
            expected,
            next(iter(prompts), "") if len(prompts) < 2 else None,
            f"repeat {repeat + 1} of {rows.repeats}" if rows.repeats > 1 else "",
            _diff(*sides) if with_diff and len(sides) == 2 else (),
        )


def _as_texts(row: Sequence[Any], caps: Caps) -> dict[str, Any]:
    status, kind, blame, *texts = row[1:]
    error, prompt, answer, expected = (
        _text(begin, whole, most)
        for begin, whole, most in zip(
            texts[::2], texts[1::2], (caps.answer, caps.prompt, caps.answer, caps.expected), strict=True
        )
    )
    return {
        "status": status,
        "error_kind": kind,
        "error_blame": blame,
        "error": error,
        "prompt": prompt,
        "answer": answer,
        "expected": "" if expected == "null" else expected,
    }


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
    for kind, from_, to, begin, end in difflib.SequenceMatcher(None, before, after).get_opcodes():
        if kind == "equal":
            yield " ", "".join(before[from_:to])
            continue
        if to > from_:
            yield "-", "".join(before[from_:to])
        if end > begin:
            yield "+", "".join(after[begin:end])


def closed_in_words(listing: Listing) -> str:
    """What the list does not have."""
    parts = []
    if listing.closed:
        parts.append(f"{many(listing.closed, 'case')} listed without answers, to keep this file small")
    if listing.left_out:
        parts.append(f"{many(listing.left_out, 'further case')} not listed")
    return "; ".join(parts)
