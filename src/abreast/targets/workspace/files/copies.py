"""Copying folders: what of a user's folder a trial may have, and how a prepared one is copied for each trial."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from abreast.digest import compose
from abreast.store.address import is_store
from abreast.store.report_ledger import RUNS, known, put_beside, reports
from abreast.store.user_state.drivers import root
from abreast.targets.workspace.files import directories

Kind = Literal["folder", "file", "link"]
_STORE_SUFFIXES = (".db", ".sqlite", ".sqlite3", ".journal", ".duckdb")
_BESIDE_A_STORE = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in a folder that is copied, by its path from there."""

    name: str
    kind: Kind
    found: os.stat_result
    target: str = ""


@dataclass(slots=True)
class Contents:
    """A folder as trials get it, and what of it they do not get."""

    folder: Path
    entries: list[Entry] = field(default_factory=list)
    special: list[str] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)
    pointers: list[str] = field(default_factory=list)
    leading_out: list[str] = field(default_factory=list)

    @property
    def files(self) -> int:
        return sum(entry.kind != "folder" for entry in self.entries)

    @property
    def size(self) -> int:
        return sum(entry.found.st_size for entry in self.entries if entry.kind == "file")

    def digest(self) -> str:
        """Of names, permissions, links and every byte; dates do not count, nor does git's index, which has them."""
        parts: list[str | int] = []
        for entry in sorted(self.entries, key=lambda entry: entry.name):
            parts += [ascii(entry.name), entry.kind, stat.S_IMODE(entry.found.st_mode), ascii(entry.target)]
            if entry.kind == "file" and not f"/{entry.name}".endswith("/.git/index"):
                with (self.folder / entry.name).open("rb") as file:
                    parts.append(hashlib.file_digest(file, "blake2b").hexdigest())
        return compose("folder", *parts)


def contents(folder: Path, without: Collection[str] = ()) -> Contents:
    """What is in a folder but for these paths, in order; links are not followed. Raises OSError if it is unreadable."""
    found = Contents(folder)
    own = _identity(root())
    waiting = [""]
    while waiting:
        here = waiting.pop()
        with os.scandir(folder / here) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        stores = _stores_among(folder / here, {entry.name for entry in listed}) | _reports_among(folder / here)
        for entry in listed:
            name = os.path.join(here, entry.name) if here else entry.name  # noqa: PTH118 - names of any bytes
            if name in without:
                continue
            if entry.name in stores:
                found.stores.append(name)
            elif entry.name == ".git" and not entry.is_dir(follow_symlinks=False):
                found.pointers.append(name)
            else:
                _look(found, entry, name, own, waiting)
    return found


def _look(found: Contents, entry: os.DirEntry[str], name: str, own: tuple[int, int] | None, waiting: list[str]) -> None:
    known = entry.stat(follow_symlinks=False)
    if stat.S_ISLNK(known.st_mode):
        target = str(Path(entry.path).readlink())
        found.entries.append(Entry(name, "link", known, target))
        if _leads_out(name, target):
            found.leading_out.append(name)
    elif stat.S_ISDIR(known.st_mode):
        if (known.st_dev, known.st_ino) != own:
            found.entries.append(Entry(name, "folder", known))
            waiting.append(name)
    elif stat.S_ISREG(known.st_mode):
        found.entries.append(Entry(name, "file", known))
    else:
        found.special.append(name)


def _leads_out(name: str, target: str) -> bool:
    whole = os.path.normpath(os.path.join(os.path.dirname(name), target))  # noqa: PTH118, PTH120 - by words only
    return target.startswith("/") or whole == ".." or whole.startswith("../")


def _stores_among(folder: Path, names: set[str]) -> set[str]:
    """Stores of abreast with what SQLite keeps beside them: answers of other trials, and a plain look at an open one
    would give away this process's locks."""
    found = set()
    for name in names:
        if (name.endswith(_STORE_SUFFIXES) or f"{name}-wal" in names) and is_store(folder / name):
            found |= {name + ending for ending in _BESIDE_A_STORE}
            if name.endswith(".journal"):
                found.add(name.removesuffix(".journal"))
    return found & names


