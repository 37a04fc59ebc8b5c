"""Build cases from pull requests: the task at the commit before, and the human change."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from abreast.errors import BadInput
from abreast.filenames import relative_path
from abreast.globs import matcher
from abreast.model import Case
from abreast.suites.coding_agents.history import task_file
from abreast.suites.coding_agents.history.change import ChangedFile, diff_between, files_between, readable
from abreast.suites.coding_agents.history.commits import GitHistory
from abreast.suites.coding_agents.history.discovery import (
    Exclusion,
    PullRequest,
    examine,
    find_pull_requests,
    pull_request_between,
)
from abreast.suites.coding_agents.history.task_text import SHORTEST

LAST = 10  # default number of pull requests
SMALL, MEDIUM = 30, 200  # maximum changed lines
ROW = "one after the other"  # the group of cumulative cases

_TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__|specs?|testing|src/test)/"
    r"|(?:^|/)(?:test_[^/]*|[^/]*_tests?|[^/]*[._-](?:test|spec)|[^/]*_spec|conftest|[^/]*Tests?|Test[A-Z][^/]*)\.\w+$"
)


def in_history(
    history: GitHistory, last: int | None, branch: str, commits: Sequence[str], keep_without_task: bool = False
) -> tuple[list[PullRequest], list[Exclusion]]:
    """Return the pull requests with tasks in their messages, and the exclusions."""
    candidates, exclusions = find_pull_requests(history, last or LAST, branch, commits)
    if keep_without_task:
        return _with_unique_ids([pr if _has_task(pr) else replace(pr, task="") for pr in candidates]), exclusions
    exclusions += [_without_task(pr) for pr in candidates if not _has_task(pr)]
    return _with_unique_ids([pr for pr in candidates if _has_task(pr)]), exclusions


def _has_task(pull_request: PullRequest) -> bool:
    return len(pull_request.task) >= SHORTEST


def _without_task(pull_request: PullRequest) -> Exclusion:
    reason = f"its message has no task: {len(pull_request.task)} characters are left, {SHORTEST} are needed"
    return Exclusion(pull_request.head, pull_request.title, reason)


def in_file(history: GitHistory, path: Path, last: int | None) -> list[PullRequest]:
    """Return the pull requests of a task file in its order; with `last` only the last ones."""
    entries = task_file.read(path)
    positions = [f"{relative_path(path)}:{entry.line}" for entry in entries]
    pull_requests = []
    for entry, position in zip(entries, positions, strict=True):
        pr = pull_request_between(history, position, entry.commit, entry.base)
        pull_requests.append(replace(pr, style=entry.style or pr.style, task=entry.task))
    ids = zip(_with_unique_ids(pull_requests), entries, strict=True)
    pull_requests = [replace(pr, id=entry.id or pr.id) for pr, entry in ids]
    first_positions = dict[str, str]()
    for pr, position in zip(pull_requests, positions, strict=True):
        for key in (f"commit {pr.head[:12]}", f'id "{pr.id}"'):
            if key in first_positions:
                raise BadInput(f"{position}: duplicate {key}, also at {first_positions[key]}", "keep one of the lines")
            first_positions[key] = position
    return pull_requests[-last:] if last else pull_requests


def _with_unique_ids(pull_requests: list[PullRequest]) -> list[PullRequest]:
    counts = Counter(pr.id for pr in pull_requests)
    return [replace(pr, id=f"{pr.id}-{pr.head[:12]}") if counts[pr.id] > 1 else pr for pr in pull_requests]


def check(history: GitHistory, pull_requests: Sequence[PullRequest], exclusions: Sequence[Exclusion]) -> None:
    if not pull_requests:
        details = ""
        if exclusions:
            last = exclusions[-1]
            reason = f"which {last.reason}".replace("which its", "where its")
            details = f': {len(exclusions)} excluded, such as {last.commit[:12]} "{last.title}", {reason}'
        fix = "name them: `--commits HASH,FROM..TO`, or `commits` in a spec"
        raise BadInput(f"{history.repo}: no pull requests found{details}", fix)


def cases(
    repo: str,
    last: int | None = None,
    branch: str = "HEAD",
    commits: list[str] | None = None,
    tests: list[str] | None = None,
    tasks: str | None = None,
    cumulative: bool = False,
) -> Iterator[Case]:
    """Yield a case for each of the last merged pull requests of a repository, oldest first, or for those in `commits`.

    `repo` and `tasks` are relative to the working folder. `tests` are globs of test files, instead of the usual names.
    `tasks` is a task file (`abreast cases new coding-agents`); with `last` only its last lines are used. If
    `cumulative`, each case comes `after` the previous one, and all begin at one `start`.
    """
    _check(repo, last, branch, commits, tests, tasks)
    if not isinstance(cumulative, bool):
        raise BadInput(f"cumulative must be true or false, got {cumulative!r}", "set cumulative: true")
    history = GitHistory.open(Path(repo).expanduser())
    if tasks is not None:
        pull_requests = in_file(history, Path(tasks).expanduser(), last)
    else:
        pull_requests, exclusions = in_history(history, last, branch, commits or [])
        check(history, pull_requests, exclusions)
    if cumulative:
        pull_requests.sort(key=lambda pr: pr.merged_at)
    built = (_case(history, pr, tests or []) for pr in pull_requests)
    yield from _chain(built) if cumulative else built


def newest_first(repo: Path, branch: str) -> Iterator[tuple[str, Case] | Exclusion]:
    """Yield all cases of a branch, each with its name for `commits`, and the exclusions between them; built lazily."""
    history = GitHistory.open(repo)
    for item in examine(history, branch):
        if isinstance(item, Exclusion):
            yield item
        elif _has_task(item):
            name = f"{item.base}..{item.head}" if item.style == "rebase" else item.head
            yield name, _case(history, item, [])
        else:
            yield _without_task(item)


def _chain(cases: Iterable[Case]) -> Iterator[Case]:
    """Let each case continue the previous one; they form a group, because they are not independent."""
    start, after = "", ""
    for case in cases:
        start = start or case.input["commit"]
        yield replace(case, input={**case.input, "start": start, "after": after}, group=ROW)
        after = case.id


def left_out(
    repo: str, last: int | None = None, branch: str = "HEAD", commits: list[str] | None = None
) -> list[Exclusion]:
    _check(repo, last, branch, commits, None, None)
    return in_history(GitHistory.open(Path(repo).expanduser()), last, branch, commits or [])[1]


def _case(history: GitHistory, pr: PullRequest, tests: list[str]) -> Case:
    files = files_between(history, pr.base, pr.head)
    lines = sum(file.lines for file in files)
    return Case(
        pr.id,
        input={"commit": pr.base, "task": pr.task},
        expected={
            "commit": pr.head,
            "base": pr.base,
            "diff": diff_between(history, pr.base, pr.head, files),
            "tests": tests_in(files, tests),
        },
        tags={
            "style": pr.style,
            "size": "small" if lines <= SMALL else "medium" if lines <= MEDIUM else "large",
        },
    )


def tests_in(files: list[ChangedFile], globs: list[str]) -> list[str]:
    """Return the paths of test files after the change, and of other files in test folders."""
    fits = [matcher(glob) for glob in globs]
    paths = [readable(os.fsencode(file.after)) for file in files if file.after]
    return [path for path in paths if (any(fit(path) for fit in fits) if globs else _TEST.search(path))]


def _check(repo: Any, last: Any, branch: Any, commits: Any, tests: Any, tasks: Any) -> None:
    for name, value, example in (("repo", repo, "."), ("branch", branch, "main"), ("tasks", tasks, "tasks.jsonl")):
        absent = name == "tasks" and value is None
        if not absent and (not isinstance(value, str) or not value.strip() or not value.isprintable()):
            raise BadInput(f"{name} must be text, got {value!r}", f"set {name}: {example}")
    if last is not None and (not isinstance(last, int) or isinstance(last, bool) or last < 1):
        raise BadInput(f"last must be a whole number from 1, got {last!r}", "set last: 10")
    for name, value in (("commits", commits), ("tests", tests)):
        items = [] if value is None else value
        example = '["1a2b3c4", "main~3..main"]' if name == "commits" else '["tests/**", "*_check.py"]'
        if not isinstance(items, list) or not all(isinstance(item, str) and item.strip() for item in items):
            raise BadInput(f"{name} must be a list of strings, got {value!r}", f"set {name}: {example}")
    if tasks is not None and commits:
        raise BadInput("commits and tasks cannot be combined: a task file names its commits", "keep one of them")
