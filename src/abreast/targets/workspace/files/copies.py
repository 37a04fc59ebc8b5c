"""Copy folders: select the entries of a user's folder for trials, copy them for each trial, and overlay tests."""

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
_STORE_COMPANIONS = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    kind: Kind
    status: os.stat_result
    target: str = ""


@dataclass(slots=True)
class FolderContents:
    """The entries of a folder that trials get, and the paths that are left out."""

    folder: Path
    entries: list[Entry] = field(default_factory=list)
    special: list[str] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)
    git_pointers: list[str] = field(default_factory=list)
    outside_links: list[str] = field(default_factory=list)

    @property
    def files(self) -> int:
        return sum(entry.kind != "folder" for entry in self.entries)

    @property
    def size(self) -> int:
        return sum(entry.status.st_size for entry in self.entries if entry.kind == "file")

    def digest(self) -> str:
        """Return a digest of names, permissions, links and contents, without dates and git's index, which contains
        dates."""
        parts: list[str | int] = []
        for entry in sorted(self.entries, key=lambda entry: entry.name):
            parts += [ascii(entry.name), entry.kind, stat.S_IMODE(entry.status.st_mode), ascii(entry.target)]
            if entry.kind == "file" and not f"/{entry.name}".endswith("/.git/index"):
                with (self.folder / entry.name).open("rb") as file:
                    parts.append(hashlib.file_digest(file, "blake2b").hexdigest())
        return compose("folder", *parts)


def list_contents(folder: Path, without: Collection[str] = ()) -> FolderContents:
    """List a folder in a fixed order, without these paths and without following links. Raises OSError."""
    contents = FolderContents(folder)
    workspaces = root().stat() if root().exists() else None
    pending = [""]
    while pending:
        parent = pending.pop()
        with os.scandir(folder / parent) as iterator:
            entries = sorted(iterator, key=lambda entry: entry.name)
        stores = _stores_in(folder / parent, {entry.name for entry in entries}) | _reports_in(folder / parent)
        for entry in entries:
            name = os.path.join(parent, entry.name) if parent else entry.name  # noqa: PTH118 - names of any bytes
            if name in without:
                continue
            if entry.name in stores:
                contents.stores.append(name)
            elif entry.name == ".git" and not entry.is_dir(follow_symlinks=False):
                contents.git_pointers.append(name)
            elif entry.is_symlink():
                target = str(Path(entry.path).readlink())
                contents.entries.append(Entry(name, "link", entry.stat(follow_symlinks=False), target))
                if _leads_outside(name, target):
                    contents.outside_links.append(name)
            elif entry.is_dir():
                if workspaces is None or not os.path.samestat(workspaces, Path(entry.path).stat()):
                    contents.entries.append(Entry(name, "folder", entry.stat()))
                    pending.append(name)
            elif entry.is_file():
                contents.entries.append(Entry(name, "file", entry.stat()))
            else:
                contents.special.append(name)
    return contents


def _leads_outside(name: str, target: str) -> bool:
    path = os.path.normpath(os.path.join(os.path.dirname(name), target))  # noqa: PTH118, PTH120 - not resolved
    return target.startswith("/") or path == ".." or path.startswith("../")


def _stores_in(folder: Path, names: set[str]) -> set[str]:
    """Find stores of abreast and their companion files. `is_store` does not open them: closing would release SQLite's
    locks in this process."""
    stores = set()
    for name in names:
        if (name.endswith(_STORE_SUFFIXES) or f"{name}-wal" in names) and is_store(folder / name):
            stores |= {name + ending for ending in _STORE_COMPANIONS}
            if name.endswith(".journal"):
                stores.add(name.removesuffix(".journal"))
    return stores & names


def _reports_in(folder: Path) -> set[str]:
    """Return the files that runs put next to a store, and the folders of their reports, which contain answers too."""
    reports = list(report_folders(folder))
    names = {name for report in reports for name, _ in exported_files(read_ledger(report))}
    if reports and len(reports) == sum(1 for _ in (folder / RUNS).iterdir()):
        names.add(RUNS)
    return names | ({report.name for report in report_folders(folder.parent)} if folder.name == RUNS else set())


def copy_contents(contents: FolderContents, to: Path) -> None:
    """Copy these entries with permissions and dates, adjusted so that no two files have the same date."""
    for entry in contents.entries:
        source, target = contents.folder / entry.name, to / entry.name
        if entry.kind == "folder":
            target.mkdir(0o700)
        elif entry.kind == "link":
            target.symlink_to(entry.target)
        else:
            shutil.copyfile(source, target)
            target.chmod(stat.S_IMODE(entry.status.st_mode))
    files = [entry for entry in contents.entries if entry.kind != "folder"]
    second = 10**9
    for rank, entry in enumerate(sorted(files, key=lambda entry: entry.status.st_mtime_ns)):
        date = entry.status.st_mtime_ns // second * second + rank % second  # preserves their order
        os.utime(to / entry.name, ns=(date, date), follow_symlinks=False)
    for entry in reversed(contents.entries):
        if entry.kind == "folder":
            (to / entry.name).chmod(stat.S_IMODE(entry.status.st_mode))


