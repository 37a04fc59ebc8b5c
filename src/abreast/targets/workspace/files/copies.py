"""Copying folders: what of a user's folder a trial may have, the copy for each trial, and tests put over one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal

from abreast.digest import compose
from abreast.store.address import is_store
from abreast.store.report_ledger import RUNS, exported_files, read_ledger, report_folders
from abreast.store.user_state.drivers import root
from abreast.targets.workspace.files import directories
from abreast.targets.workspace.files.directories import remove_tree

Kind = Literal["folder", "file", "link"]
_STORE_SUFFIXES = (".db", ".sqlite", ".sqlite3", ".journal", ".duckdb")
_BESIDE_A_STORE = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Entry:
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
    own = root().stat() if root().exists() else None
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
            elif entry.is_symlink():
                target = str(Path(entry.path).readlink())
                found.entries.append(Entry(name, "link", entry.stat(follow_symlinks=False), target))
                if _leads_out(name, target):
                    found.leading_out.append(name)
            elif entry.is_dir():
                if own is None or not os.path.samestat(own, Path(entry.path).stat()):
                    found.entries.append(Entry(name, "folder", entry.stat()))
                    waiting.append(name)
            elif entry.is_file():
                found.entries.append(Entry(name, "file", entry.stat()))
            else:
                found.special.append(name)
    return found


def _leads_out(name: str, target: str) -> bool:
    whole = os.path.normpath(os.path.join(os.path.dirname(name), target))  # noqa: PTH118, PTH120 - by words only
    return target.startswith("/") or whole == ".." or whole.startswith("../")


def _stores_among(folder: Path, names: set[str]) -> set[str]:
    """Stores of abreast with what SQLite keeps beside them. To open and close one here would release its locks."""
    found = set()
    for name in names:
        if (name.endswith(_STORE_SUFFIXES) or f"{name}-wal" in names) and is_store(folder / name):
            found |= {name + ending for ending in _BESIDE_A_STORE}
            if name.endswith(".journal"):
                found.add(name.removesuffix(".journal"))
    return found & names


def _reports_among(folder: Path) -> set[str]:
    """What runs of a store put beside it, and the folders of their reports, which hold answers too."""
    found = list(report_folders(folder))
    named = {name for report in found for name, _ in exported_files(read_ledger(report))}
    if found and len(found) == sum(1 for _ in (folder / RUNS).iterdir()):
        named.add(RUNS)
    return named | ({report.name for report in report_folders(folder.parent)} if folder.name == RUNS else set())


def copy_contents(found: Contents, to: Path) -> None:
    """Copy what was found: permissions and dates stay, and no two files have the same date."""
    for entry in found.entries:
        source, target = found.folder / entry.name, to / entry.name
        if entry.kind == "folder":
            target.mkdir(0o700)
        elif entry.kind == "link":
            target.symlink_to(entry.target)
        else:
            shutil.copyfile(source, target)
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
    if not _cp_is_able():
        shutil.copytree(source, to, symlinks=True, dirs_exist_ok=True)
        return
    command = ["cp", "-RP", "--preserve=mode,timestamps", "--reflink=auto", "--", f"{source}/.", str(to)]
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise directories.NoWorkspace(f"copying: {done.stderr.decode('utf-8', 'replace').strip()[:500]}")


@cache
def _cp_is_able() -> bool:
    """Whether this is GNU cp, which shares blocks where it can. Other threads of this process go on meanwhile."""
    with contextlib.suppress(OSError):
        usage = subprocess.run(["cp", "--help"], capture_output=True, stdin=subprocess.DEVNULL, check=False).stdout
        return b"--reflink" in usage and b"--preserve" in usage
    return False


FOLDERS = frozenset(("test", "tests", "__tests__", "spec", "specs"))


def put_over(people: Path, work: Path, tests: Sequence[str], decides: Callable[[str], bool]) -> None:
    """Make test files in `work` what they are in `people`. A folder of tests becomes so as a whole, with all that lies
    in it and without what people do not have; so do files that `decides` takes by their names, beside the tests and
    above them. Raises OSError."""
    for name in dict.fromkeys(_folder_of_tests(test) or test for test in tests):
        make_same(people, work, name)
    for above in dict.fromkeys(str(folder) for test in tests for folder in PurePosixPath(test).parents):
        for name in sorted(filter(decides, {*_names(people, above), *_names(work, above)})):
            make_same(people, work, str(PurePosixPath(above) / name))


def _folder_of_tests(test: str) -> str | None:
    """The uppermost that the file is in.

    >>> _folder_of_tests("app/tests/unit/test_a.py"), _folder_of_tests("app/test_a.py")
    ('app/tests', None)
    """
    parts = PurePosixPath(test).parts[:-1]
    return next(("/".join(parts[: at + 1]) for at, part in enumerate(parts) if part in FOLDERS), None)


def _names(folder: Path, name: str) -> list[str]:
    """What lies in a folder inside of another; nothing if a link leads there."""
    found = reached(folder, PurePosixPath(name).parts)
    with contextlib.suppress(OSError):
        return [] if found is None else os.listdir(found)  # noqa: PTH208 - names only
    return []


def reached(folder: Path, parts: Sequence[str]) -> Path | None:
    """A folder inside of another, by folders alone."""
    here = folder
    for part in parts:
        here = here / part
        if here.is_symlink() or not here.is_dir():
            return None
    return here


def make_same(people: Path, work: Path, name: str) -> None:
    """Make one file or folder in `work` what it is in `people`; remove it if people have none. Raises OSError."""
    *above, last = PurePosixPath(name).parts
    source = people / name
    if not os.path.lexists(source):  # people have none
        folder = reached(work, above)
        if folder is not None:
            _writable(folder)
            remove_tree(folder / last)
        return
    target = _made(work, above) / last
    if not remove_tree(target):
        raise OSError(None, "cannot be removed", str(target))
    if source.is_dir() and not source.is_symlink():
        target.mkdir(0o700)
        copy_tree(source, target)
        target.chmod(stat.S_IMODE(source.stat().st_mode) | stat.S_IRWXU)
    else:
        shutil.copy2(source, target, follow_symlinks=False)
    _date(target)


def _made(work: Path, parts: Sequence[str]) -> Path:
    """A folder inside of another, by folders alone: whatever else is in the way goes."""
    here = work
    _writable(here)
    for part in parts:
        here = here / part
        if here.is_symlink() or not here.is_dir():
            remove_tree(here)
            here.mkdir(0o755)
        _writable(here)
    return here


def _writable(folder: Path) -> None:
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        folder.chmod(mode | stat.S_IRWXU)


def _date(path: Path) -> None:
    """Date files now: what was built from the files that were there before is out of date."""
    files = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    for file in files if path.is_dir() and not path.is_symlink() else [path]:
        os.utime(file, follow_symlinks=False)
