"""How like two changes of one file are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from abreast.languages import elements, language_of
from abreast.scorers.change_similarity.versions import File, Side, Texts

Counted = Counter[tuple[object, ...]]
Change = tuple[Counted, Counted]
"""What is added and what is removed."""
How = Literal["syntax", "lines", "name"]


@dataclass(frozen=True, slots=True)
class Likeness:
    """From 0 to 1, and by what it was found; `fallen_back` if syntax was wanted and could not be had."""

    value: float
    how: How
    fallen_back: bool = False


def likeness(file: File) -> Likeness:
    """F1 of what was added and removed, in the first reading in which the human changed anything: by syntax, by lines,
    by lines and their neighbours with all white space, by the whole text. Of a file that is only named for its size,
    names are all that is known."""
    if any(entry.left_out is not None for entry in file.human.entries):
        return Likeness(_f1(_named(file.human), _named(file.agent)) if file.agent.entries else 0.0, "name")
    marks = (file.human.marks("+"), file.human.marks("-")), (file.agent.marks("+"), file.agent.marks("-"))
    how, human, agent, fallen_back = _read(file)
    value = _f1(_joined(marks[0], human), _joined(marks[1], agent)) if file.agent.entries else 0.0
    return Likeness(value, how, fallen_back)


def size(file: File, side: Side) -> int:
    """The lines that one of the two changed, at least 1: a file may be changed without any."""
    if file.before is not None and side.after is not None:
        added, removed = _by_lines(file.before, side.after)
    else:
        added, removed = _of_hunks(side)
    return max(1, added.total() + removed.total())


def _read(file: File) -> tuple[How, Change, Change, bool]:
    nothing: Change = Counter(), Counter()
    before, human, agent = file.before, file.human.after, file.agent.after
    names = [name for entry in (*file.human.entries, *file.agent.entries) for name in entry.names]
    if any(entry.copied and not entry.hunks for entry in file.human.entries):  # of what, the diff does not show
        return "name", nothing, nothing, False
    wants_syntax = all(language_of(name) is not None for name in names)
    if before is None or human is None or agent is None:
        found = _of_hunks(file.human), _of_hunks(file.agent)
        return "lines" if any(found[0]) else "name", *found, False
    fallen_back = False
    if wants_syntax:
        syntax = elements.edits(_encoded(before), _encoded(human), _encoded(agent))
        fallen_back = syntax is None
        if syntax is not None and any(syntax[0]):
            return "syntax", syntax[0], syntax[1], False
    readings: tuple[Callable[[Texts, Texts], Change], ...] = (_by_lines, _by_neighbours, _by_whole)
    for reading in readings:
        found = reading(before, human), reading(before, agent)
        if any(found[0]):
            return "lines", *found, fallen_back
    return "name", nothing, _by_lines(before, agent), False


def _encoded(texts: Texts) -> Iterator[tuple[str, bytes]]:
    for name, lines in texts.items():
        yield name, "".join(lines).encode("utf-8", "replace")


def _by_lines(before: Texts, after: Texts) -> Change:
    return _changed(_levelled(_all(before)), _levelled(_all(after)))


def _named(side: Side) -> Change:
    """That it was changed, and names that came or went."""
    added, removed = (Counter({mark: n for mark, n in side.marks(sign).items() if mark[0] == "name"}) for sign in "+-")
    return added + Counter([("named",)]), removed


def _of_hunks(side: Side) -> Change:
    return _changed(_levelled(side.lines("-")), _levelled(side.lines("+")))


def _by_neighbours(before: Texts, after: Texts) -> Change:
    return _changed(_pairs(before), _pairs(after))


def _by_whole(before: Texts, after: Texts) -> Change:
    return _changed(_wholes(before), _wholes(after))


def _changed(before: Iterable[tuple[object, ...]], after: Iterable[tuple[object, ...]]) -> Change:
    old, new = Counter(before), Counter(after)
    return new - old, old - new


def _all(texts: Texts) -> Iterator[str]:
    for lines in texts.values():
        yield from lines


def _levelled(lines: Iterable[str]) -> Iterator[tuple[object, ...]]:
    for line in lines:
        if plain := " ".join(line.split()):
            yield ("line", plain)


def _pairs(texts: Texts) -> Iterator[tuple[object, ...]]:
    for lines in texts.values():
        yield from (("pair", *pair) for pair in zip(["", *lines], [*lines, ""], strict=True))


def _wholes(texts: Texts) -> Iterator[tuple[object, ...]]:
    for lines in texts.values():
        yield ("whole", "".join(lines))


def _joined(marks: Change, content: Change) -> Change:
    return marks[0] + content[0], marks[1] + content[1]


def _f1(one: Change, other: Change) -> float:
    """Of both parts together; what one added is never like what the other removed."""
    common = sum((left & right).total() for left, right in zip(one, other, strict=True))
    total = sum(part.total() for change in (one, other) for part in change)
    return 2 * common / total if total else 0.0
