"""Questions to git about a folder, each with a time limit; None where it does not answer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class GitState:
    """State of a repository."""

    root: Path
    commit: str | None  # None before the first one
    branch: str | None  # None where none is checked out
    changed: tuple[Path, ...] | None = ()  # tracked files that differ from the commit; None if git took too long


@dataclass(frozen=True, slots=True)
class ChangedLines:
    """Changed lines of one file; 0 in binary files."""

    path: Path
    added: int
    removed: int


def state(folder: Path) -> GitState | None:
    """State of the repository; None without one, without git, or without an answer."""
    root = ask(folder, "rev-parse", "--show-toplevel")
    if not root:
        return None
    place, found = Path(root.rstrip("\n")), dict[str, str]()
    told = ask(folder, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=no")
    if told is None:  # a huge one: the commit at least
        return GitState(place, (ask(folder, "rev-parse", "HEAD") or "").strip() or None, None, None)
    entries = iter(told.split("\0"))
    changed = []
    for entry in entries:
        if entry.startswith("# "):
            key, _, value = entry[2:].partition(" ")
            found[key] = value
        elif entry[:2] in ("1 ", "2 ", "u "):
            fields = {"1 ": 8, "2 ": 9, "u ": 10}[entry[:2]]
            changed.append(place / entry.split(" ", fields)[fields])
            if entry.startswith("2 "):
                next(entries, None)  # what it was called before
    commit, branch = found.get("branch.oid"), found.get("branch.head")
    return GitState(
        place,
        None if commit == "(initial)" else commit,
        None if branch == "(detached)" else branch,
        tuple(changed),
    )


def uncommitted(known: GitState, files: Collection[Path]) -> list[Path]:
    """Those of these files that differ from the commit or were never added, except ignored ones."""
    resolved = {file.resolve(): file for file in files}
    inside = [file for file in resolved if file.is_relative_to(known.root)]
    found = {file for file in known.changed or () if file in resolved}
    if inside:
        names = (f":(literal){file}" for file in inside)
        untracked = ask(known.root, "ls-files", "-z", "--others", "--exclude-standard", "--", *names)
        found |= {known.root / name for name in (untracked or "").split("\0") if name}
    return [file for path, file in resolved.items() if path in found]


def between(known: GitState, old: str, new: str) -> list[ChangedLines] | None:
    """Changes between two commits; None if git does not know one of them."""
    told = ask(known.root, "diff", "--numstat", "--no-renames", "--no-ext-diff", "-z", old, new, "--")
    if told is None:
        return None
    entries = (entry.split("\t", 2) for entry in told.split("\0") if entry)
    return [
        ChangedLines(known.root / name, int(added) if added.isdigit() else 0, int(removed) if removed.isdigit() else 0)
        for added, removed, name in entries
    ]


def tag(folder: Path, commit: str, label: str) -> str:
    """Tag a commit; return the error message of git, empty if it worked."""
    import subprocess  # late: a tracker may need no git

    done = subprocess.run(
        ["git", "tag", "--", label, commit], cwd=folder, capture_output=True, errors="replace", timeout=10, check=False
    )
    return done.stderr.strip() if done.returncode else ""


def ask(folder: Path, *words: str) -> str | None:
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
