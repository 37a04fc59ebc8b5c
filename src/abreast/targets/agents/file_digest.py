"""Files that a command names: their content can change what comes of it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

LARGEST = 64_000_000  # bytes of a file whose content is looked at


def named_file(word: str) -> Path | None:
    """The file that a word names by its whole path, as in `--config=/a/file`."""
    path = Path(word.rpartition("=")[2][:4_096])
    try:
        return path if path.is_absolute() and path.is_file() else None
    except (OSError, ValueError):
        return None


def content_digest(path: Path, shared: dict[str, Any]) -> str:
    """A digest of a file, looked at once a run; of a very large one its size."""
    known: dict[str, str] = shared.setdefault("program-contents", {})
    if str(path) not in known:
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest() if size <= LARGEST else f"{size:012}"
        except OSError:
            found = "unreadable"
        known[str(path)] = found
    return known[str(path)]
