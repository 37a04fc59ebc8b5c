"""The scorer `change_similarity`: compare the change of an agent with that of a human, file by file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from abreast.model import Answer, Case, Score
from abreast.scorers.base import NO_EXPECTED, Scorer, ScorerSettings, short
from abreast.scorers.change_similarity.comparison import DiffComparison
from abreast.scorers.change_similarity.unified import FileDiff, parse_diff
from abreast.scorers.change_similarity.versions import files
from abreast.scorers.retrieval.truth import parse_expected
from abreast.settings import is_texts

_HOW = "use {diff: ...} with the full output of `git diff -U1000000 BEFORE AFTER`"


class ChangeSimilarity(Scorer):
    """The share of a human change that an agent made, and F1 of the files that the two changed.

    Each file is rebuilt before the change, after the human's and after the agent's. The score is the share of what the
    human added and removed that the agent added and removed too; it is lower if the agent removed what the human kept,
    or added more. Source code is compared by statements, other text by lines. Binary, generated and very large files
    count by name. `ignore` lists patterns of files that do not count.

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
            return self.fill(None, f"the changes are unknown: {answer.data['diff_problem']}")
        if not diff and answer.data.get("files_changed"):
            return self.fill(None, "files were changed, but there is no diff")
        human = self._select_files(parse_expected(case.expected)["diff"])
        comparison = DiffComparison(files(human, self._select_files(diff)))
        why = comparison.explanation()
        return Score(self.columns[0], comparison.value, why), Score(self.columns[1], comparison.files_f1, why)

    def flaw(self, expected: Any) -> tuple[str, str] | None:
        expected = parse_expected(expected)
        if not isinstance(expected, Mapping):
            problem = " is missing" if expected is None else f" must be a mapping with a diff, got {short(expected)}"
            return problem, _HOW
        diff = expected.get("diff")
        if not isinstance(diff, str):
            return (".diff is missing" if diff is None else f".diff must be a string, got {short(diff)}"), _HOW
        entries = parse_diff(diff)
        if not entries:
            return (".diff is empty" if not diff.strip() else f".diff is not a diff: {short(diff)}"), _HOW
        for entry in entries:
            if entry.combined:
                return (
                    f".diff compares {short(entry.names[0])} with several parents",
                    f"{_HOW}, with one commit as BEFORE",
                )
            if entry.hunks and not entry.binary and not entry.is_complete:
                return f".diff does not show all lines of {short(entry.names[0])}", _HOW
        if not self._select_files(diff):
            return f".diff has only ignored files, such as {short(entries[0].names[0])}", "remove patterns from ignore"
        return None

    def _select_files(self, diff: str) -> list[FileDiff]:
        """Return the files of a diff with a name that is not ignored."""
        return [entry for entry in parse_diff(diff) if not all(ignored(name, self._ignore) for name in entry.names)]


def ignored(path: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern matches a file: `*.lock` its name, `gen/*.py` its path, `docs/` a parent folder.

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
