"""Files in three versions (before, by the human, by the agent), and the lines or statements that each side changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, TypeVar

from abreast.languages import language_of
from abreast.languages.statements import Statement, Statements, differing_statements
from abreast.scorers.change_similarity.unified import Entry, Hunk

Key = TypeVar("Key")
Delta = dict[Key, int]
"""How often something was added, or removed if negative."""

# What a line weighs for each of its words: as a line, as a line whose new names are left open, and as a word. The score
# is monotone as long as LINE >= (SHAPE + WORD) / 4, so that a right line outweighs parts of it that are too many, and
# LINE + SHAPE >= WORD, so that removing a line that people kept outweighs its words that they removed elsewhere.
LINE, SHAPE, WORD = 5, 5, 10
WEIGHT = LINE + SHAPE + WORD  # of a line that is right, for each word
MARK = WEIGHT // 2  # a name or a mode; a rename is two names
CONTENTS = 5 * WEIGHT  # contents that are known by name only: as much as a line of five words

_WORDS = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    return _WORDS.findall(text) or [text]


def word_count(text: str) -> int:
    return len(words_of(text))


Texts = dict[str, list[str]]
"""The lines of files by name."""


@dataclass(slots=True)
class Side:
    """What one of the two did to a file: what is there `after`, None if that is not known in whole."""

    entries: list[Entry]
    after: Texts | None

    def lines(self, sign: str) -> Iterator[str]:
        for entry in self.entries:
            for hunk in entry.hunks:
                yield from hunk.only(sign)


@dataclass(slots=True)
class File:
    """A file, under all names that one of the two gave it. What was `before` is None if it is not known in whole."""

    before: Texts | None
    human: Side
    agent: Side

    @property
    def name(self) -> str:
        return (self.human.entries or self.agent.entries)[0].names[0]


def files(human: Sequence[Entry], agent: Sequence[Entry]) -> list[File]:
    """All files that one of the two changed, in the order of the diffs, those of the human first."""
    return [_file(*group) for group in _groups(human, agent)]


def _groups(human: Sequence[Entry], agent: Sequence[Entry]) -> Iterable[tuple[list[Entry], list[Entry]]]:
    """The entries that speak of one file: a rename, by whomever, makes two names one file."""
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while (above := parents.setdefault(name, name)) != name:
            parents[name] = parents[above]
            name = above
        return name

    for entry in (*human, *agent):
        first, *more = entry.names
        for other in () if entry.copied else more:
            parents[root(other)] = root(first)
    found: dict[str, tuple[list[Entry], list[Entry]]] = {}
    for side, entries in enumerate((human, agent)):
        for entry in entries:
            found.setdefault(root(entry.names[0]), ([], []))[side].append(entry)
    return found.values()


def _file(human: list[Entry], agent: list[Entry]) -> File:
    before = _before(human, agent)
    return File(before, Side(human, _after(before, human)), Side(agent, _after(before, agent)))


def _before(human: list[Entry], agent: list[Entry]) -> Texts | None:
    """What was there, as far as the human's diff shows all of it; what somebody removed or renamed is known too."""
    found: Texts = {}
    for entry in human:
        if entry.old is not None and not entry.copied and not entry.binary and entry.whole:
            found.setdefault(entry.old, entry.hunks[0].side("-"))
    for entry in agent:
        if entry.old is not None and entry.new is None and entry.whole:
            found.setdefault(entry.old, entry.hunks[0].side("-"))
    new = {entry.new for entry in (*human, *agent) if entry.old is None or entry.copied}
    for entry in (*human, *agent):
        is_unknown = entry.old not in found and entry.old not in new and entry.old is not None
        if is_unknown and not entry.copied and not entry.binary and (entry.hunks or entry.old != entry.new):
            return None
    return found


def _after(before: Texts | None, entries: list[Entry]) -> Texts | None:
    if before is None:
        return None
    found = {name: lines for name, lines in before.items() if not any(entry.old == name for entry in entries)}
    kept = {entry.old for entry in entries if entry.copied}
    found |= {name: before[name] for name in kept if name is not None and name in before}
    for entry in entries:
        start = before.get(entry.old) if entry.old is not None else []
        if entry.new is None or entry.binary:
            continue
        if start is None and entry.copied and entry.whole:
            start = entry.hunks[0].side("-")
        if start is None:
            if entry.hunks:
                return None
            continue
        lines = applied(start, entry.hunks)
        if lines is None:
            return None
        found[entry.new] = lines
    return found


def applied(lines: list[str], hunks: Iterable[Hunk]) -> list[str] | None:
    """The lines after these hunks; None if one of them does not fit. White space at the end of a line may differ."""
    found: list[str] = []
    at = 0
    for hunk in hunks:
        old = hunk.side("-")
        start, end = hunk.start, hunk.start + len(old)
        if start < at or end > len(lines):
            return None
        pairs = zip(lines[start:end], old, strict=True)
        if any(left != right and left.rstrip() != right.rstrip() for left, right in pairs):
            return None
        found += lines[at:start]
        found += hunk.side("+")
        at = end
    return found + lines[at:]


_NAMES = ("*.lock", "*-lock.json", "*-lock.yaml", "npm-shrinkwrap.json", "go.sum", "*.min.js", "*.min.css", "*.map")
_HEADER = re.compile(r"Code generated .*DO NOT EDIT|@generated\b")
_HEADER_LINES = 5


