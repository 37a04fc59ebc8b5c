"""The change between two commits: files, line counts and diffs."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from abreast.suites.coding_agents.history.commits import GitHistory

LARGEST_FILE = 500_000
LARGEST_DIFF = 2_000_000
MOST_FILES = 1000
_COMPARE = (
    *("diff-tree", "-r", "--find-renames", "-l1000", "--no-ext-diff", "--no-textconv", "--no-color"),
    *("--diff-algorithm=myers", "--indent-heuristic", "--submodule=short", "--ignore-submodules=none"),
)
_EXCERPT = ("--patch", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/")
_FULL = ("--patch", "--full-index", "--unified=1000000", "--src-prefix=a/", "--dst-prefix=b/")
MOST_SHOWN, MOST_OF_A_FILE = 60_000, 15_000  # characters of an excerpt, and of one file in it
MOST_PARTS, MOST_LINES = 200, 3_000  # files of an excerpt, and changed lines of a file in it
_BATCH = 200  # paths of one git command


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A changed file: its paths before and after, None where it did not exist. Binary files have no lines."""

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


def files_between(history: GitHistory, base: str, head: str) -> list[ChangedFile]:
    entries = iter(os.fsdecode(history.git(*_COMPARE, "--raw", "--numstat", "-z", base, head, "--")).split("\0"))
    names, lines = list[tuple[str | None, str | None]](), list[tuple[int, int, bool]]()
    for entry in entries:
        if entry.startswith(":"):
            kind, path = entry.rsplit(" ", 1)[1][:1], next(entries)
            renamed = next(entries) if kind in "RC" else path
            names.append((None if kind == "A" else path, None if kind == "D" else renamed))
        elif entry:
            added, deleted, name = entry.split("\t", 2)
            if not name:  # renamed: both names follow
                next(entries), next(entries)
            is_binary = not added.isdigit()
            lines.append((0, 0, True) if is_binary else (int(added), int(deleted), False))
    return [ChangedFile(before, after, *counts) for (before, after), counts in zip(names, lines, strict=True)]


def changed_lines(history: GitHistory, base: str, head: str, paths: list[str]) -> list[str]:
    diff = readable(history.git(*_COMPARE, "--patch", "--unified=0", base, head, "--", *paths))
    return [line[1:] for line in diff.split("\n") if re.match(r"[+-](?!\+\+ |-- )", line)]


def excerpt(history: GitHistory, base: str, head: str, files: list[ChangedFile]) -> str:
    """Return the diff of some files with a few lines of context, up to `MOST_SHOWN` characters; cuts are marked."""
    parts, omitted, room = list[str](), list[ChangedFile](), MOST_SHOWN
    for file in files:
        if file.lines > MOST_LINES or len(parts) == MOST_PARTS or room <= 0:
            omitted.append(file)
            continue
        paths = {path for path in (file.before, file.after) if path}
        part = readable(history.git(*_COMPARE, *_EXCERPT, base, head, "--", *paths))
        cut = len(part) - min(room, MOST_OF_A_FILE)
        parts.append(part if cut <= 0 else f"{part[:-cut]}\n[{cut:,} more characters of this file are left out here]\n")
        room -= len(part) - max(cut, 0)
    names = [readable(os.fsencode(f"{file.path} ({file.lines:,} lines)")) for file in omitted[:MOST_PARTS]]
    return "".join([*parts, *([f"[changed too, and left out here: {', '.join(names)}]\n"] if names else [])])


def diff_between(history: GitHistory, base: str, head: str, files: list[ChangedFile]) -> str:
    """Return the diff with all lines as context, so that files can be rebuilt; binary and large files are only
    named."""
    sizes = (
        _sizes(history, base, [file.before for file in files]),
        _sizes(history, head, [file.after for file in files]),
    )
    included, omitted, total = list[ChangedFile](), list[tuple[ChangedFile, int]](), 0
    for file in files:
        size = sizes[0].get(file.before or "", 0) + sizes[1].get(file.after or "", 0)
        if size > LARGEST_FILE or total + size > LARGEST_DIFF or len(included) >= MOST_FILES:
            omitted.append((file, size))
        else:
            included.append(file)
            total += size
    paths = sorted({path for file in included for path in (file.before, file.after) if path})
    diff = readable(history.git(*_COMPARE, *_FULL, base, head, "--", *paths)) if paths else ""
    return diff + "".join(_header(file, size) for file, size in omitted)


def _header(file: ChangedFile, size: int) -> str:
    old, new = f"a/{file.before or file.after}", f"b/{file.after or file.before}"
    old, new = (_quote(readable(os.fsencode(name))) for name in (old, new))
    before, after = (old if file.before else "/dev/null"), (new if file.after else "/dev/null")
    head = f"diff --git {old} {new}\n--- {before}\n+++ {after}\n"
    if file.binary:
        return f"{head}Binary files {before} and {after} differ\n"
    counts = f"{file.added} lines added, {file.deleted} deleted"
    return f"{head}Files {old} and {new} differ, left out for their size: {size:,} bytes, {counts}\n"


def _quote(name: str) -> str:
    plain = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return name if plain == name else f'"{plain}"'


def _sizes(history: GitHistory, commit: str, names: list[str | None]) -> dict[str, int]:
    sizes, paths = dict[str, int](), [name for name in names if name]
    for at in range(0, len(paths), _BATCH):
        tree = os.fsdecode(history.git("ls-tree", "-l", "-z", "--full-tree", commit, "--", *paths[at : at + _BATCH]))
        for entry in filter(None, tree.split("\0")):
            details, path = entry.split("\t", 1)
            size = details.split()[3]
            sizes[path] = int(size) if size.isdigit() else 0
    return sizes


def readable(content: bytes) -> str:
    """Text that every store accepts."""
    return content.decode("utf-8", "replace").replace("\0", "\ufffd")
