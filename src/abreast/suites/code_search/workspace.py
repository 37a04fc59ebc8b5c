"""What a trial works in: the repository, without what would tell it the answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from abreast.errors import BadInput
from abreast.store.report_ledger import LEDGER
from abreast.suites.code_search import finding


def workspace_of(
    repo: Path, hidden: list[Path], kind: Literal["git", "copy"] | None, commit: str | None
) -> dict[str, Any]:
    """A checkout of the commit for each trial; of a folder that is no repository of its own, a copy. Neither has the
    cases, which say what is right, nor reports of earlier runs."""
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
    """The folder of reports, or of one that has other things in it the reports."""
    inside = sorted(runs.iterdir()) if runs.is_dir() else []
    ours = [path for path in inside if (path / LEDGER).is_file()]
    return [runs] if ours == inside else ours
