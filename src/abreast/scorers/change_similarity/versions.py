"""Files in three versions: before, as the human left them, and as the agent did."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from abreast.scorers.change_similarity.unified import Entry, Hunk

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

    def marks(self, sign: str) -> Counter[tuple[object, ...]]:
        """What is said of files besides their lines: names that come or go, modes, binary contents."""
        found: Counter[tuple[object, ...]] = Counter()
        for entry in self.entries:
            if entry.old != entry.new:
                name = entry.new if sign == "+" else None if entry.copied else entry.old
                found.update([("name", name)] if name is not None else [])
            if sign == "+":
                found.update(("mode", mode) for mode in entry.modes)
                found.update([("binary",)] if entry.binary else [])
        return found


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
