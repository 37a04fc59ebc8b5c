"""Align two diffs of the same files side by side, line by line.

Lines are aligned by their number in the original file, which both diffs share; added lines come before the original
line that follows them. The work is linear in the size of the diffs, and `SizeLimits` bounds the output.
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
MAX_NAMES = 20  # files listed by name only because they do not fit
GAP = "…"
_CELL = 45  # bytes of a cell without its text
_FILE = 400  # bytes of a file without its cells and names


@dataclass(frozen=True, slots=True)
class SizeLimits:
    bytes: int
    rows: int  # rows of one file
    line: int  # characters of one line
    plain: int  # characters of text that cannot be parsed as a diff


class DiffCell(NamedTuple):
    """One side of a row. `sign` is "+", "-", " " for an unchanged line, `GAP` for omitted lines, or empty if only the
    other side has a line. `number` is the line number in the original file."""

    sign: str
    number: int | None = None
    text: str = ""
    ends: bool = True  # whether the line ends with a line break


EMPTY_CELL = DiffCell("")


@dataclass(slots=True)
class ParsedDiff:
    """The files of a diff; `plain` is the text of a diff that cannot be parsed."""

    files: list[FileDiff] = field(default_factory=list)
    plain: str = ""
    notes: list[str] = field(default_factory=list)
    _edits: dict[int, _Edits] = field(default_factory=dict)

    @classmethod
    def read(cls, diff: str) -> ParsedDiff:
        files = parse_diff(diff)
        if not files:
            return cls(plain=diff if diff.strip() else "")
        changed = sum(line[:1] in ("+", "-") and line[:4] not in ("+++ ", "--- ") for line in diff.split("\n"))
        parsed = sum(sign != " " for entry in files for hunk in entry.hunks for sign, _ in hunk.lines)
        return cls(files, notes=[] if changed <= parsed else ["parts of the diff cannot be parsed and are left out"])

    def lines(self, sign: str) -> int:
        return sum(mark == sign for entry in self.files for hunk in entry.hunks for mark, _ in hunk.lines)

    def edits(self, entry: FileDiff) -> _Edits:
        """Return the edits of a file; cached, because the human change is compared with many others."""
        if id(entry) not in self._edits:
            self._edits[id(entry)] = _Edits(entry)
        return self._edits[id(entry)]


@dataclass(slots=True)
class FilePair:
    """A file with its status and lines on each side; if `aligned`, both sides have the same number of lines."""

    name: str
    status: tuple[str, str]
    left: list[DiffCell]
    right: list[DiffCell]
    aligned: bool = True
    is_cut: bool = False  # whether lines are left out at the end


@dataclass(slots=True)
class DiffPair:
    """Two changes side by side, as far as the limits allow."""

    pairs: list[FilePair] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # names of files that do not fit
    more: int = 0  # number of further files
    used: int = 0  # bytes


def side_by_side(left: ParsedDiff | None, right: ParsedDiff, limits: SizeLimits) -> DiffPair:
    """Pair the files of both changes, those of the left one first; `left` is None if there is nothing to compare."""
    result = DiffPair()
    both = (left or ParsedDiff(), right)
    for first, second in _matching(both[0].files, right.files):
        name = cut((first or second or FileDiff()).names[0], 300)
        if result.used > limits.bytes:
            if len(result.names) < MAX_NAMES:
                result.names.append(name)
            else:
                result.more += 1
            continue
        pair = _pair(name, both, (first, second), limits)
        result.used += _FILE + sum(map(size, (name, *pair.status))) + sum(map(_size, (*pair.left, *pair.right)))
        result.pairs.append(pair)
    return result


def _matching(left: Sequence[FileDiff], right: Sequence[FileDiff]) -> Iterator[tuple[FileDiff | None, FileDiff | None]]:
    """Pair entries with the same original file: one side may rename what the other edits."""
    unmatched: dict[tuple[str | None, str | None], list[FileDiff]] = {}
    for entry in reversed(right):
        unmatched.setdefault(_origin(entry), []).append(entry)
    for entry in left:
        same = unmatched.get(_origin(entry))
        yield entry, same.pop() if same else None
    for key in dict.fromkeys(map(_origin, right)):
        yield from ((None, entry) for entry in reversed(unmatched[key]))


def _origin(entry: FileDiff) -> tuple[str | None, str | None]:
    """Return the key that pairs entries: the original path, and for new files and copies also the new path."""
    return (entry.old, entry.new if entry.copied or entry.old is None else None)


def _status(entry: FileDiff | None, is_unknown: bool) -> str:
    if entry is None:
        return "unknown" if is_unknown else "not changed"
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
        parts.append("combined diff, not shown")
    elif entry.left_out is not None:
        parts.append("too large, not shown")
    return ", ".join(parts)


def _size(cell: DiffCell) -> int:
    return _CELL + size(cell.text)


def _pair(
    name: str,
    changes: tuple[ParsedDiff, ParsedDiff],
    files: tuple[FileDiff | None, FileDiff | None],
    limits: SizeLimits,
) -> FilePair:
    first, second = (_status(entry, bool(change.plain)) for change, entry in zip(changes, files, strict=True))
    pair = FilePair(name, (first, second), [], [])
    left, right = (change.edits(entry) if entry else None for change, entry in zip(changes, files, strict=True))
    if left and right and left.is_consistent_with(right):
        rows, pair.is_cut = _limited(_rows(left, right, limits.rows), limits)
        pair.left, pair.right = ([row[side] for row in rows] for side in range(2))
        return pair
    pair.aligned = False
    for cells, edits in ((pair.left, left), (pair.right, right)):
        if edits:
            rows, is_cut = _limited(_rows(edits, _Edits(FileDiff()), limits.rows), limits)
            cells += [row[0] for row in rows]
            pair.is_cut |= is_cut
    return pair


_Row = tuple[DiffCell, DiffCell]


def _limited(rows: Iterator[_Row], limits: SizeLimits) -> tuple[list[_Row], bool]:
    """The first rows, with long lines cut, and whether there are more."""
    first: list[_Row] = []
    used = 0
    for row in rows:
        if len(first) >= limits.rows or used > limits.bytes // 2:
            return first, True
        left, right = (cell._replace(text=cut(cell.text, limits.line)) for cell in row)
        used += _size(left) + _size(right)
        first.append((left, right))
    return first, False


class _Edits:
    """The edits of one side, by 0-based line number in the original file."""

    def __init__(self, entry: FileDiff) -> None:
        self.lines: dict[int, str] = {}  # original lines that the diff contains
        self.removed: set[int] = set()
        self.added: dict[int, list[str]] = {}  # lines added before the original line with this number
        self.is_valid = True  # no line occurs twice
        for hunk in () if entry.binary else entry.hunks:
            at = hunk.start
            for sign, text in hunk.lines:
                if sign == "+":
                    self.added.setdefault(at, []).append(text)
                    continue
                self.is_valid &= at not in self.lines
                self.lines[at] = text
                if sign == "-":
                    self.removed.add(at)
                at += 1

    def line(self, other: _Edits, at: int) -> str | None:
        """Return an original line, or None if neither diff contains it."""
        return self.lines.get(at, other.lines.get(at))

    def is_consistent_with(self, other: _Edits) -> bool:
        """Whether both have the same original lines, up to trailing white space."""
        few, many = sorted((self.lines, other.lines), key=len)
        same = all(at not in many or many[at].rstrip() == text.rstrip() for at, text in few.items())
        return self.is_valid and other.is_valid and same


def _rows(left: _Edits, right: _Edits, most: int) -> Iterator[_Row]:
    """Yield the changed lines of both sides with some context, and a gap row for omitted lines. Of the lines added at
    one position, only `most` + 1 per side: enough for `_limited` to see that there are more."""
    end = 0  # the first original line that is not yet output
    changed = sorted({*left.removed, *right.removed, *left.added, *right.added})
    for at, then in zip(changed, [*changed[1:], None], strict=False):
        begin = max(end, at - CONTEXT)
        while begin < at and left.line(right, begin) is None:
            begin += 1
        if begin > end:
            yield (DiffCell(GAP, None, f"{begin - end:,} line{'s' if begin - end > 1 else ''}"),) * 2
        for number in range(begin, at):
            yield _old(left, right, number)
        for first, second in _paired(left.added.get(at, [])[: most + 1], right.added.get(at, [])[: most + 1]):
            yield _added(first), _added(second)
        end = at
        while end < (at + CONTEXT + 1 if then is None else min(then, at + CONTEXT + 1)):
            if left.line(right, end) is None:
                break
            yield _old(left, right, end)
            end += 1


def _added(text: str | None) -> DiffCell:
    return EMPTY_CELL if text is None else DiffCell("+", None, text.removesuffix("\n"), text.endswith("\n"))


def _old(left: _Edits, right: _Edits, at: int) -> _Row:
    text = left.line(right, at) or ""
    words, ends = text.removesuffix("\n"), text.endswith("\n")
    first, second = (DiffCell("-" if at in edits.removed else " ", at + 1, words, ends) for edits in (left, right))
    return first, second


def _paired(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[str | None, str | None]]:
    """Pair equal lines that occur once on each side, in order, and pair the lines between them by position.

    >>> list(_paired(["a", "x"], ["b", "c", "x"]))
    [('a', 'b'), (None, 'c'), ('x', 'x')]
    """
    begin = (0, 0)
    for at_left, at_right in (*_anchors(left, right), (len(left), len(right))):
        yield from zip_longest(left[begin[0] : at_left], right[begin[1] : at_right])
        if at_left < len(left):
            yield left[at_left], right[at_right]
        begin = (at_left + 1, at_right + 1)


def _anchors(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Return index pairs of the longest common subsequence of the lines that occur exactly once on each side."""
    counts = [Counter(left), Counter(right)]
    unique = {text: at for at, text in enumerate(right) if counts[1][text] == 1}
    both = [(at, unique[text]) for at, text in enumerate(left) if counts[0][text] == 1 and text in unique]
    ends: list[int] = []  # the smallest right index that ends a subsequence of each length
    runs: list[tuple[int, int]] = []  # the pair with that right index
    before: dict[tuple[int, int], tuple[int, int] | None] = {}
    for pair in both:
        length = bisect_left(ends, pair[1])
        before[pair] = runs[length - 1] if length else None
        ends[length : length + 1] = [pair[1]]
        runs[length : length + 1] = [pair]
    anchors: list[tuple[int, int]] = []
    last = runs[-1] if runs else None
    while last is not None:
        anchors.append(last)
        last = before[last]
    return anchors[::-1]
