"""The case files as they are: a hash of each, and whether it is what DVC tracks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

LARGEST_DVC_FILE = 1_000_000  # bytes; they have a few hundred


def hashes(files: Iterable[Path], base: Path) -> dict[str, str]:
    """The MD5 of each, which is what DVC uses, by its path as seen from the spec."""
    found = {}
    for file in files:
        try:
            with file.open("rb") as content:
                found[shown(file, base)] = hashlib.file_digest(content, _md5).hexdigest()
        except OSError:
            continue
    return found


def _md5() -> Any:
    return hashlib.md5(usedforsecurity=False)


def shown(file: Path, base: Path) -> str:
    try:
        return file.resolve().relative_to(base.resolve()).as_posix()
    except ValueError:
        return str(file)


@dataclass(frozen=True, slots=True)
class Tracked:
    """A file that DVC tracks: the MD5 that its `.dvc` file has, and whether the file is still that."""

    file: Path
    md5: str
    same: bool


def tracked(file: Path, md5: str) -> Tracked | None:
    """None if there is no `.dvc` file of its own beside it. Before version 3, DVC read line ends of DOS as others."""
    out = _entry(file)
    expected = out.get("md5") if out else None
    if not isinstance(expected, str) or out is None:
        return None
    return Tracked(file, expected, expected == md5 or (out.get("hash") is None and expected == _md5_of_text(file)))


def _md5_of_text(file: Path) -> str:
    found = _md5()
    try:
        found.update(file.read_bytes().replace(b"\r\n", b"\n"))
    except OSError:  # gone a moment ago
        return ""
    return str(found.hexdigest())


def _entry(file: Path) -> dict[str, Any] | None:
    beside = file.with_name(f"{file.name}.dvc")
    try:
        if not beside.is_file() or beside.stat().st_size > LARGEST_DVC_FILE:
            return None
        content = yaml.safe_load(beside.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None
    outs = content.get("outs") if isinstance(content, dict) else None
    for out in outs if isinstance(outs, list) else ():
        if isinstance(out, dict) and out.get("path", file.name) == file.name:
            return out
    return None
