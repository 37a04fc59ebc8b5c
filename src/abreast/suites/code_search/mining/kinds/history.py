"""Questions about the files that a commit changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from abreast.plan import git
from abreast.suites.code_search.mining.proposal import Proposal, make_proposal
from abreast.suites.code_search.mining.repository import CodeRepository

MOST_COMMITS = 500  # latest first
FEWEST_FILES, MOST_FILES = 2, 8  # files of a commit in a question
FEWEST_WORDS = 4  # words of its subject
LONGEST_SUBJECT = 100  # characters

_NO_QUESTION = re.compile(
    r"\b(?:merges?|bump(?:s|ed)?|releases?|version|v?\d+\.\d+(?:\.\d+)?|revert|format(?:ting|ted)?|reformat|lint(?:er|ing)?|"
    r"style|typos?|whitespace|prettier|black|ruff|rustfmt|gofmt|clippy|xo|isort|pre-commit|changelog|readme|docs?|"
    r"documentation|dependenc(?:y|ies)|deps|upgrade|update|chore|ci|workflows?|actions?|copyright|license|cleanup|"
    r"clean up|tweaks?|meta)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\s*\(?#\d+\)?\s*$")


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """A commit with the number of changed lines by file, ignoring white space."""

    id: str
    subject: str
    changed: dict[str, int]


def proposals(repository: CodeRepository, random: Random) -> Iterator[Proposal]:
    """Propose a case for each commit with a specific subject, most of whose files still exist."""
    commits = list(_commits(repository))
    random.shuffle(commits)
    subjects = _count_subjects(repository)
    existing = {file.path for file in repository.files if file.is_candidate}
    for commit in commits:
        files = sorted(path for path, lines in commit.changed.items() if lines and path in existing)
        is_moderate = len(files) >= FEWEST_FILES and len(commit.changed) <= MOST_FILES
        has_source = any(repository.file(path).kind == "source" for path in files)
        is_current = 2 * len(files) > len(commit.changed)
        if is_moderate and is_current and has_source and subjects[commit.subject] == 1 and _is_specific(commit):
            yield _proposal(repository, commit, files)


def _count_subjects(repository: CodeRepository) -> Counter[str]:
    """Count commits by subject, with merges, as a pull request may have the subject of its commit."""
    output = git.output(repository.root, "log", "-z", "--format=%s")
    return Counter(_plain(subject) for subject in (output or "").split("\0"))


def _plain(subject: str) -> str:
    return _NUMBER.sub("", subject).strip()


def _commits(repository: CodeRepository) -> Iterator[ChangedFiles]:
    output = git.output(
        repository.root,
        *("log", "--no-merges", f"-n{MOST_COMMITS}", "--numstat", "-w", "--no-renames", "--relative", "-z"),
        *("--format=%x01%H%x02%s%x02", "--", "."),
    )
    for entry in (output or "").split("\x01")[1:]:
        commit, subject, rest = (*entry.split("\x02", 2), "", "")[:3]
        changed = {}
        for row in rest.split("\0"):
            added, removed, path = (*row.strip("\n").split("\t", 2), "", "")[:3]
            if path:
                changed[path] = sum(int(count) for count in (added, removed) if count.isdigit())
        yield ChangedFiles(commit, _plain(subject), changed)


def _is_specific(commit: ChangedFiles) -> bool:
    subject = commit.subject
    return (
        len(subject.split()) >= FEWEST_WORDS
        and len(subject) <= LONGEST_SUBJECT
        and subject.isprintable()
        and '"' not in subject
        and not _NO_QUESTION.search(subject)
    )


def _proposal(repository: CodeRepository, commit: ChangedFiles, files: list[str]) -> Proposal:
    return make_proposal(
        repository,
        kind="history",
        language=None,
        name=("history", " ".join(commit.subject.split()[:6])),
        category="understand",
        description="Find the files that one commit changed.",
        prompt=f'The message of a commit was: "{commit.subject}". Which files of this repository did '
        "it change? Give their paths.",
        files=files,
        why=f"commit {commit.id[:10]} changed {len(commit.changed)} files, of which {len(files)} are asked for",
        locations=[(path, 1) for path in files],
    )
