"""What a trial works in: the repository, without what would tell it the answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from abreast.errors import BadInput
from abreast.scorers.retrieval.names import path_of
from abreast.scorers.retrieval.truth import parse_expected
from abreast.store.report_ledger import LEDGER
from abreast.suites.code_search import finding
from abreast.suites.code_search.finding import placed_cases
from abreast.targets.workspace.git import git_command

MOST_SHOWN = 10  # cases in one message


def refuse_absent_files(files: list[Path], categories: list[str], workspace: Mapping[str, Any]) -> None:
    """Refuse ground truths with files that the workspace does not have: every variant would be scored too low."""
    exists = _lookup(workspace)
    problems = []
    for place, case in placed_cases(files, categories):
        expected = parse_expected(case.expected)
        named = dict.fromkeys(map(path_of, (*(expected.get("files") or ()), *(expected.get("lines") or ()))))
        missing = [path for path in named if not exists(path)]
        if missing:
            problems.append(f"{place}: {case.id or 'case'}: {', '.join(missing)}")
    if problems:
        where = f"at {workspace['commit']}" if "git" in workspace else f"in {workspace['copy']}"
        more = [f"and {len(problems) - MOST_SHOWN} more cases"] if len(problems) > MOST_SHOWN else []
        raise BadInput(
            "\n".join([f"ground_truth names files that do not exist {where}:", *problems[:MOST_SHOWN], *more]),
            "correct the paths, or choose the commit they were written for: --commit REV",
        )


def _lookup(workspace: Mapping[str, Any]) -> Callable[[str], bool]:
    if "git" not in workspace:
        root = Path(workspace["copy"])
        return lambda path: os.path.lexists(root / path)
    try:
        listed = git_command.run_as_user("-C", workspace["git"], "ls-tree", "-r", "-t", "-z", workspace["commit"], "--")
    except git_command.GitFailed:  # no commit, or none of this name: preparing the workspace reports it
        return lambda path: True
    entries = [entry.partition(b"\t") for entry in listed.split(b"\0") if entry]
    there = {os.fsdecode(path) for _, _, path in entries}
    modules = {os.fsdecode(path) for about, _, path in entries if b" commit " in about}
    return lambda path: path in there or any(path.startswith(f"{module}/") for module in modules)


def workspace_of(
    repo: Path, hidden: list[Path], kind: Literal["git", "copy"] | None, commit: str | None
) -> dict[str, Any]:
    """A checkout of the commit for each trial, or a copy of a plain folder, without `hidden`."""
    without = sorted({finding.OWN, *(name for path in hidden for name in _inside(repo, path))})
    is_git = (repo / ".git").exists() or (
        (repo / "HEAD").is_file() and (repo / "objects").is_dir()
    )  # that is a bare one
    if kind == "git" and not is_git:
        raise BadInput(
            f"--workspace git: {repo} is no git repository of its own", "name its root, or leave the flag out"
        )
    if kind == "copy" or not is_git:
        if commit is not None:
            why = "--workspace copy" if kind == "copy" else f"{repo} is no git repository of its own"
            raise BadInput(f"--commit {commit}: {why}", "leave --commit out")
        return {"copy": str(repo), "without": without}
    return {"git": str(repo), "commit": commit or "HEAD", "without": without}


def _inside(repo: Path, path: Path) -> Iterator[str]:
    """What a repository has of a path: the link that leads to it, and what it leads to."""
    near = path.absolute()
    if near.is_relative_to(repo):
        parts = near.relative_to(repo).parts
        steps = [repo.joinpath(*parts[: count + 1]) for count in range(len(parts))]
        yield str(next((step for step in steps if step.is_symlink()), near).relative_to(repo))
    for real in (near.resolve(), near.parent.resolve() / near.name):
        if real.is_relative_to(repo) and real != repo:
            yield str(real.relative_to(repo))


def reports(runs: Path) -> list[Path]:
    inside = sorted(runs.iterdir()) if runs.is_dir() else []
    ours = [path for path in inside if (path / LEDGER).is_file()]
    return [runs] if ours == inside else ours
