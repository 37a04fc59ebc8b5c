"""The scorer `change_similarity`: the change of an agent beside that of a human, file by file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from abreast.model import Answer, Case, Score
from abreast.scorers.base import NO_EXPECTED, Scorer, ScorerSettings, short
from abreast.scorers.change_similarity.comparison import Comparison
from abreast.scorers.change_similarity.unified import Entry, entries
from abreast.scorers.change_similarity.versions import files
from abreast.scorers.retrieval.truth import parse_expected
from abreast.settings import is_texts

_HOW = "write {diff: ...} with all that `git diff -U1000000 BEFORE AFTER` prints"


class ChangeSimilarity(Scorer):
    """How much of a human change an agent made, and F1 of the files that the two changed.

    Each file is rebuilt before, after the human and after the agent. The score is the share of what the human added and
    removed that the agent added and removed too, less for removing what people kept and for additions of its own.
    Source code is compared by statements, other text by lines. Binary, generated and very large files count by name.
    `ignore` has patterns of files that do not count.

    >>> from abreast.scorers import build
    >>> diff = "--- a/x.txt\\n+++ b/x.txt\\n@@ -1,2 +1,2 @@\\n one\\n-two\\n+three\\n"
    >>> answer = Answer("", artifacts={"diff": diff.replace("three", "four")})
    >>> [round(score.value, 2) for score in build("change_similarity").score(Case("c", "?", {"diff": diff}), answer)]
    [0.46, 1.0]
    """

    revision = 3

    def __init__(self, settings: ScorerSettings) -> None:
        name = settings.name("change_similarity")
        self._ignore: Sequence[str] = settings.take("ignore", (), is_texts, 'patterns of files, such as ["*.lock"]')
        files_name = "change_files" if name == "change_similarity" else f"{name}_files"
        self.columns = (name, files_name)
        self.version = settings.version(self.revision)

    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]:
        if case.expected is None:
            return self.fill(None, NO_EXPECTED)
        problem = self.flaw(case.expected)
        if problem is not None:
            return self.fill(None, f"expected{problem[0]}")
        diff = answer.artifacts.get("diff") or ""
        if not diff and answer.data.get("diff_problem"):
            return self.fill(None, f"what it changed is not known: {answer.data['diff_problem']}")
        if not diff and answer.data.get("files_changed"):
            return self.fill(None, "files were changed, but the diff is not at hand")
        human = self._counting(parse_expected(case.expected)["diff"])
        comparison = Comparison(files(human, self._counting(diff)))
        why = comparison.explanation()
        return Score(self.columns[0], comparison.value, why), Score(self.columns[1], comparison.files_f1, why)

    def flaw(self, expected: Any) -> tuple[str, str] | None:
        """What is wrong with an expected value, after its name, and how to mend it."""
        expected = parse_expected(expected)
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


def ignored(path: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns means a file: `*.lock` by its name, `gen/*.py` by its path, `docs/` by a folder that
    it is in.

    >>> [ignored(path, ["*.lock", "docs/"]) for path in ("a/b.lock", "docs/x/a.md", "a/docs/b.md", "docs.py")]
    [True, True, True, False]
    """
    parts = path.split("/")
    folders = ["/".join(parts[:count]) for count in range(1, len(parts))]
    for pattern in patterns:
        plain = pattern.removeprefix("./").removeprefix("/")
        is_folder, plain = plain.endswith("/"), plain.rstrip("/")
        for name in folders if is_folder else [path]:
            by_name = "/" not in pattern.rstrip("/") and fnmatchcase(name.rpartition("/")[2], plain)
            if by_name or fnmatchcase(name, plain):
                return True
    return False
