"""A human change and an agent's, compared file by file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from abreast.languages import INSTALL
from abreast.scorers.change_similarity.readings import Reading, read
from abreast.scorers.change_similarity.tally import Tally, tally_lines, tally_marks, words_of
from abreast.scorers.change_similarity.versions import File

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
