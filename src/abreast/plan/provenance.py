"""What is recorded of the surroundings of a run: commit, versions, machine, data."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from abreast.spec.cases import CaseTable

_PACKAGES = ("abreast", "apsw", "duckdb", "numpy", "scipy", "pydantic", "anthropic", "openai")


def provenance(base: Path, cases: CaseTable, seed: int) -> dict[str, Any]:
    """Enough to say later under what circumstances the rows came about."""
    return {
        **git_state(base),
        "data_hash": cases.hash,
        "cases": len(cases),
        "seed": seed,
        "python": platform.python_version(),
        "packages": _versions(),
        "host": platform.node(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def git_state(folder: Path) -> dict[str, Any]:
    """The commit of the folder and whether files differ from it; nothing where there is no repository."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return {"commit": None, "dirty": None, "branch": None}
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": bool(changes), "branch": _git(folder, "rev-parse", "--abbrev-ref", "HEAD")}


def tag_commit(folder: Path, commit: str, label: str) -> str:
    """Tag a commit in git; what git says against it, empty if nothing."""
    done = subprocess.run(
        ["git", "tag", "--", label, commit], cwd=folder, capture_output=True, text=True, timeout=10, check=False
    )
    return done.stderr.strip() if done.returncode else ""


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