def _reports_among(folder: Path) -> set[str]:
    """What runs of a store put beside it, and the folders of their reports: they tell what others answered, too, and
    are no change of the folder."""
    found = list(reports(folder))
    named = {name for report in found for name, _ in put_beside(known(report))}
    if found and len(found) == sum(1 for _ in (folder / RUNS).iterdir()):
        named.add(RUNS)
    return named | ({report.name for report in reports(folder.parent)} if folder.name == RUNS else set())


def _identity(folder: Path) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        known = folder.stat()
        return known.st_dev, known.st_ino
    return None


def copy_contents(found: Contents, to: Path) -> None:
    """Copy what was found: permissions and dates stay, and no two files have the same date."""
    for entry in found.entries:
        source, target = found.folder / entry.name, to / entry.name
        if entry.kind == "folder":
            target.mkdir(0o700)
        elif entry.kind == "link":
            target.symlink_to(entry.target)
        else:
            _copy_file(source, target)
            target.chmod(stat.S_IMODE(entry.found.st_mode))
    files = [entry for entry in found.entries if entry.kind != "folder"]
    second = 10**9
    for rank, entry in enumerate(sorted(files, key=lambda entry: entry.found.st_mtime_ns)):
        date = entry.found.st_mtime_ns // second * second + rank % second  # in the order in which they were
        os.utime(to / entry.name, ns=(date, date), follow_symlinks=False)
    for entry in reversed(found.entries):
        if entry.kind == "folder":
            (to / entry.name).chmod(stat.S_IMODE(entry.found.st_mode))


def copy_tree(source: Path, to: Path) -> None:
    """Copy a prepared folder to one that is empty: its own files only, nothing to leave out."""
    if _cp_is_able():
        command = ["cp", "-RP", "--preserve=mode,timestamps", "--reflink=auto", "--", f"{source}/.", str(to)]
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise directories.NoWorkspace(f"copying: {done.stderr.decode('utf-8', 'replace').strip()[:500]}")
    else:
        copy_tree_here(source, to)


def copy_tree_here(source: Path, to: Path) -> None:
    """The same in this process, where there is no GNU cp. It holds up other threads."""
    folders = []
    for name, entry in directories.walk(source, lambda name: True):
        target, known = to / name, entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(known.st_mode):
            target.mkdir(0o700)
            folders.append((target, known))
            continue
        if stat.S_ISLNK(known.st_mode):
            target.symlink_to(Path(entry.path).readlink())
        else:
            shutil.copyfile(entry.path, target)
            target.chmod(stat.S_IMODE(known.st_mode))
        os.utime(target, ns=(known.st_mtime_ns, known.st_mtime_ns), follow_symlinks=False)
    for target, known in reversed(folders):
        target.chmod(stat.S_IMODE(known.st_mode))


@cache
def _cp_is_able() -> bool:
    """Whether `cp` shares blocks where it can. It copies outside of this process, whose other threads go on."""
    try:
        told = subprocess.run(["cp", "--help"], capture_output=True, stdin=subprocess.DEVNULL, check=False).stdout
    except OSError:
        return False
    return b"--reflink" in told and b"--preserve" in told


def _copy_file(source: Path, target: Path) -> None:
    """By the kernel, which shares the blocks where the file system can."""
    if not hasattr(os, "copy_file_range"):
        shutil.copyfile(source, target, follow_symlinks=False)
        return
    with source.open("rb") as read, target.open("xb") as write:
        left = os.fstat(read.fileno()).st_size
        try:
            while left > 0:
                done = os.copy_file_range(read.fileno(), write.fileno(), left)
                if not done:
                    break
                left -= done
        except OSError:  # two file systems of an old kernel
            read.seek(0)
            write.seek(0)
            write.truncate()
            shutil.copyfileobj(read, write)
