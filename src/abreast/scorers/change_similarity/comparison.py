"""Count how much of a human change an agent made, missed, added and destroyed, file by file."""

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
    FileChanges,
    FileVersions,
    Key,
    read_changes,
    word_count,
    words_of,
)
from abreast.text import many

MOST_LOST_TO_ADDITIONS = 0.2

_NEW = "\0name"  # stands for a name that is not in the vocabulary


@dataclass(slots=True)
class ChangeTally:
    """Weights and lines of a change: what the human added and removed, how much of that the agent did too (`right`),
    what else the agent added (`extra`) or removed (`destroyed`). `before` is the weight of the old files."""

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

    def __add__(self, other: ChangeTally) -> ChangeTally:
        return ChangeTally(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    @property
    def missing(self) -> int:
        return self.added + self.removed - self.right_added - self.right_removed

    @property
    def missing_lines(self) -> int:
        return self.lines - self.right_lines

    @property
    def score(self) -> float:
        """The share of the human change that the agent made: 1 for the same change, 0 for none and for mere deletion.

        Destroyed weight is subtracted from right removals: one for one, or, if the human removed more than remained, by
        the ratio of the two. Destruction beyond that counts as missing. Additions cost up to 20 %.
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
            human_count, agent_count, unit = human.get(key, 0), agent.get(key, 0), weight(key)
            self.added += unit * max(human_count, 0)
            self.removed += unit * max(-human_count, 0)
            self.right_added += unit * max(min(human_count, agent_count), 0)
            self.right_removed += unit * max(min(-human_count, -agent_count), 0)
            self.extra += unit * max(agent_count - max(human_count, 0), 0)
            self.destroyed += unit * max(min(human_count, 0) - agent_count, 0)


def tally_marks(human: Delta[str], agent: Delta[str]) -> ChangeTally:
    tally = ChangeTally()
    tally.count(human, agent, lambda mark: CONTENTS if mark == "contents" else MARK)
    tally.before = tally.removed
    return tally


def tally_lines(human: Delta[Statement], agent: Delta[Statement], vocabulary: frozenset[str]) -> ChangeTally:
    """Compare two changes of a file by lines, by lines with placeholders for new names, and by words, in linear time.

    A name is new if it is not in the vocabulary.
    """
    tally = ChangeTally()
    by_line, by_shape, by_word = (
        (_count_parts(human, parts), _count_parts(agent, parts))
        for parts in (
            lambda line: [line.text],
            lambda line: [_shape(line, vocabulary)],
            lambda line: _words(line, vocabulary),
        )
    )
    tally.count(*by_line, lambda text: LINE * word_count(text))
    tally.count(*by_shape, lambda text: SHAPE * word_count(text))
    tally.count(*by_word, lambda word: WORD // 2 if word.startswith(_NEW) else WORD)
    _discount_other_scopes(tally, human, agent, *by_line, vocabulary)
    lines = ChangeTally()
    lines.count(*by_line, lambda text: 1)
    tally.lines, tally.right_lines = lines.added + lines.removed, lines.right_added + lines.right_removed
    tally.extra_lines, tally.destroyed_lines = lines.extra, lines.destroyed
    return tally


def _discount_other_scopes(
    tally: ChangeTally,
    human: Delta[Statement],
    agent: Delta[Statement],
    human_lines: Delta[str],
    agent_lines: Delta[str],
    vocabulary: frozenset[str],
) -> None:
    """Subtract the line weight of lines that both changed, but within different definitions."""
    in_scope: Counter[tuple[str, int]] = Counter()
    counts = [_by_scope(delta, vocabulary) for delta in (human, agent)]
    for text, scope in counts[0].keys() & counts[1].keys():
        for sign in (1, -1):
            in_scope[text, sign] += max(0, min(sign * count[text, scope] for count in counts))
    for text in human_lines.keys() & agent_lines.keys():
        for sign in (1, -1):
            both = max(0, min(sign * human_lines[text], sign * agent_lines[text]))
            discount = max(0, both - in_scope[text, sign]) * LINE * word_count(text)
            if sign > 0:
                tally.right_added -= discount
            else:
                tally.right_removed -= discount


def _by_scope(delta: Delta[Statement], vocabulary: frozenset[str]) -> Counter[tuple[str, tuple[str, ...]]]:
    counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for line, count in delta.items():
        counts[line.text, tuple(name if name in vocabulary else _NEW for name in line.scope)] += count
    return counts


def _count_parts(delta: Delta[Statement], parts: Callable[[Statement], Iterable[str]]) -> Delta[str]:
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
    """Yield the words of a line. A new name counts half for its presence and half for its spelling."""
    for word in words_of(line.text):
        if word in line.names and word not in vocabulary:
            yield from (_NEW, _NEW + word)
        else:
            yield word


_MOST_NAMES, _LONGEST_LIST = 10, 120


class DiffComparison:
    """Compares all changed files. `value` is the score, `files_f1` the F1 of the set of changed files."""

    def __init__(self, files: list[FileVersions]) -> None:
        vocabulary = _vocabulary(files)
        self._files = files
        self._readings = [read_changes(file) for file in files]
        self._lines = [_tally_lines(reading, vocabulary) for reading in self._readings]
        self._marks = [tally_marks(reading.human_marks, reading.agent_marks) for reading in self._readings]
        self._human = sum(bool(file.human.entries) for file in files)
        self._both = sum(bool(file.human.entries and file.agent.entries) for file in files)
        self._total = sum([*self._lines, *self._marks], ChangeTally())
        self.value = self._total.score
        self.files_f1 = 2 * self._both / (self._both + len(files))

    def explanation(self) -> str:
        """Describe the comparison in one line."""
        total = self._total
        parts = [
            f"{self.value:.2f}: {self._both} of {self._human} files changed",
            f"{total.right_lines} of {many(total.lines, 'line')} match" if total.lines else "",
            self._part("missing", "missing"),
            self._part("extra", "extra"),
            self._part("removed but kept by people", "destroyed"),
            self._methods(),
        ]
        if failures := sum(reading.fell_back for reading in self._readings):
            parts.append(f"syntax not read in {failures}: does not parse, too large, or no tree-sitter ({INSTALL})")
        return "; ".join(filter(None, parts))

    def _part(self, title: str, kind: Literal["missing", "extra", "destroyed"]) -> str:
        """Describe the lines of one kind and their files, those with most lines first."""
        counts: Counter[str] = Counter()
        for file, tally, marks in zip(self._files, self._lines, self._marks, strict=True):
            lines: int = getattr(tally, f"{kind}_lines")
            if lines or getattr(marks, kind):
                counts[file.name] += lines
        if not counts:
            return ""
        names = [" ".join(name.split()) for name, _ in counts.most_common()]
        text = ", ".join(names[:_MOST_NAMES])
        text = text[:_LONGEST_LIST] + ("..." if len(names) > _MOST_NAMES or len(text) > _LONGEST_LIST else "")
        return f"{title}: {many(counts.total(), 'line')} in {text}" if counts.total() else f"{title}: {text}"

    def _methods(self) -> str:
        pairs = zip(self._files, self._readings, strict=True)
        counts = Counter(reading.how for file, reading in pairs if file.human.entries and file.agent.entries)
        methods = [f"by {how}: {counts[how]}" for how in ("syntax", "lines", "name") if counts[how]]
        return f"compared {', '.join(methods)}" if methods else ""


def _vocabulary(files: Iterable[FileVersions]) -> frozenset[str]:
    """Return the words of the files before the change; other names are new."""
    texts = (text for file in files for lines in (file.before or {}).values() for text in lines)
    return frozenset(word for text in texts for word in words_of(text))


def _tally_lines(reading: FileChanges, vocabulary: frozenset[str]) -> ChangeTally:
    tally = tally_lines(reading.human, reading.agent, vocabulary)
    tally.before = reading.before
    return tally