def is_generated(file: File) -> bool:
    """Whether all names of a file are those of a lock file or a bundle, or its first lines say that it is generated."""
    entries = (*file.human.entries, *file.agent.entries)
    names = [name.rpartition("/")[2] for entry in entries for name in entry.names]
    if all(any(fnmatchcase(name, pattern) for pattern in _NAMES) for name in names):
        return True
    first = [entry.hunks[0] for entry in entries if entry.hunks and entry.hunks[0].start == 0]
    return any(_HEADER.search(text) for hunk in first for _, text in hunk.lines[:_HEADER_LINES])


How = Literal["syntax", "lines", "name"]


@dataclass(slots=True)
class Reading:
    """The two changes of a file: marks (names, modes, contents known only by name) and lines with how often they were
    added, or removed if negative. `before` is the weight of the old file.

    `fell_back` if the file is source code that could not be parsed.
    """

    how: How
    human_marks: Delta[str]
    agent_marks: Delta[str]
    human: Delta[Statement] = field(default_factory=dict)
    agent: Delta[Statement] = field(default_factory=dict)
    before: int = 0
    fell_back: bool = False


def read(file: File) -> Reading:
    """Read a file in the first way in which the human changed anything: by statements, by lines, by lines and their
    neighbours with all white space, by the whole text. Large, binary and generated files count by name."""
    entries = (*file.human.entries, *file.agent.entries)
    if any(entry.left_out is not None for entry in file.human.entries) or is_generated(file):
        return Reading("name", _contents(file.human), _contents(file.agent))
    marks = _marks(file.human), _marks(file.agent)
    if any(entry.copied and not entry.hunks for entry in file.human.entries):  # the diff does not show the original
        return Reading("name", *marks)
    before, human, agent = file.before, file.human.after, file.agent.after
    if before is None or human is None or agent is None:
        own, other = _of_hunks(file.human), _of_hunks(file.agent)
        is_named = bool(file.human.entries) and not own
        return Reading("name" if is_named else "lines", *marks, own, other, _size(_leveled(_shown_before(file))))
    is_code = all(language_of(name) is not None for entry in entries for name in entry.names)
    parsed = differing_statements([_encoded(before), _encoded(human), _encoded(agent)]) if is_code else None
    if parsed is not None:
        versions, shared = parsed
        if any(own := _difference(versions[0], versions[1])):
            size = _size(versions[0].elements()) + shared * WEIGHT
            return Reading("syntax", *marks, own, _difference(versions[0], versions[2]), size)
    split: tuple[Callable[[Texts], Iterator[Statement]], ...] = (_lines, _neighbours, _whole)
    for lines in split:
        counts = [Counter(lines(texts)) for texts in (before, human, agent)]
        if any(own := _difference(counts[0], counts[1])):
            size = _size(counts[0].elements())
            return Reading("lines", *marks, own, _difference(counts[0], counts[2]), size, is_code and parsed is None)
    counts = [Counter(_lines(texts)) for texts in (before, agent)]
    return Reading("name", *marks, {}, _difference(*counts), _size(counts[0].elements()))


def _difference(before: Statements, after: Statements) -> Delta[Statement]:
    return {line: after[line] - before[line] for line in before | after if after[line] != before[line]}


def _size(lines: Iterable[Statement]) -> int:
    return sum(WEIGHT * word_count(line.text) for line in lines)


def _of_hunks(side: Side) -> Delta[Statement]:
    return _difference(Counter(_leveled(side.lines("-"))), Counter(_leveled(side.lines("+"))))


def _shown_before(file: File) -> Iterator[str]:
    """The old lines that the diffs show, for want of all of them: where people changed nothing, those of the agent."""
    for entry in file.human.entries or file.agent.entries:
        for hunk in entry.hunks:
            yield from hunk.side("-")


def _marks(side: Side) -> Delta[str]:
    """Names that appear or disappear, modes, and binary contents."""
    marks: Counter[str] = Counter()
    for entry in side.entries:
        if entry.old != entry.new:
            if entry.new is not None:
                marks[f"name {entry.new}"] += 1
            if entry.old is not None and not entry.copied:
                marks[f"name {entry.old}"] -= 1
        marks.update(f"mode {mode}" for mode in entry.modes)
        marks.update(["contents"] if entry.binary and entry.new is not None else [])
    return {mark: count for mark, count in marks.items() if count}


def _contents(side: Side) -> Delta[str]:
    """Names that appear or disappear, and whether something else is there now; an emptied file has no contents."""
    names = {mark: count for mark, count in _marks(side).items() if mark.startswith("name ")}
    is_shown = not any(entry.left_out is not None for entry in side.entries)
    is_emptied = is_shown and side.after is not None and not any(side.after.values())
    is_changed = any(entry.new is not None for entry in side.entries) and not is_emptied
    return names | ({"contents": 1} if is_changed else {})


def _encoded(texts: Texts) -> Iterator[tuple[str, bytes]]:
    for name, lines in texts.items():
        yield name, "".join(lines).encode("utf-8", "replace")


def _lines(texts: Texts) -> Iterator[Statement]:
    for lines in texts.values():
        yield from _leveled(lines)


def _leveled(lines: Iterable[str]) -> Iterator[Statement]:
    """Lines without their layout."""
    for line in lines:
        if text := " ".join(line.split()):
            yield Statement(text)


def _neighbours(texts: Texts) -> Iterator[Statement]:
    for lines in texts.values():
        yield from (Statement("\0".join(pair)) for pair in zip(["", *lines], [*lines, ""], strict=True))


def _whole(texts: Texts) -> Iterator[Statement]:
    for lines in texts.values():
        yield Statement("".join(lines))
