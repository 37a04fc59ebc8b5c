"""Locate the programs and files of a command line, and determine their versions and digests."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

MAX_DIGESTED = 64_000_000  # bytes; larger files count by size only
VERSION_TIMEOUT_S = 30.0


def find_program(command: str, base: Path) -> str | None:
    """Return the file of a program, by name on the PATH or by path relative to the folder of the spec."""
    program = shutil.which(command) or (shutil.which(str(base / command)) if os.sep in command else None)
    return None if program is None else str(Path(program).absolute())


def version_of(program: str, shared: dict[str, Any]) -> str:
    """Return the version that a program prints, cached per run; "unknown" if it prints nothing."""
    versions: dict[str, str] = shared.setdefault("program-versions", {})
    if program not in versions:
        try:
            completed = subprocess.run(
                [program, "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=VERSION_TIMEOUT_S,
                check=False,
                start_new_session=True,
            )
            lines = completed.stdout.decode("utf-8", "replace").split("\n") if completed.returncode == 0 else []
        except (OSError, subprocess.TimeoutExpired):
            lines = []
        versions[program] = next((line.strip()[:100] for line in lines if line.strip()), "unknown")
    return versions[program]


def file_in_argument(word: str) -> Path | None:
    """Return the file that an argument names by its absolute path, as in `--config=/a/file`."""
    path = Path(word.rpartition("=")[2][:4_096])
    try:
        return path if path.is_absolute() and path.is_file() else None
    except (OSError, ValueError):
        return None


def content_digest(path: Path, shared: dict[str, Any]) -> str:
    """Return a digest of a file, cached per run; the size of a very large one."""
    digests: dict[str, str] = shared.setdefault("program-contents", {})
    if str(path) not in digests:
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest() if size <= MAX_DIGESTED else f"{size:012}"
        except OSError:
            digest = "unreadable"
        digests[str(path)] = digest
    return digests[str(path)]
