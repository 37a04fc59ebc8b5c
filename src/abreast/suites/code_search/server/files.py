"""The files of the folder that is served: those that git knows of, else those of a walk. None of them lies outside."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from abreast.globs import is_glob, matcher
from abreast.suites.code_search.server.arguments import Refused, shown
from abreast.suites.code_search.server.lines import plain as plainly

LARGEST = 2_000_000  # bytes of a file that is read
GIT_S = 30.0
MOST_WALKED = 200_000
MOST_NEAR = 3
_LOOKED_AT = 8_000  # bytes, for one that no text has

OWN = ".abreast"  # where a repository keeps its cases, with what shall be found: never served

# Folders that a walk passes by; git knows better what is built.
NO_SOURCE = {
    *("node_modules", "bower_components", "vendor", "target", "build", "dist", "out", "bin", "obj"),
    *("venv", "env", "site-packages", "__pycache__", "coverage", "htmlcov"),
}


Stamp = tuple[int, int]  # when a file was changed, in nanoseconds, and its size


class Files:
    """The folder. What is listed is what there is now."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def listed(self) -> list[str]:
        """All files by their paths from the root with forward slashes, in order; no links, nothing of our own."""
        if not self.root.is_dir():
            raise Refused("The folder that this server was started for is gone. Use another tool.")
        is_inside, own = self._insider(), OWN + "/"
        there = set(self._of_git()) or set(self._walked())
        return sorted(path for path in there if not path.startswith(own) and is_inside(path))

    def chosen(self, path: str | None) -> list[str]:
        """Those that a file, a folder or a glob means; all of them for none."""
        there = self.listed()
        if path is None:
            return there
        plain = self.inside(path)
        found = there if plain == "." else [name for name in there if name == plain or name.startswith(plain + "/")]
        if not found and is_glob(path):
            found = _globbed(self._of_root(path), there)
        if not found:
            raise Refused(f"No file here is meant by path {shown(path)}.{_near(path, there)}")
        return found

    def inside(self, text: str) -> str:
        """A path that a model gave, from the root; refused if it leads out of it, by whatever way."""
        plain = self._of_root(text)
        try:
            real = (self.root / plain).resolve()
        except (OSError, RuntimeError, ValueError):  # too long, links in a circle, no characters of a name
            raise Refused(f"The path {shown(text)} cannot be used. {_SUCH}") from None
        if not real.is_relative_to(self.root):
            raise _outside(text)
        return real.relative_to(self.root).as_posix()

    def read(self, path: str) -> bytes | None:
        """What is in a file of the list; None if it is no text, too large, or nothing that can be read."""
        try:
            number = os.open(f"{self.root}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        with open(number, "rb") as file:  # noqa: PTH123 - it is open already
            try:
                about = os.fstat(number)
                if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST:
                    return None
                content = file.read(LARGEST + 1)
            except OSError:
                return None
        return None if b"\0" in content[:_LOOKED_AT] or len(content) > LARGEST else content

    def stamp(self, path: str) -> Stamp | None:
        try:
            about = os.lstat(f"{self.root}/{path}")
        except (OSError, ValueError):
            return None
        return about.st_mtime_ns, about.st_size

    def _of_root(self, text: str) -> str:
        """By its words alone; one that names the root in full is as good as one from there."""
        if "\0" in text:
            raise Refused(f"A path has no NUL character. {_SUCH}")
        words = text.strip() or "."
        place = _resolve(words) if words.startswith("/") else os.path.normpath(f"{self.root}/{words}")
        plain = os.path.relpath(place, self.root)
        if plain == ".." or plain.startswith("../"):
            raise _outside(text)
        return plain

    # -- what there is ------------------------------------------------------------------------------------------------

    def _of_git(self) -> list[str]:
        """Tracked files and those that are new and not ignored; none if git does not know this folder."""
        words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        here = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # no other repository
        try:
            done = subprocess.run(
                ["git", "-c", "core.fsmonitor=false", "-C", str(self.root), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=GIT_S,
                env={**here, "GIT_OPTIONAL_LOCKS": "0"},
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name] if done.returncode == 0 else []

    def _walked(self) -> Iterator[str]:
        """Files below the root, without hidden folders and those that are built."""
        seen = 0
        for here, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if not name.startswith(".") and name not in NO_SOURCE]
            place = os.path.relpath(here, self.root)
            for name in names:
                yield name if place == "." else f"{place}/{name}"
            seen += len(names)
            if seen > MOST_WALKED:
                return

    def _insider(self) -> Callable[[str], bool]:
        """Whether a listed file is one, and no folder on its way is a link. Each folder is looked at once."""
        known: dict[str, bool] = {"": True}

        def real(folder: str) -> bool:
            if folder not in known:
                known[folder] = real(folder.rpartition("/")[0]) and _mode(self.root / folder, stat.S_ISDIR)
            return known[folder]

        return lambda path: real(path.rpartition("/")[0]) and _mode(f"{self.root}/{path}", stat.S_ISREG)


def _mode(path: str | Path, wanted: Callable[[int], bool]) -> bool:
    try:
        return wanted(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _globbed(glob: str, there: list[str]) -> list[str]:
    """What a glob means: files, else what is in the folders that it means. Brackets may be part of a name."""
    for form in (glob, glob.replace("[", "[[]")):
        fits = matcher(form)
        found = [name for name in there if fits(name)] or [name for name in there if _in_a_folder(name, fits)]
        if found:
            return found
    return []


def _in_a_folder(path: str, fits: Callable[[str], bool]) -> bool:
    parts = path.split("/")
    return any(fits("/".join(parts[:count])) for count in range(1, len(parts)))


def _resolve(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path


def _outside(text: str) -> Refused:
    return Refused(f"The path {shown(text)} leads out of the code that is served. {_SUCH}")


_SUCH = "Give a path from the root of the code, such as src/main.py."


def _near(path: str, there: list[str]) -> str:
    """Files of the same name elsewhere, for who remembers half of a path."""
    name = path.rstrip("/").rpartition("/")[2]
    found = (
        [] if is_glob(name) else [one for one in there if f"/{one}".endswith(f"/{name}") or f"/{name}/" in f"/{one}"]
    )
    if not found:
        return " Give a folder or a file from the root, or a glob such as *.py or src/**/test_*; or leave path out."
    return f" Is it one of these: {', '.join(map(plainly, found[:MOST_NEAR]))}?"
