"""Removal of what dead drivers of this user left behind: processes, workspaces and temporary folders."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.store.user_state import drivers
from abreast.targets.processes import orphans

if TYPE_CHECKING:
    import psutil  # late elsewhere: most drivers leave nothing behind


@dataclass(frozen=True, slots=True)
class DeadProcess:
    pid: int
    command: str


@dataclass(frozen=True, slots=True)
class DeadFolder:
    """The folder of a dead driver. `problem` says why some of it could not be removed."""

    path: Path
    size: int  # bytes
    problem: str = ""


@dataclass(slots=True)
class Cleanup:
    """What was removed, or with `dry_run` would be."""

    processes: list[DeadProcess] = field(default_factory=list)
    folders: list[DeadFolder] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # hosts of drivers that cannot be judged from here

    @property
    def size(self) -> int:
        return sum(folder.size for folder in self.folders)

    @property
    def problems(self) -> list[str]:
        return [folder.problem for folder in self.folders if folder.problem]

    def __bool__(self) -> bool:
        return bool(self.processes or self.folders)


def clean(dry_run: bool = False) -> Cleanup:
    """End the processes and remove the folders of drivers that died. What a live driver uses is never touched."""
    result = Cleanup()
    with drivers.dead_drivers() as (dead, elsewhere):
        result.elsewhere = [driver.host for driver in elsewhere]
        marks = [driver.mark for driver in dead]
        if marks:
            result.processes = [_describe(process) for process in orphans.find(marks)]
        if result.processes and not dry_run:
            orphans.reap(marks)
        for driver in dead:
            folders = [root / driver.mark for root in driver.roots]
            left = [_clean_folder(path, driver.kept_workspaces, dry_run) for path in folders if os.path.lexists(path)]
            result.folders += [folder for folder in left if folder is not None]
            if not dry_run and not any(folder.problem for folder in left if folder is not None):
                drivers.forget(driver)
    return result


def _describe(process: psutil.Process) -> DeadProcess:
    import psutil

    with contextlib.suppress(psutil.Error):
        return DeadProcess(process.pid, " ".join(process.cmdline()))
    return DeadProcess(process.pid, "")


def _clean_folder(path: Path, kept: Collection[Path], dry_run: bool) -> DeadFolder | None:
    """Remove a folder but for workspaces to be kept; None if nothing else is in it."""
    from abreast.targets.workspace.files.directories import remove_tree

    mounts: list[Path] = []
    if not path.is_symlink():
        mounts = _mounts_in(path)
        _make_listable(path)
    doomed = list(_outermost(path, {*kept, *mounts}))
    size = sum(map(_size, doomed))
    failed = [] if dry_run else [part for part in doomed if not remove_tree(part)]
    for folder in {part.parent for part in doomed if part != path and not dry_run}:
        with contextlib.suppress(OSError):  # there is something to keep
            folder.rmdir()
    problems = [f"{mount}: a file system is mounted there; unmount it" for mount in mounts] + list(map(_reason, failed))
    return DeadFolder(path, size, "".join(problems[:1])) if doomed or problems else None


def _make_listable(path: Path) -> None:
    """Give back the permission to list subtrees, which `new_folder` withholds."""
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                Path(entry.path).chmod(0o700)


def _outermost(path: Path, kept: Collection[Path]) -> Iterator[Path]:
    """The largest subtrees of a folder with nothing in them to keep."""
    if path in kept:
        return
    if path.is_symlink() or not any(folder.is_relative_to(path) for folder in kept):
        yield path
        return
    with contextlib.suppress(OSError):  # an agent made it unreadable
        for entry in sorted(path.iterdir()):
            yield from _outermost(entry, kept)


def _mounts_in(path: Path) -> list[Path]:
    """Where file systems are mounted in a folder: their files are not ours to remove."""
    import psutil

    real = path.resolve()
    mounts = [Path(partition.mountpoint) for partition in psutil.disk_partitions(all=True)]
    return [path / mount.relative_to(real) for mount in mounts if mount.is_relative_to(real)]


def _size(path: Path) -> int:
    """Bytes of the files below; what cannot be listed is not counted."""
    if path.is_symlink():
        return 0
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(folder, name).lstat().st_size
    return total


def _reason(path: Path) -> str:
    """Why something is still there: the error of the first file that cannot be removed."""
    try:
        while path.is_dir() and not path.is_symlink() and (inside := next(path.iterdir(), None)):
            path = inside
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    except OSError as error:
        return f"{path}: {error.strerror}"
    return f"{path}: was being written while it was removed"
