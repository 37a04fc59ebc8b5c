"""Remove the processes, workspaces and temporary folders that dead drivers of this user left behind."""

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
    import psutil  # imported late: most drivers leave nothing behind


@dataclass(frozen=True, slots=True)
class DeadProcess:
    pid: int
    command: str


@dataclass(frozen=True, slots=True)
class DeadFolder:
    """The folder of a dead driver; `problem` says why something in it could not be removed."""

    path: Path
    size: int  # bytes
    problem: str = ""


@dataclass(slots=True)
class Cleanup:
    processes: list[DeadProcess] = field(default_factory=list)
    folders: list[DeadFolder] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # hosts of drivers that may still be alive

    @property
    def size(self) -> int:
        return sum(folder.size for folder in self.folders)

    @property
    def problems(self) -> list[str]:
        return [folder.problem for folder in self.folders if folder.problem]

    def __bool__(self) -> bool:
        return bool(self.processes or self.folders)


def clean(dry_run: bool = False) -> Cleanup:
    """End the processes and remove the folders of dead drivers, never those of live ones."""
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
            cleaned = [
                _clean_folder(path, driver.kept_workspaces, dry_run) for path in folders if os.path.lexists(path)
            ]
            dead_folders = [folder for folder in cleaned if folder is not None]
            result.folders += dead_folders
            if not dry_run and not any(folder.problem for folder in dead_folders):
                drivers.forget(driver)
    return result


def _describe(process: psutil.Process) -> DeadProcess:
    import psutil

    with contextlib.suppress(psutil.Error):
        return DeadProcess(process.pid, " ".join(process.cmdline()))
    return DeadProcess(process.pid, "")


def _clean_folder(path: Path, preserved: Collection[Path], dry_run: bool) -> DeadFolder | None:
    """Remove a folder except for preserved workspaces; None if it contains nothing else."""
    from abreast.targets.workspace.files.directories import remove_tree

    mounts: list[Path] = []
    if not path.is_symlink():
        mounts = _mounts_in(path)
        _make_listable(path)
    removable = list(_removable_trees(path, {*preserved, *mounts}))
    size = sum(map(_size, removable))
    failed = [] if dry_run else [part for part in removable if not remove_tree(part)]
    for folder in {part.parent for part in removable if part != path and not dry_run}:
        with contextlib.suppress(OSError):  # not empty
            folder.rmdir()
    problems = [f"{mount}: a file system is mounted there; unmount it" for mount in mounts] + list(map(_reason, failed))
    return DeadFolder(path, size, "".join(problems[:1])) if removable or problems else None


def _make_listable(path: Path) -> None:
    """Restore the permission to list subtrees, which `new_folder` withholds."""
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                Path(entry.path).chmod(0o700)


def _removable_trees(path: Path, preserved: Collection[Path]) -> Iterator[Path]:
    if path in preserved:
        return
    if path.is_symlink() or not any(folder.is_relative_to(path) for folder in preserved):
        yield path
        return
    with contextlib.suppress(OSError):  # an agent made it unreadable
        for entry in sorted(path.iterdir()):
            yield from _removable_trees(entry, preserved)


def _mounts_in(path: Path) -> list[Path]:
    """File systems mounted in a folder, whose files must not be removed."""
    import psutil

    real = path.resolve()
    mounts = [Path(partition.mountpoint) for partition in psutil.disk_partitions(all=True)]
    return [path / mount.relative_to(real) for mount in mounts if mount.is_relative_to(real)]


def _size(path: Path) -> int:
    if path.is_symlink():
        return 0
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(folder, name).lstat().st_size
    return total


def _reason(path: Path) -> str:
    try:
        while path.is_dir() and not path.is_symlink() and (entry := next(path.iterdir(), None)):
            path = entry
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    except OSError as error:
        return f"{path}: {error.strerror}"
    return f"{path}: was being written while it was removed"
