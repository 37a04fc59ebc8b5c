"""Putting files of people over what an agent left: never through a link that it made, and never outside."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from abreast.targets.workspace.files.copies import copy_tree
from abreast.targets.workspace.files.directories import remove_tree

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
    """They are new here: what was built of the files that were there before is out of date."""
    if path.is_dir() and not path.is_symlink():
        for folder, _, files in os.walk(path):
            for name in files:
                os.utime(Path(folder) / name, follow_symlinks=False)
    else:
        os.utime(path, follow_symlinks=False)
