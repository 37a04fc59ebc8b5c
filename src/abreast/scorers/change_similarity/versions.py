"""Rebuild files before a change, after the human's and after the agent's, and find what each side changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, TypeVar

from abreast.languages import language_of
from abreast.languages.statements import Statement, Statements, differing_statements
from abreast.scorers.change_similarity.unified import FileDiff, Hunk

Key = TypeVar("Key")
Delta = dict[Key, int]
"""Counts of additions, negative for removals."""

# The weight of a line per word: as a line, as a line with new names replaced by a placeholder, and as words. The score
# is monotone as long as LINE >= (SHAPE + WORD) / 4, so that a right line outweighs superfluous parts of it, and
# LINE + SHAPE >= WORD, so that removing a line that people kept outweighs its words that they removed elsewhere.
LINE, SHAPE, WORD = 5, 5, 10
WEIGHT = LINE + SHAPE + WORD  # weight of a matching line, per word
MARK = WEIGHT // 2  # a name or a mode; a rename is two names
CONTENTS = 5 * WEIGHT  # the weight of a file that counts by name: that of a line of five words

_WORDS = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    return _WORDS.findall(text) or [text]


def word_count(text: str) -> int:
    return len(words_of(text))


Texts = dict[str, list[str]]
"""The lines of files by name."""


@dataclass(slots=True)
class ChangeSide:
    """The change of a file by the human or the agent; `after` is None if it is not fully known."""

    entries: list[FileDiff]
    after: Texts | None

    def lines(self, sign: str) -> Iterator[str]:
        for entry in self.entries:
            for hunk in entry.hunks:
                yield from hunk.only(sign)


@dataclass(slots=True)
class FileVersions:
    """A file under all its names; `before` is None if it is not fully known."""

    before: Texts | None
    human: ChangeSide
    agent: ChangeSide

    @property
    def name(self) -> str:
        return (self.human.entries or self.agent.entries)[0].names[0]


def files(human: Sequence[FileDiff], agent: Sequence[FileDiff]) -> list[FileVersions]:
    """Return all changed files in the order of the diffs, those of the human first."""
    groups = [(_before(*group), *group) for group in _groups(human, agent)]
    return [
        FileVersions(before, ChangeSide(human, _after(before, human)), ChangeSide(agent, _after(before, agent)))
        for before, human, agent in groups
    ]


def _groups(human: Sequence[FileDiff], agent: Sequence[FileDiff]) -> Iterable[tuple[list[FileDiff], list[FileDiff]]]:
    """Group the entries of both diffs by file; a rename in either makes two names one file."""
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
    groups: dict[str, tuple[list[FileDiff], list[FileDiff]]] = {}
    for side, entries in enumerate((human, agent)):
        for entry in entries:
            groups.setdefault(root(entry.names[0]), ([], []))[side].append(entry)
    return groups.values()


def _before(human: list[FileDiff], agent: list[FileDiff]) -> Texts | None:
    """Return the files before the change; None if the diffs do not show all of them."""
    before: Texts = {}
    for entry in human:
        if entry.old is not None and not entry.copied and not entry.binary and entry.is_complete:
            before.setdefault(entry.old, entry.hunks[0].side("-"))
    for entry in agent:
        if entry.old is not None and entry.new is None and entry.is_complete:
            before.setdefault(entry.old, entry.hunks[0].side("-"))
    new = {entry.new for entry in (*human, *agent) if entry.old is None or entry.copied}
    for entry in (*human, *agent):
        is_unknown = entry.old not in before and entry.old not in new and entry.old is not None
        if is_unknown and not entry.copied and not entry.binary and (entry.hunks or entry.old != entry.new):
            return None
    return before


def _after(before: Texts | None, entries: list[FileDiff]) -> Texts | None:
    if before is None:
        return None
    changed = {entry.old for entry in entries} - {entry.old for entry in entries if entry.copied}
    after = {name: lines for name, lines in before.items() if name not in changed}
    for entry in entries:
        start = before.get(entry.old) if entry.old is not None else []
        if entry.new is None or entry.binary:
            continue
        if start is None and entry.copied and entry.is_complete:
            start = entry.hunks[0].side("-")
        if start is None:
            if entry.hunks:
                return None
            continue
        lines = apply_hunks(start, entry.hunks)
        if lines is None:
            return None
        after[entry.new] = lines
    return after


def apply_hunks(lines: list[str], hunks: Iterable[Hunk]) -> list[str] | None:
    """Apply hunks to lines; None if one does not fit. Trailing white space may differ."""
    result: list[str] = []
    position = 0
    for hunk in hunks:
        old = hunk.side("-")
        start, end = hunk.start, hunk.start + len(old)
        if start < position or end > len(lines):
            return None
        pairs = zip(lines[start:end], old, strict=True)
        if any(line.rstrip() != expected.rstrip() for line, expected in pairs):
            return None
        result += lines[position:start] + hunk.side("+")
        position = end
    return result + lines[position:]


_NAMES = ("*.lock", "*-lock.json", "*-lock.yaml", "npm-shrinkwrap.json", "go.sum", "*.min.js", "*.min.css", "*.map")
_HEADER = re.compile(r"Code generated .*DO NOT EDIT|@generated\b")
_HEADER_LINES = 5


def is_generated(file: FileVersions) -> bool:
    """Whether a file is generated, judged by its names (such as a lock file) or its first lines."""
    entries = (*file.human.entries, *file.agent.entries)
    names = [name.rpartition("/")[2] for entry in entries for name in entry.names]
    if all(any(fnmatchcase(name, pattern) for pattern in _NAMES) for name in names):
        return True
    first = [entry.hunks[0] for entry in entries if entry.hunks and entry.hunks[0].start == 0]
    return any(_HEADER.search(text) for hunk in first for _, text in hunk.lines[:_HEADER_LINES])


Method = Literal["syntax", "lines", "name"]


@dataclass(slots=True)
class FileChanges:
    """The two changes of a file: by marks (names, modes, contents known only by name) and by lines. `before` is the
    weight of the old file; `fell_back` is true for source code that could not be parsed.
    """

    how: Method
    human_marks: Delta[str]
    agent_marks: Delta[str]
    human: Delta[Statement] = field(default_factory=dict)
    agent: Delta[Statement] = field(default_factory=dict)
    before: int = 0
    fell_back: bool = False


def read_changes(file: FileVersions) -> FileChanges:
    """Compare a file by the first unit that the human changed: statements, lines, pairs of lines with all white space,
    or the entire text. Large, binary and generated files count by name."""
    entries = (*file.human.entries, *file.agent.entries)
    if any(entry.left_out is not None for entry in file.human.entries) or is_generated(file):
        return FileChanges("name", _contents(file.human), _contents(file.agent))
    marks = _marks(file.human), _marks(file.agent)
    if any(entry.copied and not entry.hunks for entry in file.human.entries):  # the diff does not show the original
        return FileChanges("name", *marks)
    before, human, agent = file.before, file.human.after, file.agent.after
    if before is None or human is None or agent is None:
        own, other = _hunk_changes(file.human), _hunk_changes(file.agent)
        is_named = bool(file.human.entries) and not own
        return FileChanges(
            "name" if is_named else "lines", *marks, own, other, _size(_without_layout(_visible_old_lines(file)))
        )
    is_code = all(language_of(name) is not None for entry in entries for name in entry.names)
    parsed = differing_statements([_encoded(before), _encoded(human), _encoded(agent)]) if is_code else None
    if parsed is not None:
        versions, shared = parsed
        if any(own := _difference(versions[0], versions[1])):
            size = _size(versions[0].elements()) + shared * WEIGHT
            return FileChanges("syntax", *marks, own, _difference(versions[0], versions[2]), size)
    split: tuple[Callable[[Texts], Iterator[Statement]], ...] = (_lines, _neighbours, _as_unit)
    for lines in split:
        counts = [Counter(lines(texts)) for texts in (before, human, agent)]
        if any(own := _difference(counts[0], counts[1])):
            size = _size(counts[0].elements())
            return FileChanges(
                "lines", *marks, own, _difference(counts[0], counts[2]), size, is_code and parsed is None
            )
    counts = [Counter(_lines(texts)) for texts in (before, agent)]
    return FileChanges("name", *marks, {}, _difference(*counts), _size(counts[0].elements()))


def _difference(before: Statements, after: Statements) -> Delta[Statement]:
    return {line: after[line] - before[line] for line in before | after if after[line] != before[line]}


def _size(lines: Iterable[Statement]) -> int:
    return sum(WEIGHT * word_count(line.text) for line in lines)


def _hunk_changes(side: ChangeSide) -> Delta[Statement]:
    return _difference(Counter(_without_layout(side.lines("-"))), Counter(_without_layout(side.lines("+"))))


def _visible_old_lines(file: FileVersions) -> Iterator[str]:
    """Yield the old lines in the human's diff, or in the agent's if the human did not change the file."""
    for entry in file.human.entries or file.agent.entries:
        for hunk in entry.hunks:
            yield from hunk.side("-")


def _marks(side: ChangeSide) -> Delta[str]:
    """Count new and removed names, modes and binary contents."""
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


def _contents(side: ChangeSide) -> Delta[str]:
    """Count new and removed names, and changed contents unless the file was emptied."""
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
        yield from _without_layout(lines)


def _without_layout(lines: Iterable[str]) -> Iterator[Statement]:
    """Yield non-empty lines with single spaces."""
    for line in lines:
        if text := " ".join(line.split()):
            yield Statement(text)


def _neighbours(texts: Texts) -> Iterator[Statement]:
    for lines in texts.values():
        yield from (Statement("\0".join(pair)) for pair in zip(["", *lines], [*lines, ""], strict=True))


def _as_unit(texts: Texts) -> Iterator[Statement]:
    for lines in texts.values():
        yield Statement("".join(lines))