def copy_tree(source: Path, to: Path) -> None:
    if not _has_gnu_cp():
        shutil.copytree(source, to, symlinks=True, dirs_exist_ok=True)
        return
    command = ["cp", "-RP", "--preserve=mode,timestamps", "--reflink=auto", "--", f"{source}/.", str(to)]
    completed = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    if completed.returncode:
        raise directories.NoWorkspace(f"copying: {completed.stderr.decode('utf-8', 'replace').strip()[:500]}")


@cache
def _has_gnu_cp() -> bool:
    """Whether cp is GNU cp, which shares blocks where possible and does not hold the GIL."""
    with contextlib.suppress(OSError):
        usage = subprocess.run(["cp", "--help"], capture_output=True, stdin=subprocess.DEVNULL, check=False).stdout
        return b"--reflink" in usage and b"--preserve" in usage
    return False


TEST_FOLDERS = frozenset(("test", "tests", "__tests__", "spec", "specs"))


def overlay_tests(reference: Path, work: Path, tests: Sequence[str], is_settings: Callable[[str], bool]) -> None:
    """Make the test files in `work` identical to those in `reference`. Folders of tests are replaced entirely,
    including files that the reference does not have; so are files next to and above the tests that `is_settings`
    accepts by name. Raises OSError."""
    for name in dict.fromkeys(_test_folder(test) or test for test in tests):
        sync_path(reference, work, name)
    for parent in dict.fromkeys(str(folder) for test in tests for folder in PurePosixPath(test).parents):
        for name in sorted(filter(is_settings, {*_entry_names(reference, parent), *_entry_names(work, parent)})):
            sync_path(reference, work, str(PurePosixPath(parent) / name))


def _test_folder(test: str) -> str | None:
    """Return the uppermost folder of tests that contains a file.

    >>> _test_folder("app/tests/unit/test_a.py"), _test_folder("app/test_a.py")
    ('app/tests', None)
    """
    parts = PurePosixPath(test).parts[:-1]
    return next(("/".join(parts[: at + 1]) for at, part in enumerate(parts) if part in TEST_FOLDERS), None)


def _entry_names(folder: Path, name: str) -> list[str]:
    """Return the names in a subfolder; empty if a link leads there."""
    subfolder = resolve_folder(folder, PurePosixPath(name).parts)
    with contextlib.suppress(OSError):
        return [] if subfolder is None else os.listdir(subfolder)  # noqa: PTH208 - names only
    return []


def resolve_folder(folder: Path, parts: Sequence[str]) -> Path | None:
    """Return the subfolder at this path; None if it does not exist or a part of the path is a link."""
    for part in parts:
        folder /= part
        if folder.is_symlink() or not folder.is_dir():
            return None
    return folder


def sync_path(reference: Path, work: Path, name: str) -> None:
    """Make one file or folder in `work` identical to that in `reference`, or remove it. Raises OSError."""
    *parents, last = PurePosixPath(name).parts
    source = reference / name
    if not os.path.lexists(source):
        folder = resolve_folder(work, parents)
        if folder is not None:
            _make_writable(folder)
            remove_tree(folder / last)
        return
    target = _make_folder(work, parents) / last
    if not remove_tree(target):
        raise OSError(None, "cannot be removed", str(target))
    if source.is_dir() and not source.is_symlink():
        target.mkdir(0o700)
        copy_tree(source, target)
        target.chmod(stat.S_IMODE(source.stat().st_mode) | stat.S_IRWXU)
    else:
        shutil.copy2(source, target, follow_symlinks=False)
    _touch_files(target)


def _make_folder(folder: Path, parts: Sequence[str]) -> Path:
    """Create a writable subfolder, replacing files and links that are in the way."""
    _make_writable(folder)
    for part in parts:
        folder /= part
        if folder.is_symlink() or not folder.is_dir():
            remove_tree(folder)
            folder.mkdir(0o755)
        _make_writable(folder)
    return folder


def _make_writable(folder: Path) -> None:
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        folder.chmod(mode | stat.S_IRWXU)


def _touch_files(path: Path) -> None:
    """Date files now, so that what was built from their earlier versions is out of date."""
    files = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    for file in files if path.is_dir() and not path.is_symlink() else [path]:
        os.utime(file, follow_symlinks=False)
