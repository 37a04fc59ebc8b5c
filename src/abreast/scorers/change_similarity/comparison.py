"""How much of a human change an agent made, missed, added to and destroyed, file by file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from abreast.languages import INSTALL
from abreast.languages.statements import Statement
from abreast.scorers.change_similarity.versions import (
    CONTENTS,
    LINE,
    MARK,
    SHAPE,
    WORD,
    Delta,
    File,
    Key,
    Reading,
    read,
    word_count,
    words_of,
)

MOST_LOST_TO_ADDITIONS = 0.2

_NEW = "\0name"  # a name that is not in the vocabulary


@dataclass(slots=True)
class Tally:
    """Weights of what the human added and removed, how much of it the agent did too, what the agent added besides, and
    what it removed although people kept it; `before` is the weight of the old files. Lines are counted as well."""

    added: int = 0
    removed: int = 0
    right_added: int = 0
    right_removed: int = 0
    extra: int = 0
    destroyed: int = 0
    before: int = 0
    lines: int = 0
    right_lines: int = 0
    extra_lines: int = 0
    destroyed_lines: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    @property
    def missing(self) -> int:
        return self.added + self.removed - self.right_added - self.right_removed

    @property
    def missing_lines(self) -> int:
        return self.lines - self.right_lines

    @property
    def score(self) -> float:
        """The share of the human change that the agent made: 1 if it is the same, 0 for nothing and for mere deletion.

        Removals count less those of what people kept: one for one, or if people removed more than they kept, in that
        proportion. Any further destruction counts like a change that is missing. Additions cost up to 20 %.
        """
        size, kept = self.added + self.removed, self.before - self.removed
        if not size:
            return 0.0
        if self.removed > kept > 0:
            removals = (self.right_removed * kept - self.destroyed * self.removed) / kept
        else:
            removals = self.right_removed - self.destroyed
        most = MOST_LOST_TO_ADDITIONS / (1 - MOST_LOST_TO_ADDITIONS)
        additions = most * size * self.extra / (size + self.extra)
        return (self.right_added + max(0, removals)) / (size + max(0, -removals) + additions)

    def count(self, human: Mapping[Key, int], agent: Mapping[Key, int], weight: Callable[[Key], int]) -> None:
        for key in human.keys() | agent.keys():
            self._count(human.get(key, 0), agent.get(key, 0), weight(key))

    def _count(self, human: int, agent: int, weight: int) -> None:
        self.added += weight * max(human, 0)
        self.removed += weight * max(-human, 0)
        self.right_added += weight * max(min(human, agent), 0)
        self.right_removed += weight * max(min(-human, -agent), 0)
        self.extra += weight * max(agent - max(human, 0), 0)
        self.destroyed += weight * max(min(human, 0) - agent, 0)


def tally_marks(human: Delta[str], agent: Delta[str]) -> Tally:
    tally = Tally()
    tally.count(human, agent, lambda mark: CONTENTS if mark == "contents" else MARK)
    tally.before = tally.removed
    return tally


def tally_lines(human: Delta[Statement], agent: Delta[Statement], vocabulary: frozenset[str]) -> Tally:
    """Compare two changes of a file in three ways at once: by lines, by lines whose new names are left open, and by
    words. A name is new if it is not in the vocabulary. Takes time linear in the size of the changes."""
    tally = Tally()
    by_line, by_shape, by_word = (
        (_grouped(human, parts), _grouped(agent, parts))
        for parts in (
            lambda line: [line.text],
            lambda line: [_shape(line, vocabulary)],
            lambda line: _words(line, vocabulary),
        )
    )
    tally.count(*by_line, lambda text: LINE * word_count(text))
    tally.count(*by_shape, lambda text: SHAPE * word_count(text))
    tally.count(*by_word, lambda word: WORD // 2 if word.startswith(_NEW) else WORD)
    _discount_other_places(tally, human, agent, *by_line, vocabulary)
    lines = Tally()
    lines.count(*by_line, lambda text: 1)
    tally.lines, tally.right_lines = lines.added + lines.removed, lines.right_added + lines.right_removed
    tally.extra_lines, tally.destroyed_lines = lines.extra, lines.destroyed
    return tally


def _discount_other_places(
    tally: Tally,
    human: Delta[Statement],
    agent: Delta[Statement],
    human_lines: Delta[str],
    agent_lines: Delta[str],
    vocabulary: frozenset[str],
) -> None:
    """Take back what lines earned that both changed, but within other definitions: only shape and words count."""
    in_place: Counter[tuple[str, int]] = Counter()
    places = [_placed(delta, vocabulary) for delta in (human, agent)]
    for place in places[0].keys() & places[1].keys():
        for sign in (1, -1):
            in_place[place[0], sign] += max(0, min(sign * count[place] for count in places))
    for text in human_lines.keys() & agent_lines.keys():
        for sign in (1, -1):
            both = max(0, min(sign * human_lines[text], sign * agent_lines[text]))
            discount = max(0, both - in_place[text, sign]) * LINE * word_count(text)
            if sign > 0:
                tally.right_added -= discount
            else:
                tally.right_removed -= discount


def _placed(delta: Delta[Statement], vocabulary: frozenset[str]) -> Counter[tuple[str, tuple[str, ...]]]:
    counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for line, count in delta.items():
        counts[line.text, tuple(name if name in vocabulary else _NEW for name in line.scope)] += count
    return counts


def _grouped(delta: Delta[Statement], parts: Callable[[Statement], Iterable[str]]) -> Delta[str]:
    counts: Counter[str] = Counter()
    for line, count in delta.items():
        for part in parts(line):
            counts[part] += count
    return {part: count for part, count in counts.items() if count}


def _shape(line: Statement, vocabulary: frozenset[str]) -> str:
    if line.names <= vocabulary:
        return line.text
    return " ".join(_NEW if word in line.names and word not in vocabulary else word for word in line.text.split(" "))


def _words(line: Statement, vocabulary: frozenset[str]) -> Iterator[str]:
    """The words of a line. A new name is two halves: that there is one, and which it is."""
    for word in words_of(line.text):
        if word in line.names and word not in vocabulary:
            yield from (_NEW, _NEW + word)
        else:
            yield word


_MOST_NAMES, _LONGEST_LIST = 10, 120


class Comparison:
    """All files that one of the two changed. `value` is the score, `files_f1` that of the choice of files."""

    def __init__(self, files: list[File]) -> None:
        vocabulary = _vocabulary(files)
        self._files = files
        self._readings = [read(file) for file in files]
        self._lines = [_tally_lines(reading, vocabulary) for reading in self._readings]
        self._marks = [tally_marks(reading.human_marks, reading.agent_marks) for reading in self._readings]
        self._human = sum(bool(file.human.entries) for file in files)
        self._both = sum(bool(file.human.entries and file.agent.entries) for file in files)
        self._total = sum([*self._lines, *self._marks], Tally())
        self.value = self._total.score
        self.files_f1 = 2 * self._both / (self._both + len(files))

    def explanation(self) -> str:
        """What matches, what is missing, what is extra and what was destroyed, in one line."""
        total = self._total
        parts = [
            f"{self.value:.2f}: {self._both} of {self._human} files changed",
            f"{total.right_lines} of {_count(total.lines)} match" if total.lines else "",
            self._part("missing", "missing"),
            self._part("extra", "extra"),
            self._part("removed but kept by people", "destroyed"),
            self._methods(),
        ]
        if failures := sum(reading.fell_back for reading in self._readings):
            parts.append(f"syntax not read in {failures}: does not parse, too large, or no tree-sitter ({INSTALL})")
        return "; ".join(filter(None, parts))

    def _part(self, title: str, kind: Literal["missing", "extra", "destroyed"]) -> str:
        """Lines of one kind and the files that they are in, those with most of them first."""
        counts: Counter[str] = Counter()
        for file, tally, marks in zip(self._files, self._lines, self._marks, strict=True):
            lines: int = getattr(tally, f"{kind}_lines")
            if lines or getattr(marks, kind):
                counts[file.name] += lines
        if not counts:
            return ""
        names = [" ".join(name.split()) for name, _ in counts.most_common()]
        shown = ", ".join(names[:_MOST_NAMES])
        shown = f"{shown[:_LONGEST_LIST]}{'...' if len(names) > _MOST_NAMES or len(shown) > _LONGEST_LIST else ''}"
        return f"{title}: {_count(counts.total())} in {shown}" if counts.total() else f"{title}: {shown}"

    def _methods(self) -> str:
        pairs = zip(self._files, self._readings, strict=True)
        counts = Counter(reading.how for file, reading in pairs if file.human.entries and file.agent.entries)
        methods = [f"by {how}: {counts[how]}" for how in ("syntax", "lines", "name") if counts[how]]
        return f"compared {', '.join(methods)}" if methods else ""


def _vocabulary(files: Iterable[File]) -> frozenset[str]:
    """All words of the files before the change: other names are new."""
    texts = (text for file in files for lines in (file.before or {}).values() for text in lines)
    return frozenset(word for text in texts for word in words_of(text))


def _tally_lines(reading: Reading, vocabulary: frozenset[str]) -> Tally:
    tally = tally_lines(reading.human, reading.agent, vocabulary)
    tally.before = reading.before
    return tally


def _count(count: int) -> str:
    return f"{count} line{'' if count == 1 else 's'}"
