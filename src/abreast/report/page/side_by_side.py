"""Two changes of the same start beside each other, file by file and line by line.

Both count the lines of what was there before, so these lie beside each other; what was added stands before the same
line of them. Whatever the diffs hold, the work is linear, and no more comes out than a page shows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from abreast.report.page.trial_artifacts import cut, size
from abreast.scorers.change_similarity.unified import FileDiff, parse_diff

CONTEXT = 3  # lines around a change
NAMES = 20  # of files that have no room
GAP = "…"
_CELL = 45  # bytes of a line besides its words
_FILE = 400


@dataclass(frozen=True, slots=True)
class Limits:
    bytes: int
    rows: int  # of one file
    line: int  # characters of one line
    plain: int  # characters of what cannot be read as a diff


class Cell(NamedTuple):
    """A line of one of the two: `sign` is "+", "-", " " for one that stayed, `GAP` for several that are not shown, or
    nothing where the other one has a line of its own. `number` is the line's before the change."""

    sign: str
    number: int | None = None
    text: str = ""
    ends: bool = True  # in a line break


NOTHING = Cell("")


@dataclass(slots=True)
class Change:
    """What somebody changed, as read from a diff. `plain` is the text of one that cannot be read."""

    files: list[FileDiff] = field(default_factory=list)
    plain: str = ""
    notes: list[str] = field(default_factory=list)
    _edits: dict[int, _Edits] = field(default_factory=dict)

    @classmethod
    def read(cls, diff: str) -> Change:
        found = parse_diff(diff)
        if not found:
            return cls(plain=diff if diff.strip() else "")
        there = sum(line[:1] in ("+", "-") and line[:4] not in ("+++ ", "--- ") for line in diff.split("\n"))
        is_whole = there <= sum(sign != " " for entry in found for hunk in entry.hunks for sign, _ in hunk.lines)
        return cls(found, notes=[] if is_whole else ["parts of the diff cannot be read and are not shown"])

    def lines(self, sign: str) -> int:
        return sum(mark == sign for entry in self.files for hunk in entry.hunks for mark, _ in hunk.lines)

    def edits(self, entry: FileDiff) -> _Edits:
        """What it does to the lines of one of its files; a human's change is compared with many."""
        if id(entry) not in self._edits:
            self._edits[id(entry)] = _Edits(entry)
        return self._edits[id(entry)]


@dataclass(slots=True)
class Pair:
    """One file: what is said of it on each side, and the lines of both, as many if they are `aligned`."""

    name: str
    said: tuple[str, str]
    left: list[Cell]
    right: list[Cell]
    aligned: bool = True
    is_cut: bool = False  # it has more lines


@dataclass(slots=True)
class Beside:
    """Two changes side by side, as much of them as there is limits."""

    pairs: list[Pair] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # of files without room
    more: int = 0  # further ones
    used: int = 0  # bytes


def side_by_side(left: Change | None, right: Change, limits: Limits) -> Beside:
    """The files of both, those of the left one first. Without a left one there is nothing to compare with."""
    found = Beside()
    both = (left or Change(), right)
    for one, other in _together(both[0].files, right.files):
        name = cut((one or other or FileDiff()).names[0], 300)
        if found.used > limits.bytes:
            if len(found.names) < NAMES:
                found.names.append(name)
            else:
                found.more += 1
            continue
        pair = _pair(name, both, (one, other), limits)
        found.used += _FILE + sum(map(size, (name, *pair.said))) + sum(map(_size, (*pair.left, *pair.right)))
        found.pairs.append(pair)
    return found


def _together(left: Sequence[FileDiff], right: Sequence[FileDiff]) -> Iterator[tuple[FileDiff | None, FileDiff | None]]:
    """Those that begin with the same file stand together: one may rename what the other edits."""
    waiting: dict[tuple[str | None, str | None], list[FileDiff]] = {}
    for entry in reversed(right):
        waiting.setdefault(_begins(entry), []).append(entry)
    for entry in left:
        same = waiting.get(_begins(entry))
        yield entry, same.pop() if same else None
    for key in dict.fromkeys(map(_begins, right)):
        yield from ((None, entry) for entry in reversed(waiting[key]))


def _begins(entry: FileDiff) -> tuple[str | None, str | None]:
    """What it begins with; a new file, or a copy, is known by what it ends as."""
    return (entry.old, entry.new if entry.copied or entry.old is None else None)


def _said(entry: FileDiff | None, is_unknown: bool) -> str:
    if entry is None:
        return "not known" if is_unknown else "not touched"
    parts = []
    if entry.old is None:
        parts.append("added")
    elif entry.new is None:
        parts.append("deleted")
    elif entry.old != entry.new:
        parts.append(f"{'copied' if entry.copied else 'renamed'} from {cut(entry.old, 300)} to {cut(entry.new, 300)}")
    parts += [cut(mode, 40) for mode in entry.modes[:2]]
    if entry.binary:
        parts.append("binary, not shown")
    elif entry.combined:
        parts.append("compared with several states before, not shown")
    elif entry.left_out is not None:
        parts.append("too large, not shown")
    return ", ".join(parts)


def _size(cell: Cell) -> int:
    return _CELL + size(cell.text)


