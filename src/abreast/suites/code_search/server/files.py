"""The files of the served folder, and the format of their paths and lines. Nothing outside of it is read."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from abreast.globs import is_glob, matcher
from abreast.suites.code_search.server.arguments import ToolError, quote_value

LARGEST = 2_000_000  # bytes; larger files are not read
GIT_S = 30.0
MOST_WALKED = 200_000
MOST_NEAR = 3
WIDEST = 240  # characters of a line in an answer
MOST_TEXT = 40_000  # characters of an answer
_BEFORE = 80  # characters of a long line before the match
_LIST_FILES = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
_SNIFFED = 8_000  # first bytes of a file, in which a NUL means binary

OWN = ".abreast"  # cases with the expected answers: never served

# Folders that a walk skips; in a repository, git decides instead.
NO_SOURCE = {
    *("node_modules", "bower_components", "vendor", "target", "build", "dist", "out", "bin", "obj"),
    *("venv", "env", "site-packages", "__pycache__", "coverage", "htmlcov"),
}

Stamp = tuple[int, int]  # modification time in nanoseconds, and size


class Files:
    """The current files of a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def listed(self) -> list[str]:
        """Return the relative paths of all files but links and those in `OWN`, sorted."""
        if not self.root.is_dir():
            raise ToolError("The folder that this server searches is gone. Use another tool.")
        paths = set(self._list_tracked()) or set(walk(self.root, NO_SOURCE, MOST_WALKED))
        return sorted(path for path, _ in regular_files(self.root, paths) if not path.startswith(OWN + "/"))

    def chosen(self, path: str | None) -> list[str]:
        """Return the files that a path or glob selects; all for None."""
        files = self.listed()
        if path is None:
            return files
        inside = self.inside(path)
        chosen = files if inside == "." else [file for file in files if f"{file}/".startswith(f"{inside}/")]
        if not chosen and is_glob(path):
            chosen = _match_glob(self._relative_to_root(path), files)
        if not chosen:
            raise ToolError(f"No file matches path {quote_value(path)}.{_suggest(path, files)}")
        return chosen

    def inside(self, text: str) -> str:
        """Resolve a path argument; refuse it if it leads out of the root, also by links."""
        path = self._relative_to_root(text)
        try:
            real = (self.root / path).resolve()
        except (OSError, RuntimeError):  # too long, or circular links
            raise ToolError(f"The path {quote_value(text)} cannot be used. {_EXAMPLE}") from None
        if not real.is_relative_to(self.root):
            raise _outside(text)
        return real.relative_to(self.root).as_posix()

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if it is binary, too large or unreadable."""
        try:
            descriptor = os.open(f"{self.root}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:  # noqa: PTH123 - it is open already
                about = os.fstat(descriptor)
                if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST:
                    return None
                content = file.read(LARGEST + 1)
        except (OSError, ValueError):
            return None
        return None if b"\0" in content[:_SNIFFED] or len(content) > LARGEST else content

    def stamp(self, path: str) -> Stamp | None:
        about = _lstat(f"{self.root}/{path}")
        return (about.st_mtime_ns, about.st_size) if about else None

    def _relative_to_root(self, text: str) -> str:
        """Return a path relative to the root, without following links below the root."""
        if "\0" in text:
            raise ToolError(f"A path cannot have a NUL character. {_EXAMPLE}")
        text = text.strip() or "."
        path = os.path.realpath(text) if text.startswith("/") else os.path.normpath(f"{self.root}/{text}")
        relative = os.path.relpath(path, self.root)
        if relative == ".." or relative.startswith("../"):
            raise _outside(text)
        return relative

    def _list_tracked(self) -> list[str]:
        """Return tracked files and new ones that are not ignored; none outside of a repository."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        try:
            completed = subprocess.run(
                ["git", "-c", "core.fsmonitor=false", "-C", str(self.root), *_LIST_FILES],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=GIT_S,
                env={**environment, "GIT_OPTIONAL_LOCKS": "0"},
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        if completed.returncode != 0:
            return []
        return [os.fsdecode(name) for name in completed.stdout.split(b"\0") if name]


def walk(root: Path, skipped: Collection[str], most: float) -> Iterator[str]:
    """Yield about `most` paths of files below a root, without hidden and skipped folders."""
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in skipped)
        prefix = os.path.relpath(folder, root)
        yield from (name if prefix == "." else f"{prefix}/{name}" for name in names)
        count += len(names)
        if count > most:
            return


def regular_files(root: Path, paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield the paths of regular files that are not below a link, with their sizes."""
    is_real = {"": True}  # whether a folder is reached without links

    def check(folder: str) -> bool:
        if folder not in is_real:
            about = _lstat(f"{root}/{folder}") if check(folder.rpartition("/")[0]) else None
            is_real[folder] = about is not None and stat.S_ISDIR(about.st_mode)
        return is_real[folder]

    for path in paths:
        about = _lstat(f"{root}/{path}") if check(path.rpartition("/")[0]) else None
        if about is not None and stat.S_ISREG(about.st_mode):
            yield path, about.st_size


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _match_glob(glob: str, files: list[str]) -> list[str]:
    """Return files that a glob matches, else files in folders that it matches. Brackets may be part of a name."""
    for form in (glob, glob.replace("[", "[[]")):
        is_match = matcher(form)
        matches = [file for file in files if is_match(file)] or [file for file in files if _is_in_match(file, is_match)]
        if matches:
            return matches
    return []


def _is_in_match(path: str, is_match: Callable[[str], bool]) -> bool:
    parts = path.split("/")
    return any(is_match("/".join(parts[:count])) for count in range(1, len(parts)))


_EXAMPLE = "Use a path relative to the root, such as src/main.py."


def _outside(text: str) -> ToolError:
    return ToolError(f"The path {quote_value(text)} is outside of the searched folder. {_EXAMPLE}")


def _suggest(path: str, files: list[str]) -> str:
    """Suggest files in other folders of the same name."""
    name = path.rstrip("/").rpartition("/")[2]
    near = [] if is_glob(name) else [file for file in files if f"/{name}/" in f"/{file}/"]
    if not near:
        return " Use a file or folder relative to the root, or a glob such as *.py or src/**/test_*; or omit path."
    return f" Did you mean one of these: {', '.join(map(printable_path, near[:MOST_NEAR]))}?"


# -- output -----------------------------------------------------------------------------------------------------------


def printable_path(path: str) -> str:
    """Return a path on one line, without lone surrogates."""
    return path.encode("utf-8", "replace").decode().replace("\n", "\\n").replace("\r", "\\r")


def source_lines(content: bytes) -> list[str]:
    """Split a file into lines at line feeds only, as git and editors do."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def shorten_line(line: str, start: int = 0) -> str:
    """Shorten a long line to the part around the start of the match."""
    line = line.rstrip().replace("\0", "\\0")
    if len(line) <= WIDEST:
        return line
    first = max(0, min(start - _BEFORE, len(line) - WIDEST))
    end = first + WIDEST
    return ("…" if first else "") + line[first:end] + ("…" if end < len(line) else "")


def fit_answer(blocks: Iterable[str]) -> list[str]:
    """Return the first blocks that fit into an answer, at least one."""
    fitting: list[str] = []
    size = 0
    for block in blocks:
        size += len(block) + 1
        if fitting and size > MOST_TEXT:
            break
        fitting.append(block)
    return fitting
