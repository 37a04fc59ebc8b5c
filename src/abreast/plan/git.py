"""Read the state of a git repository, with a time limit; None where git does not answer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 5.0
_FIELDS = {"1 ": 8, "2 ": 9, "u ": 10}  # before the path, by kind of entry in `git status --porcelain=v2`


@dataclass(frozen=True, slots=True)
class GitState:
    root: Path
    commit: str | None  # None before the first commit
    branch: str | None  # None if no branch is checked out
    changed: tuple[Path, ...] | None = ()  # tracked files that differ from the commit; None if git took too long


@dataclass(frozen=True, slots=True)
class ChangedLines:
    """Changed lines of one file; 0 in binary files."""

    path: Path
    added: int
    removed: int


def state(folder: Path) -> GitState | None:
    """State of the repository; None without one, without git, or without an answer."""
    top = output(folder, "rev-parse", "--show-toplevel")
    if not top:
        return None
    root = Path(top.rstrip("\n"))
    status = output(folder, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=no")
    if status is None:  # a huge repository: the commit at least
        return GitState(root, (output(folder, "rev-parse", "HEAD") or "").strip() or None, None, None)
    headers: dict[str, str] = {}
    changed = []
    entries = iter(status.split("\0"))
    for entry in entries:
        if entry.startswith("# "):
            key, _, value = entry[2:].partition(" ")
            headers[key] = value
        elif fields := _FIELDS.get(entry[:2]):
            changed.append(root / entry.split(" ", fields)[fields])
            if entry.startswith("2 "):
                next(entries, None)  # the old name of a renamed file
    commit, branch = headers.get("branch.oid"), headers.get("branch.head")
    return GitState(
        root,
        None if commit == "(initial)" else commit,
        None if branch == "(detached)" else branch,
        tuple(changed),
    )


def uncommitted(repository: GitState, files: Collection[Path]) -> list[Path]:
    """Files that differ from the commit or were never added, except ignored ones."""
    resolved = {file.resolve(): file for file in files}
    inside = [file for file in resolved if file.is_relative_to(repository.root)]
    changed = {file for file in repository.changed or () if file in resolved}
    if inside:
        names = (f":(literal){file}" for file in inside)
        untracked = output(repository.root, "ls-files", "-z", "--others", "--exclude-standard", "--", *names)
        changed |= {repository.root / name for name in (untracked or "").split("\0") if name}
    return [file for path, file in resolved.items() if path in changed]


def changes_between(repository: GitState, old: str, new: str) -> list[ChangedLines] | None:
    """Changes between two commits; None if git does not know one of them."""
    stat = output(repository.root, "diff", "--numstat", "--no-renames", "--no-ext-diff", "-z", old, new, "--")
    if stat is None:
        return None
    entries = (entry.split("\t", 2) for entry in stat.split("\0") if entry)
    return [
        ChangedLines(
            repository.root / name, int(added) if added.isdigit() else 0, int(removed) if removed.isdigit() else 0
        )
        for added, removed, name in entries
    ]


def tag(folder: Path, commit: str, label: str) -> str:
    """Tag a commit; return the error message of git, empty if it worked."""
    import subprocess  # late: a tracker may need no git

    command = ["git", "tag", "--", label, commit]
    done = subprocess.run(command, cwd=folder, capture_output=True, errors="replace", timeout=10, check=False)
    return done.stderr.strip() if done.returncode else ""


def output(folder: Path, *words: str) -> str | None:
    """Output of a git command; None if it fails, is not installed or takes too long."""
    import subprocess

    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", *words],
            cwd=folder,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return done.stdout if done.returncode == 0 else None