def _pair(
    name: str, changes: tuple[Change, Change], files: tuple[FileDiff | None, FileDiff | None], limits: Limits
) -> Pair:
    said = [_said(entry, bool(change.plain)) for change, entry in zip(changes, files, strict=True)]
    pair = Pair(name, (said[0], said[1]), [], [])
    edits = [change.edits(entry) if entry else None for change, entry in zip(changes, files, strict=True)]
    if edits[0] and edits[1] and edits[0].fits(edits[1]):
        rows, pair.is_cut = _shown(_rows(edits[0], edits[1], limits.rows), limits)
        pair.left, pair.right = ([row[side] for row in rows] for side in range(2))
        return pair
    pair.aligned = False
    for cells, found in zip((pair.left, pair.right), edits, strict=True):
        if found:
            rows, is_cut = _shown(_rows(found, _Edits(FileDiff()), limits.rows), limits)
            cells += [row[0] for row in rows]
            pair.is_cut |= is_cut
    return pair


_Row = tuple[Cell, Cell]


def _shown(rows: Iterator[_Row], limits: Limits) -> tuple[list[_Row], bool]:
    """The first rows, their lines cut, and whether there are more."""
    found: list[_Row] = []
    used = 0
    for row in rows:
        if len(found) >= limits.rows or used > limits.bytes // 2:
            return found, True
        one, other = (cell._replace(text=cut(cell.text, limits.line)) for cell in row)
        used += _size(one) + _size(other)
        found.append((one, other))
    return found, False


class _Edits:
    """What one side does to the lines that were there, by their number from 0."""

    def __init__(self, entry: FileDiff) -> None:
        self.known: dict[int, str] = {}
        self.removed: set[int] = set()
        self.added: dict[int, list[str]] = {}  # before this line
        self.sound = True
        for hunk in () if entry.binary else entry.hunks:
            at = hunk.start
            for sign, text in hunk.lines:
                if sign == "+":
                    self.added.setdefault(at, []).append(text)
                    continue
                self.sound &= at not in self.known
                self.known[at] = text
                if sign == "-":
                    self.removed.add(at)
                at += 1

    def line(self, other: _Edits, at: int) -> str | None:
        """A line that was there, if one of the two shows it."""
        return self.known.get(at, other.known.get(at))

    def fits(self, other: _Edits) -> bool:
        """Whether both speak of the same lines; white space at the end of one may differ."""
        few, many = sorted((self.known, other.known), key=len)
        return (
            self.sound
            and other.sound
            and all(at not in many or many[at].rstrip() == text.rstrip() for at, text in few.items())
        )


def _rows(left: _Edits, right: _Edits, most: int) -> Iterator[_Row]:
    """The changed lines of both with some around them; a row with a gap where lines are passed over. Of lines that are
    added at one place, no more than so many."""
    end = 0  # of what is shown
    changed = sorted({*left.removed, *right.removed, *left.added, *right.added})
    for at, then in zip(changed, [*changed[1:], None], strict=False):
        begin = max(end, at - CONTEXT)
        while begin < at and left.line(right, begin) is None:
            begin += 1
        if begin > end:
            yield (Cell(GAP, None, f"{begin - end:,} line{'s' if begin - end > 1 else ''}"),) * 2
        for number in range(begin, at):
            yield _old(left, right, number)
        for one, other in _paired(left.added.get(at, [])[: most + 1], right.added.get(at, [])[: most + 1]):
            yield _added(one), _added(other)
        end = at
        while end < (at + CONTEXT + 1 if then is None else min(then, at + CONTEXT + 1)):
            if left.line(right, end) is None:
                break
            yield _old(left, right, end)
            end += 1


def _added(text: str | None) -> Cell:
    return NOTHING if text is None else Cell("+", None, text.removesuffix("\n"), text.endswith("\n"))


def _old(left: _Edits, right: _Edits, at: int) -> _Row:
    text = left.line(right, at) or ""
    words, ends = text.removesuffix("\n"), text.endswith("\n")
    one, other = (Cell("-" if at in each.removed else " ", at + 1, words, ends) for each in (left, right))
    return one, other


def _paired(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[str | None, str | None]]:
    """Lines that both have once, in the same order, stand beside each other; the others as they come.

    >>> list(_paired(["a", "x"], ["b", "c", "x"]))
    [('a', 'b'), (None, 'c'), ('x', 'x')]
    """
    begin = (0, 0)
    for here, there in (*_anchors(left, right), (len(left), len(right))):
        yield from zip_longest(left[begin[0] : here], right[begin[1] : there])
        if here < len(left):
            yield left[here], right[there]
        begin = (here + 1, there + 1)


def _anchors(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """The longest rising run of lines that each side has once."""
    counts = [Counter(left), Counter(right)]
    place = {text: at for at, text in enumerate(right) if counts[1][text] == 1}
    both = [(at, place[text]) for at, text in enumerate(left) if counts[0][text] == 1 and text in place]
    ends: list[int] = []  # the least end of a run of each length
    runs: list[tuple[int, int]] = []  # which pair ends it
    before: dict[tuple[int, int], tuple[int, int] | None] = {}
    for pair in both:
        length = bisect_left(ends, pair[1])
        before[pair] = runs[length - 1] if length else None
        ends[length : length + 1] = [pair[1]]
        runs[length : length + 1] = [pair]
    found: list[tuple[int, int]] = []
    last = runs[-1] if runs else None
    while last is not None:
        found.append(last)
        last = before[last]
    return found[::-1]
