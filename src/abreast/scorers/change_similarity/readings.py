"""What two people did to one file, in lines or statements that each of them added and removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from abreast.languages import language_of
from abreast.languages.statements import Statement, Statements, differing_statements
from abreast.scorers.change_similarity.tally import WEIGHT, Delta, word_count
from abreast.scorers.change_similarity.versions import File, Side, Texts, is_generated

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
