"""The workspace of a trial: the repository without the case files."""

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
from abreast.suites.code_search.finding import cases_with_positions
from abreast.targets.workspace.git import git_command

MOST_SHOWN = 10  # cases in one message


def refuse_absent_files(files: list[Path], categories: list[str], workspace: Mapping[str, Any]) -> None:
    """Refuse ground truths with files that are not in the workspace."""
    exists = _lookup(workspace)
    problems = []
    for position, case in cases_with_positions(files, categories):
        expected = parse_expected(case.expected)
        paths = dict.fromkeys(map(path_of, (*(expected.get("files") or ()), *(expected.get("lines") or ()))))
        missing = [path for path in paths if not exists(path)]
        if missing:
            problems.append(f"{position}: {case.id or 'case'}: {', '.join(missing)}")
    if problems:
        where = f"at {workspace['commit']}" if "git" in workspace else f"in {workspace['copy']}"
        more = [f"and {len(problems) - MOST_SHOWN} more cases"] if len(problems) > MOST_SHOWN else []
        raise BadInput(
            "\n".join([f"ground_truth names files that do not exist {where}:", *problems[:MOST_SHOWN], *more]),
            "fix the paths, or use --commit REV with the commit they were written for",
        )


def _lookup(workspace: Mapping[str, Any]) -> Callable[[str], bool]:
    if "git" not in workspace:
        root = Path(workspace["copy"])
        return lambda path: os.path.lexists(root / path)
    try:
        output = git_command.run_as_user("-C", workspace["git"], "ls-tree", "-r", "-t", "-z", workspace["commit"], "--")
    except git_command.GitFailed:  # no such commit; preparing the workspace reports it
        return lambda path: True
    entries = [entry.partition(b"\t") for entry in output.split(b"\0") if entry]
    paths = {os.fsdecode(path) for _, _, path in entries}
    modules = {os.fsdecode(path) for about, _, path in entries if b" commit " in about}
    return lambda path: path in paths or any(path.startswith(f"{module}/") for module in modules)


def workspace_of(
    repo: Path, hidden: list[Path], kind: Literal["git", "copy"] | None, commit: str | None
) -> dict[str, Any]:
    """Return the workspace: a checkout of the commit, or a copy of a plain folder, without `hidden`."""
    without = sorted({finding.OWN, *(name for path in hidden for name in _paths_in(repo, path))})
    is_bare = (repo / "HEAD").is_file() and (repo / "objects").is_dir()
    is_git = is_bare or (repo / ".git").exists()
    if kind == "git" and not is_git:
        raise BadInput(f"--workspace git: {repo} is not the root of a git repository", "use its root, or omit the flag")
    if kind == "copy" or not is_git:
        if commit is not None:
            reason = "a copy has no commits" if kind == "copy" else f"{repo} is not the root of a git repository"
            raise BadInput(f"--commit {commit}: {reason}", "omit --commit")
        return {"copy": str(repo), "without": without}
    return {"git": str(repo), "commit": commit or "HEAD", "without": without}


def _paths_in(repo: Path, path: Path) -> Iterator[str]:
    """Yield the relative paths in a repository of a path: of the link to it, and of its target."""
    near = path.absolute()
    if near.is_relative_to(repo):
        parts = near.relative_to(repo).parts
        steps = [repo.joinpath(*parts[: count + 1]) for count in range(len(parts))]
        yield str(next((step for step in steps if step.is_symlink()), near).relative_to(repo))
    for real in (near.resolve(), near.parent.resolve() / near.name):
        if real.is_relative_to(repo) and real != repo:
            yield str(real.relative_to(repo))


def report_folders(runs: Path) -> list[Path]:
    folders = sorted(runs.iterdir()) if runs.is_dir() else []
    reports = [path for path in folders if (path / LEDGER).is_file()]
    return [runs] if reports == folders else reports
