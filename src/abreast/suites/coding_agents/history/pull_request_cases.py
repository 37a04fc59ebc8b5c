"""Cases out of pull requests: the task at the commit before, and what people did."""

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
from abreast.suites.coding_agents.history import taskfile
from abreast.suites.coding_agents.history.change import File, diff_between, files_between, readable
from abreast.suites.coding_agents.history.commits import History
from abreast.suites.coding_agents.history.discovery import LeftOut, PullRequest, examined, looked_at, pinned
from abreast.suites.coding_agents.history.task_text import SHORTEST

LAST = 10  # so many, if nothing says how many

SMALL, MEDIUM = 30, 200  # so many changed lines at most

ROW = "one after the other"  # the group of cases that are cumulative

_TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__|specs?|testing|src/test)/"
    r"|(?:^|/)(?:test_[^/]*|[^/]*_tests?|[^/]*[._-](?:test|spec)|[^/]*_spec|conftest|[^/]*Tests?|Test[A-Z][^/]*)\.\w+$"
)


def in_history(
    history: History, last: int | None, branch: str, commits: Sequence[str], mute: bool = False
) -> tuple[list[PullRequest], list[LeftOut]]:
    """Pull requests with the tasks of their messages, and what is left out; with `mute` those without one are kept."""
    found, left = looked_at(history, last or LAST, branch, commits)
    if mute:
        return _with_own_ids([one if _has_task(one) else replace(one, task="") for one in found]), left
    without = [_without_task(one) for one in found if not _has_task(one)]
    return _with_own_ids([one for one in found if _has_task(one)]), [*left, *without]


def _has_task(found: PullRequest) -> bool:
    return len(found.task) >= SHORTEST


def _without_task(found: PullRequest) -> LeftOut:
    reason = f"its message says no task: {len(found.task)} characters are left of it, {SHORTEST} are needed"
    return LeftOut(found.head, found.title, reason)


def in_file(history: History, path: Path, last: int | None) -> list[PullRequest]:
    """The pull requests of a file in its order; with `last` only the last ones of it."""
    entries = taskfile.read(path)
    found = []
    for entry in entries:
        one = pinned(history, f"{relative_path(path)}:{entry.line}", entry.commit, entry.base)
        found.append(replace(one, style=entry.style or one.style, task=entry.task))
    ids = zip(_with_own_ids(found), entries, strict=True)
    chosen = [replace(one, id=entry.id or one.id) for one, entry in ids]
    seen = dict[str, str]()
    for one, entry in zip(chosen, entries, strict=True):
        where = f"{relative_path(path)}:{entry.line}"
        for what in (f"commit {one.head[:12]}", f'id "{one.id}"'):
            if what in seen:
                raise BadInput(f"{where}: the {what} is there twice: see {seen[what]}", "keep one of the lines")
            seen[what] = where
    return chosen[-last:] if last else chosen


def _with_own_ids(found: list[PullRequest]) -> list[PullRequest]:
    counts = Counter(one.id for one in found)
    return [replace(one, id=f"{one.id}-{one.head[:12]}") if counts[one.id] > 1 else one for one in found]


def check(history: History, found: Sequence[PullRequest], left: Sequence[LeftOut]) -> None:
    if not found:
        why = "there are none"
        if left:
            reason = f"which {left[-1].reason}".replace("which its", "where its")
            why = f'{len(left)} left out, such as {left[-1].commit[:12]} "{left[-1].title}", {reason}'
        raise BadInput(
            f"{history.repo}: no pull requests to be found: {why}",
            "name them: --commits HASH,FROM..TO (commits in a file)",
        )


