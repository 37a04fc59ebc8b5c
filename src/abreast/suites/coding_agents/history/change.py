"""What changed between two commits: which files, how many lines, and the whole of them as a diff."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from abreast.suites.coding_agents.history.commits import History

LARGEST_FILE = 500_000
LARGEST_DIFF = 2_000_000
MOST_FILES = 1000
_COMPARE = (
    *("diff-tree", "-r", "--find-renames", "-l1000", "--no-ext-diff", "--no-textconv", "--no-color"),
    *("--diff-algorithm=myers", "--indent-heuristic", "--submodule=short", "--ignore-submodules=none"),
)
_SHORT = ("--patch", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/")
_WHOLE = ("--patch", "--full-index", "--unified=1000000", "--src-prefix=a/", "--dst-prefix=b/")
MOST_SHOWN, MOST_OF_A_FILE = 60_000, 15_000  # characters of an excerpt, and of one file in it
MOST_PARTS, MOST_LINES = 200, 3_000  # files of an excerpt, and changed lines of a file that is in it
_AT_ONCE = 200  # paths that git is asked about together


@dataclass(frozen=True, slots=True)
class File:
    """A file that changed: its path before and after, None where it was not there. A binary one has no lines."""

    before: str | None
    after: str | None
    added: int = 0
    deleted: int = 0
    binary: bool = False

    @property
    def lines(self) -> int:
        return self.added + self.deleted

    @property
    def path(self) -> str:
        return self.after or self.before or ""


def files_between(history: History, base: str, head: str) -> list[File]:
    told = iter(os.fsdecode(history.ask(*_COMPARE, "--raw", "--numstat", "-z", base, head, "--")).split("\0"))
    names, lines = list[tuple[str | None, str | None]](), list[tuple[int, int, bool]]()
    for entry in told:
        if entry.startswith(":"):
            kind, path = entry.rsplit(" ", 1)[1][:1], next(told)
            renamed = next(told) if kind in "RC" else path
            names.append((None if kind == "A" else path, None if kind == "D" else renamed))
        elif entry:
            added, deleted, name = entry.split("\t", 2)
            if not name:  # renamed: both names follow
                next(told), next(told)
            is_binary = not added.isdigit()
            lines.append((0, 0, True) if is_binary else (int(added), int(deleted), False))
    return [File(before, after, *counts) for (before, after), counts in zip(names, lines, strict=True)]


def changed_lines(history: History, base: str, head: str, paths: list[str]) -> list[str]:
    told = readable(history.ask(*_COMPARE, "--patch", "--unified=0", base, head, "--", *paths))
    return [line[1:] for line in told.split("\n") if re.match(r"[+-](?!\+\+ |-- )", line)]


def excerpt(history: History, base: str, head: str, files: list[File]) -> str:
    """The change of some files with a few lines around it, up to `MOST_SHOWN` characters; what is cut is said."""
    shown, left, room = list[str](), list[File](), MOST_SHOWN
    for file in files:
        if file.lines > MOST_LINES or len(shown) == MOST_PARTS or room <= 0:
            left.append(file)
            continue
        paths = {path for path in (file.before, file.after) if path}
        part = readable(history.ask(*_COMPARE, *_SHORT, base, head, "--", *paths))
        cut = len(part) - min(room, MOST_OF_A_FILE)
        shown.append(part if cut <= 0 else f"{part[:-cut]}\n[{cut:,} more characters of this file are left out here]\n")
        room -= len(part) - max(cut, 0)
    names = [readable(os.fsencode(f"{file.path} ({file.lines:,} lines)")) for file in left[:MOST_PARTS]]
    return "".join([*shown, *([f"[changed too, and left out here: {', '.join(names)}]\n"] if names else [])])


def diff_between(history: History, base: str, head: str, files: list[File]) -> str:
    """The change with all lines of its files, so that these can be rebuilt; of binary and too large ones the names."""
    sizes = (
        _sizes(history, base, [file.before for file in files]),
        _sizes(history, head, [file.after for file in files]),
    )
    kept, left, total = list[File](), list[tuple[File, int]](), 0
    for file in files:
        size = sizes[0].get(file.before or "", 0) + sizes[1].get(file.after or "", 0)
        if size > LARGEST_FILE or total + size > LARGEST_DIFF or len(kept) >= MOST_FILES:
            left.append((file, size))
        else:
            kept.append(file)
            total += size
    paths = sorted({path for file in kept for path in (file.before, file.after) if path})
    whole = readable(history.ask(*_COMPARE, *_WHOLE, base, head, "--", *paths)) if paths else ""
    return whole + "".join(_named(file, size) for file, size in left)


def _named(file: File, size: int) -> str:
    old, new = f"a/{file.before or file.after}", f"b/{file.after or file.before}"
    old, new = (_quoted(readable(os.fsencode(name))) for name in (old, new))
    before, after = (old if file.before else "/dev/null"), (new if file.after else "/dev/null")
    head = f"diff --git {old} {new}\n--- {before}\n+++ {after}\n"
    if file.binary:
        return f"{head}Binary files {before} and {after} differ\n"
    counts = f"{file.added} lines added, {file.deleted} deleted"
    return f"{head}Files {old} and {new} differ, left out for their size: {size:,} bytes, {counts}\n"


def _quoted(name: str) -> str:
    plain = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return name if plain == name else f'"{plain}"'


def _sizes(history: History, commit: str, names: list[str | None]) -> dict[str, int]:
    found, paths = dict[str, int](), [name for name in names if name]
    for at in range(0, len(paths), _AT_ONCE):
        told = os.fsdecode(history.ask("ls-tree", "-l", "-z", "--full-tree", commit, "--", *paths[at : at + _AT_ONCE]))
        for entry in filter(None, told.split("\0")):
            about, path = entry.split("\t", 1)
            size = about.split()[3]
            found[path] = int(size) if size.isdigit() else 0
    return found


def readable(words: bytes) -> str:
    """Text that every store takes."""
    return words.decode("utf-8", "replace").replace("\0", "\ufffd")
