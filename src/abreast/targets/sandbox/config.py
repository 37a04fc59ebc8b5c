"""The `sandbox:` of a variant, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.errors import BadInput
from abreast.settings import Settings, is_count, is_texts

TOOL = "bubblewrap"
FIX = (
    "write sandbox: bubblewrap, or sandbox: {network: off, disk_mb: 1024, processes: 200, read: [PATH], write: [PATH]}"
)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a program may do beyond working in its own folder."""

    network: bool = True
    disk_mb: int | None = None  # of temporary files and of the home each, and of any file it writes
    processes: int | None = None
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()


def read_sandbox(where: str, setting: Any, base: Path) -> Sandbox | None:
    """None if there is to be no sandbox. Raises BadInput."""
    if setting in (None, "none", False):
        return None
    if setting == TOOL:
        return Sandbox()
    if not isinstance(setting, Mapping):
        raise BadInput(f"{where}: sandbox must be none, {TOOL} or a mapping, got {setting!r:.80}", FIX)
    settings = Settings(f"{where}: sandbox", setting)
    settings.take("tool", TOOL, lambda value: value == TOOL, TOOL)
    network = settings.take("network", True, lambda value: value in (True, False, "on", "off"), "on or off")
    disk_mb = settings.take("disk_mb", None, is_count, "megabytes, as an integer of at least 1")
    processes = settings.take("processes", None, is_count, "an integer of at least 1")
    read = settings.take("read", [], _is_paths, "a list of paths")
    write = settings.take("write", [], _is_paths, "a list of paths")
    settings.done()
    return Sandbox(
        network=network in (True, "on"),
        disk_mb=disk_mb,
        processes=processes,
        read=tuple(_absolute(base, path) for path in read),
        write=tuple(_absolute(base, path) for path in write),
    )


def _is_paths(value: Any) -> bool:
    return value in ([], ()) or is_texts(value)


def _absolute(base: Path, path: str) -> Path:
    return Path(base / Path(path).expanduser()).absolute()