def cases(
    repo: str,
    last: int | None = None,
    branch: str = "HEAD",
    commits: list[str] | None = None,
    tests: list[str] | None = None,
    tasks: str | None = None,
    cumulative: bool = False,
) -> Iterator[Case]:
    """A case for each of the last merged pull requests of a repository, or for each that is named, oldest first.

    `repo` is a folder, seen from where abreast is started. `tests` are globs of test files, instead of usual names.
    `tasks` is a file that says which pull requests and in which words (`abreast cases new coding-agents`), seen from
    the same place; with `last` the last ones of it. If they are `cumulative`, each comes `after` another, and all begin
    at one `start`.
    """
    _check(repo, last, branch, commits, tests, tasks)
    if not isinstance(cumulative, bool):
        raise BadInput(f"cumulative must be true or false, got {cumulative!r}", "write cumulative: true")
    history = History.open(Path(repo).expanduser())
    if tasks is not None:
        found = in_file(history, Path(tasks).expanduser(), last)
    else:
        found, left = in_history(history, last, branch, commits or [])
        check(history, found, left)
    if cumulative:
        found.sort(key=lambda each: each.merged_at)
    made = (_case(history, each, tests or []) for each in found)
    yield from _in_a_row(made) if cumulative else made


def newest_first(repo: Path, branch: str) -> Iterator[tuple[str, Case] | LeftOut]:
    """The cases of a whole history, each with what `commits` calls it, among what is left out; made one by one."""
    history = History.open(repo)
    for found in examined(history, branch):
        if isinstance(found, LeftOut):
            yield found
        elif _has_task(found):
            name = f"{found.base}..{found.head}" if found.style == "rebase" else found.head
            yield name, _case(history, found, [])
        else:
            yield _without_task(found)


def _in_a_row(cases: Iterable[Case]) -> Iterator[Case]:
    """Each after the one before, all of them from the commit before the first: they are not independent."""
    start, after = "", ""
    for case in cases:
        start = start or case.input["commit"]
        yield replace(case, input={**case.input, "start": start, "after": after}, group=ROW)
        after = case.id


def left_out(
    repo: str, last: int | None = None, branch: str = "HEAD", commits: list[str] | None = None
) -> list[LeftOut]:
    _check(repo, last, branch, commits, None, None)
    return in_history(History.open(Path(repo).expanduser()), last, branch, commits or [])[1]


def _case(history: History, found: PullRequest, tests: list[str]) -> Case:
    files = files_between(history, found.base, found.head)
    lines = sum(file.lines for file in files)
    return Case(
        found.id,
        input={"commit": found.base, "task": found.task},
        expected={
            "commit": found.head,
            "base": found.base,
            "diff": diff_between(history, found.base, found.head, files),
            "tests": tests_in(files, tests),
        },
        tags={"style": found.style, "size": "small" if lines <= SMALL else "medium" if lines <= MEDIUM else "large"},
    )


def tests_in(files: list[File], globs: list[str]) -> list[str]:
    """Test files as they are after the change, with what lies beside them."""
    fits = [matcher(glob) for glob in globs]
    paths = [readable(os.fsencode(file.after)) for file in files if file.after]
    return [path for path in paths if (any(fit(path) for fit in fits) if globs else _TEST.search(path))]


def _check(repo: Any, last: Any, branch: Any, commits: Any, tests: Any, tasks: Any) -> None:
    """Arguments of a spec may be anything."""
    for name, value, example in (("repo", repo, "."), ("branch", branch, "main"), ("tasks", tasks, "tasks.jsonl")):
        absent = name == "tasks" and value is None
        if not absent and (not isinstance(value, str) or not value.strip() or not value.isprintable()):
            raise BadInput(f"{name} must be text, got {value!r}", f"write {name}: {example}")
    if last is not None and (not isinstance(last, int) or isinstance(last, bool) or last < 1):
        raise BadInput(f"last must be a whole number from 1, got {last!r}", "write last: 10")
    for name, value in (("commits", commits), ("tests", tests)):
        given = [] if value is None else value
        example = '["1a2b3c4", "main~3..main"]' if name == "commits" else '["tests/**", "*_check.py"]'
        if not isinstance(given, list) or not all(isinstance(each, str) and each.strip() for each in given):
            raise BadInput(f"{name} must be a list of texts, got {value!r}", f"write {name}: {example}")
    if tasks is not None and commits:
        raise BadInput("commits and tasks are both given: a file of tasks names its commits", "keep one of them")
