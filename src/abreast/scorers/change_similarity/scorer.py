"""The scorer `change_similarity`: the change of an agent beside that of a human, file by file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from abreast.languages import INSTALL
from abreast.model import Answer, Case, Score
from abreast.scorers.base import NO_EXPECTED, Settings, short
from abreast.scorers.change_similarity.ignoring import ignored
from abreast.scorers.change_similarity.likeness import Likeness, likeness, size
from abreast.scorers.change_similarity.unified import Entry, entries
from abreast.scorers.change_similarity.versions import File, files
from abreast.scorers.retrieval.truth import as_mapping
from abreast.settings import is_texts

_HOW = "write {diff: ...} with all that `git diff -U1000000 BEFORE AFTER` prints"


class ChangeSimilarity:
    """How like the diff of an agent is to the human's, and F1 of the files that the two changed.

    Each file that the human changed is rebuilt before, after the human and after the agent. What the two added and
    removed is compared by F1, in elements of syntax where the language is known, else in lines. Files count by the
    lines that the human changed in them; one that the agent left alone is 0, and the lines of one that only the agent
    changed count as lines that are wrong. Binary files count by their names. `ignore` has patterns of files that do
    not count.

    >>> from abreast.scorers import build
    >>> diff = "--- a/x.txt\\n+++ b/x.txt\\n@@ -1,2 +1,2 @@\\n one\\n-two\\n+three\\n"
    >>> answer = Answer("", artifacts={"diff": diff.replace("three", "four")})
    >>> [score.value for score in build("change_similarity").score(Case("c", "?", {"diff": diff}), answer)]
    [0.5, 1.0]
    """

    revision = 2
    needs_expected = True

    def __init__(self, settings: Settings) -> None:
        name = settings.name("change_similarity")
        self._ignore: Sequence[str] = settings.take("ignore", (), is_texts, 'patterns of files, such as ["*.lock"]')
        files_name = "change_files" if name == "change_similarity" else f"{name}_files"
        self.columns: tuple[str, ...] = (name, files_name)
        self.version = settings.version(self.revision)

    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]:
        if case.expected is None:
            return self._all(None, NO_EXPECTED)
        problem = self.flaw(case.expected)
        if problem is not None:
            return self._all(None, f"expected{problem[0]}")
        diff = answer.artifacts.get("diff") or ""
        if not diff and answer.data.get("diff_problem"):
            return self._all(None, f"what it changed is not known: {answer.data['diff_problem']}")
        if not diff and answer.data.get("files_changed"):
            return self._all(None, "files were changed, but the diff is not at hand")
        human = self._counting(as_mapping(case.expected)["diff"])
        compared = _Compared(files(human, self._counting(diff)))
        told = compared.told()
        return Score(self.columns[0], compared.value, told), Score(self.columns[1], compared.files_f1, told)

    def flaw(self, expected: Any) -> tuple[str, str] | None:
        """What is wrong with an expected value, after its name, and how to mend it."""
        expected = as_mapping(expected)
        if not isinstance(expected, Mapping):
            what = " is missing" if expected is None else f" must be a mapping with a diff, got {short(expected)}"
            return what, _HOW
        diff = expected.get("diff")
        if not isinstance(diff, str):
            return (".diff is missing" if diff is None else f".diff must be a text, got {short(diff)}"), _HOW
        return self._flaw_of_diff(diff)

    def _flaw_of_diff(self, diff: str) -> tuple[str, str] | None:
        found = entries(diff)
        if not found:
            return (".diff is empty" if not diff.strip() else f".diff is no diff: {short(diff)}"), _HOW
        for entry in found:
            if entry.combined:
                return f".diff has {short(entry.names[0])} against several parents", f"{_HOW}, with one commit before"
            if entry.hunks and not entry.binary and not entry.whole:
                return f".diff does not show all lines of {short(entry.names[0])}", _HOW
        if not self._counting(diff):
            return f".diff has only files that are ignored: {short(found[0].names[0])}", "ignore less, or leave it out"
        return None

    def _counting(self, diff: str) -> list[Entry]:
        """The files of a diff that are not ignored under all of their names."""
        return [each for each in entries(diff) if not all(ignored(name, self._ignore) for name in each.names)]

    def _all(self, value: float | None, why: str) -> tuple[Score, ...]:
        return tuple(Score(column, value, why) for column in self.columns)


class _Compared:
    """All files that one of the two changed, compared."""

    def __init__(self, found: list[File]) -> None:
        wanted = [file for file in found if file.human.entries]
        self._both = [file for file in wanted if file.agent.entries]
        self._missing = [file.name for file in wanted if not file.agent.entries]
        besides = [file for file in found if not file.human.entries]
        self._besides = [file.name for file in besides]
        self._likeness: list[Likeness] = [likeness(file) for file in self._both]
        alike = sum(size(file, file.human) * each.value for file, each in zip(self._both, self._likeness, strict=True))
        total = sum(size(file, file.human) for file in wanted) + sum(size(file, file.agent) for file in besides)
        self.value = min(1.0, alike / total)
        self.files_f1 = 2 * len(self._both) / (2 * len(self._both) + len(self._missing) + len(besides))

    def told(self) -> str:
        """All of it in one line."""
        said = f"{self.value:.2f}: {len(self._both)} of {len(self._both) + len(self._missing)} files changed"
        for word, names in (("missing", self._missing), ("besides", self._besides)):
            if names:
                listed = ", ".join(" ".join(name.split()) for name in names[:10])
                said += f"; {word}: {listed[:120]}{'...' if len(names) > 10 or len(listed) > 120 else ''}"
        counts = Counter(each.how for each in self._likeness)
        ways = [f"by {how}: {counts[how]}" for how in ("syntax", "lines", "name") if counts[how]]
        if ways:
            ways[0] += " file" if ways[0].endswith(": 1") else " files"
            said += f"; {', '.join(ways)}"
        fallen_back = sum(each.fallen_back for each in self._likeness)
        without = f"; syntax not read of {fallen_back}: too large, or no tree-sitter ({INSTALL})"
        return f"{said}{without}" if fallen_back else said
