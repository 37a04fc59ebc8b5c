"""Cases out of pull requests: the task at the commit before, and what people did."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from abreast.errors import BadInput
from abreast.globs import matcher
from abreast.model import Case
from abreast.suites.coding_agents.history.change import File, diff_between, files_between, readable
from abreast.suites.coding_agents.history.commits import History
from abreast.suites.coding_agents.history.describing import SHORTEST, task_of
from abreast.suites.coding_agents.history.finding import LeftOut, PullRequest, looked_at

SMALL, MEDIUM = 30, 200
"""So many changed lines at most."""

_TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__|specs?|testing|src/test)/"
    r"|(?:^|/)(?:test_[^/]*|[^/]*_tests?|[^/]*[._-](?:test|spec)|[^/]*_spec|conftest|[^/]*Tests?|Test[A-Z][^/]*)\.\w+$"
)


def cases(
    repo: str,
    last: int = 10,
    branch: str = "HEAD",
    commits: list[str] | None = None,
    tests: list[str] | None = None,
) -> Iterator[Case]:
    """A case for each of the last merged pull requests of a repository, or for each that is named, oldest first.

    `repo` is a folder, seen from where abreast is started. `tests` are globs of test files, instead of usual names.
    """
    _check(repo, last, branch, commits, tests)
    history = History(_path(repo))
    found, left = _described(history, last, branch, commits or [])
    if not found:
        why = f"{len(left)} left out, such as {_told(left[-1])}" if left else "there are none"
        raise BadInput(f"{history.repo}: no pull requests to be found: {why}", "name them: commits: [HASH, FROM..TO]")
    numbers = Counter(pull_request.number for pull_request, _ in found)
    for pull_request, task in found:
        yield _case(history, pull_request, task, numbers[pull_request.number] == 1, tests or [])


def left_out(repo: str, last: int = 10, branch: str = "HEAD", commits: list[str] | None = None) -> list[LeftOut]:
    """What `cases` leaves out up to the oldest case, and why; oldest first."""
    _check(repo, last, branch, commits, None)
    return _described(History(_path(repo)), last, branch, commits or [])[1]


def _described(
    history: History, last: int, branch: str, commits: list[str]
) -> tuple[list[tuple[PullRequest, str]], list[LeftOut]]:
    """Pull requests with their tasks, and what has none besides what is no pull request."""
    found, left = looked_at(history, last, branch, commits)
    told = [(pull_request, task_of(pull_request)) for pull_request in found]
    mute = [
        LeftOut(
            one.head,
            one.title,
            f"its message says no task: {len(task)} characters are left of it, {SHORTEST} are needed",
        )
        for one, task in told
        if len(task) < SHORTEST
    ]
    return [(one, task) for one, task in told if len(task) >= SHORTEST], [*left, *mute]


def _told(left: LeftOut) -> str:
    return f'{left.commit[:12]} "{left.title}", which {left.reason}'.replace("which its", "where its")


def _case(history: History, found: PullRequest, task: str, is_only: bool, tests: list[str]) -> Case:
    short = found.head[:12]
    name = short if found.number is None else f"pr-{found.number}" if is_only else f"pr-{found.number}-{short}"
    files = files_between(history, found.base, found.head)
    return Case(
        name,
        input={"commit": found.base, "task": task},
        expected={
            "commit": found.head,
            "base": found.base,
            "diff": diff_between(history, found.base, found.head, files),
            "tests": _tests(files, tests),
        },
        tags={"style": found.style, "size": _size(files)},
    )


def _tests(files: list[File], globs: list[str]) -> list[str]:
    """Test files as they are after the change, with what lies beside them."""
    fits = [matcher(glob) for glob in globs]
    paths = [readable(os.fsencode(file.after)) for file in files if file.after]
    return [path for path in paths if (any(fit(path) for fit in fits) if globs else _TEST.search(path))]


def _size(files: list[File]) -> str:
    lines = sum(file.lines for file in files)
    return "small" if lines <= SMALL else "medium" if lines <= MEDIUM else "large"


def _path(repo: str) -> Path:
    return Path(repo).expanduser()


def _check(repo: Any, last: Any, branch: Any, commits: Any, tests: Any) -> None:
    """Arguments of a spec may be anything."""
    for name, value in (("repo", repo), ("branch", branch)):
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise BadInput(f"{name} must be text, got {value!r}", f"write {name}: {'.' if name == 'repo' else 'main'}")
    if not isinstance(last, int) or isinstance(last, bool) or last < 1:
        raise BadInput(f"last must be a whole number from 1, got {last!r}", "write last: 10")
    for name, value in (("commits", commits), ("tests", tests)):
        given = [] if value is None else value
        example = '["1a2b3c4", "main~3..main"]' if name == "commits" else '["tests/**", "*_check.py"]'
        if not isinstance(given, list) or not all(isinstance(each, str) and each.strip() for each in given):
            raise BadInput(f"{name} must be a list of texts, got {value!r}", f"write {name}: {example}")
