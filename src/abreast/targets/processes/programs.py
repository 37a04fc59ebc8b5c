"""Programs and files that a command line names: where they are, their versions and digests."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

LARGEST = 64_000_000  # bytes of a file whose content is looked at
VERSION_S = 30.0  # for a program to print its version


def find_program(command: str, base: Path) -> str | None:
    """The file of a program: one on the path, or one at a path from the folder of the spec."""
    found = shutil.which(command) or (shutil.which(str(base / command)) if os.sep in command else None)
    return None if found is None else str(Path(found).absolute())


def version_of(program: str, shared: dict[str, Any]) -> str:
    """What a program prints as its version, asked once a run; "unknown" if it prints nothing."""
    known: dict[str, str] = shared.setdefault("program-versions", {})
    if program not in known:
        try:
            done = subprocess.run(
                [program, "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=VERSION_S,
                check=False,
                start_new_session=True,
            )
            lines = done.stdout.decode("utf-8", "replace").split("\n") if done.returncode == 0 else []
        except (OSError, subprocess.TimeoutExpired):
            lines = []
        known[program] = next((line.strip()[:100] for line in lines if line.strip()), "unknown")
    return known[program]


def named_file(word: str) -> Path | None:
    """The file that a word names by its whole path, as in `--config=/a/file`."""
    path = Path(word.rpartition("=")[2][:4_096])
    try:
        return path if path.is_absolute() and path.is_file() else None
    except (OSError, ValueError):
        return None


def content_digest(path: Path, shared: dict[str, Any]) -> str:
    """A digest of a file, read once a run; of a very large one its size."""
    known: dict[str, str] = shared.setdefault("program-contents", {})
    if str(path) not in known:
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest() if size <= LARGEST else f"{size:012}"
        except OSError:
            digest = "unreadable"
        known[str(path)] = digest
    return known[str(path)]
