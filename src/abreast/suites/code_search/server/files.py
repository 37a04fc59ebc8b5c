"""The files of the folder that is served, none of them outside of it, and how their paths and lines are shown."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from abreast.globs import is_glob, matcher
from abreast.suites.code_search.server.arguments import ToolError, quote_value

LARGEST = 2_000_000  # bytes of a file that is read
GIT_S = 30.0
MOST_WALKED = 200_000
MOST_NEAR = 3
WIDEST = 240  # characters of a source line that is shown
MOST_TEXT = 40_000  # characters of an answer
_BEFORE = 80  # characters of a long line before the match
_SNIFFED = 8_000  # bytes in which a NUL means a binary file

OWN = ".abreast"  # where a repository keeps its cases, with the expected answers: never served

# Folders that a walk skips; where there is git, it knows what is built.
NO_SOURCE = {
    *("node_modules", "bower_components", "vendor", "target", "build", "dist", "out", "bin", "obj"),
    *("venv", "env", "site-packages", "__pycache__", "coverage", "htmlcov"),
}

Stamp = tuple[int, int]  # modification time in nanoseconds, and size


class Files:
    """The folder as it is now."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def listed(self) -> list[str]:
        """All files by their paths from the root, sorted; no links, and nothing in `OWN`."""
        if not self.root.is_dir():
            raise ToolError("The folder that this server was started for is gone. Use another tool.")
        paths = set(self._of_git()) or set(walk(self.root, NO_SOURCE, MOST_WALKED))
        return sorted(path for path, _ in regular_files(self.root, paths) if not path.startswith(OWN + "/"))

    def chosen(self, path: str | None) -> list[str]:
        """The files that a path of a file or folder, or a glob, selects; all of them for None."""
        files = self.listed()
        if path is None:
            return files
        inside = self.inside(path)
        chosen = files if inside == "." else [file for file in files if f"{file}/".startswith(f"{inside}/")]
        if not chosen and is_glob(path):
            chosen = _match_glob(self._from_root(path), files)
        if not chosen:
            raise ToolError(f"No file here is meant by path {quote_value(path)}.{_suggest(path, files)}")
        return chosen

    def inside(self, text: str) -> str:
        """Resolve a path that a model gave; refuse it if it leads out of the root, links included."""
        path = self._from_root(text)
        try:
            real = (self.root / path).resolve()
        except (OSError, RuntimeError, ValueError):  # too long, circular links, invalid characters
            raise ToolError(f"The path {quote_value(text)} cannot be used. {_EXAMPLE}") from None
        if not real.is_relative_to(self.root):
            raise _outside(text)
        return real.relative_to(self.root).as_posix()

    def read(self, path: str) -> bytes | None:
        """The content of a listed file; None if it is binary, too large or unreadable."""
        try:
            number = os.open(f"{self.root}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(number, "rb") as file:  # noqa: PTH123 - it is open already
                about = os.fstat(number)
                if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST:
                    return None
                content = file.read(LARGEST + 1)
        except (OSError, ValueError):
            return None
        return None if b"\0" in content[:_SNIFFED] or len(content) > LARGEST else content

    def stamp(self, path: str) -> Stamp | None:
        about = _lstat(f"{self.root}/{path}")
        return (about.st_mtime_ns, about.st_size) if about else None

    def _from_root(self, text: str) -> str:
        """Normalize a path without following links below the root; an absolute path may name the root."""
        if "\0" in text:
            raise ToolError(f"A path has no NUL character. {_EXAMPLE}")
        words = text.strip() or "."
        path = os.path.realpath(words) if words.startswith("/") else os.path.normpath(f"{self.root}/{words}")
        relative = os.path.relpath(path, self.root)
        if relative == ".." or relative.startswith("../"):
            raise _outside(text)
        return relative

    def _of_git(self) -> list[str]:
        """Tracked files and new ones that are not ignored; none if git does not know this folder."""
        words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        try:
            done = subprocess.run(
                ["git", "-c", "core.fsmonitor=false", "-C", str(self.root), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=GIT_S,
                env={**environment, "GIT_OPTIONAL_LOCKS": "0"},
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name] if done.returncode == 0 else []


def walk(root: Path, skipped: Collection[str], most: float) -> Iterator[str]:
    """Paths of files below a root, without hidden and skipped folders; about `most` of them."""
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in skipped)
        prefix = os.path.relpath(folder, root)
        yield from (name if prefix == "." else f"{prefix}/{name}" for name in names)
        count += len(names)
        if count > most:
            return


def regular_files(root: Path, paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Those of the paths that are regular files and not below a link, with their sizes."""
    is_real = {"": True}  # by folder

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
    """Files that a glob matches, else the files in folders that it matches. Brackets may be part of a name."""
    for form in (glob, glob.replace("[", "[[]")):
        fits = matcher(form)
        matches = [file for file in files if fits(file)] or [file for file in files if _is_in_match(file, fits)]
        if matches:
            return matches
    return []


def _is_in_match(path: str, fits: Callable[[str], bool]) -> bool:
    parts = path.split("/")
    return any(fits("/".join(parts[:count])) for count in range(1, len(parts)))


_EXAMPLE = "Give a path from the root of the code, such as src/main.py."


def _outside(text: str) -> ToolError:
    return ToolError(f"The path {quote_value(text)} leads out of the code that is served. {_EXAMPLE}")


def _suggest(path: str, files: list[str]) -> str:
    """Name files or folders of the same name elsewhere."""
    name = path.rstrip("/").rpartition("/")[2]
    near = [] if is_glob(name) else [file for file in files if f"/{name}/" in f"/{file}/"]
    if not near:
        return " Give a folder or a file from the root, or a glob such as *.py or src/**/test_*; or leave path out."
    return f" Is it one of these: {', '.join(map(printable_path, near[:MOST_NEAR]))}?"


# -- what a model is shown --------------------------------------------------------------------------------------------


def printable_path(path: str) -> str:
    """A path on one line, in characters that can be sent."""
    return path.encode("utf-8", "replace").decode().replace("\n", "\\n").replace("\r", "\\r")


def source_lines(content: bytes) -> list[str]:
    """The lines of a file; only a line feed ends one, as in git and in editors."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def shorten_line(line: str, start: int = 0) -> str:
    """A source line; of a long one the part around `start`, where the match begins."""
    line = line.rstrip().replace("\0", "\\0")
    if len(line) <= WIDEST:
        return line
    first = max(0, min(start - _BEFORE, len(line) - WIDEST))
    end = first + WIDEST
    return ("…" if first else "") + line[first:end] + ("…" if end < len(line) else "")


def fit_answer(blocks: Iterable[str]) -> list[str]:
    """As many of the blocks, from the first, as fit into an answer."""
    kept: list[str] = []
    size = 0
    for block in blocks:
        size += len(block) + 1
        if kept and size > MOST_TEXT:
            break
        kept.append(block)
    return kept
