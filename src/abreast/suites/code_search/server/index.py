"""What the files define and use, read when it is asked for and kept while they stay as they are."""

from __future__ import annotations

import marshal
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from abreast.languages import language_of, outline
from abreast.suites.code_search.server.files import Files, Stamp
from abreast.suites.code_search.server.workers import Work, records

PATIENCE_S = 10.0
MOST_WORKERS = 8
MOST_KEPT = 40_000_000  # bytes of what was read, as it came; about seven times that in memory
LARGEST_PARSED = 1_000_000  # bytes of a file; what is larger was made by a program
_WORTH_A_WORKER = 400_000  # bytes of source: less is parsed sooner than a process starts


class Defined(NamedTuple):
    """A definition; lines count from 1."""

    name: str
    kind: str
    line: int
    end_line: int
    qualified: str


class Used(NamedTuple):
    """A use of a name: a call, an import, or its name alone; `inside` is the definition around it."""

    line: int
    kind: str
    inside: str | None


@dataclass(frozen=True, slots=True)
class Parsed:
    language: str
    definitions: list[Defined]
    uses: dict[str, list[tuple[int, str, str | None]]]
    broken: bool

    def used(self, name: str) -> list[Used]:
        """Where a name is used, a line once: what is done there first of all counts."""
        lines: dict[int, Used] = {}
        for use in map(Used._make, self.uses.get(name, ())):
            before = lines.get(use.line)
            if before is None or WEIGHT[use.kind] < WEIGHT[before.kind]:
                lines[use.line] = use
        return list(lines.values())


WEIGHT = {"call": 0, "import": 1, "name": 2}


@dataclass(frozen=True, slots=True)
class Reading:
    """Files by their paths, and how many could not be read: in time, or at all."""

    files: dict[str, Parsed]
    missing: int


class Index:
    def __init__(self, files: Files, patience_s: float = PATIENCE_S) -> None:
        self._files, self._patience_s = files, patience_s
        self._kept: dict[str, tuple[Stamp, int, Parsed]] = {}  # the oldest first
        self._size = 0

    def read(self, paths: Sequence[str], could: Callable[[str, bytes], bool]) -> Reading:
        """Those of the files that have a language, as far as they are known or `could` says that they are worth it."""
        current, missing = {}, []
        for path in paths:
            if language_of(path) is None:
                continue
            kept = self._kept.get(path)
            if kept is not None and kept[0] == self._files.stamp(path):
                current[path] = kept[2]
            elif (content := self._files.read(path)) and len(content) <= LARGEST_PARSED and could(path, content):
                missing.append((len(content), path))
        current |= self._parsed(missing)
        return Reading(
            {path: current[path] for path in paths if path in current}, sum(p not in current for _, p in missing)
        )

    def _parsed(self, wanted: list[tuple[int, str]]) -> dict[str, Parsed]:
        found = {}
        for record in records(self._works(wanted), self._patience_s):
            path, stamp, language, definitions, uses, broken = marshal.loads(record)
            parsed = Parsed(language, [Defined(*one) for one in definitions], uses, broken)
            found[path] = parsed
            self._keep(path, stamp, len(record), parsed)
        return found

    def _works(self, wanted: list[tuple[int, str]]) -> list[Work]:
        """A share for each processor that there is work for; small files first: more are read in the same time."""
        if not wanted:
            return []
        load_grammars()
        size = sum(size for size, _ in wanted)
        count = max(1, min(_processors(), MOST_WORKERS, size // _WORTH_A_WORKER))
        ordered = [path for _, path in sorted(wanted)]
        return [_reader(self._files, ordered[place::count]) for place in range(count)]

    def _keep(self, path: str, stamp: Stamp, size: int, parsed: Parsed) -> None:
        for old in [path, *self._kept]:
            if old == path or self._size + size > MOST_KEPT:
                self._size -= self._kept.pop(old, (None, 0, None))[1]
            else:
                break
        self._kept[path] = stamp, size, parsed
        self._size += size


def _reader(files: Files, paths: list[str]) -> Work:
    def work() -> Iterator[bytes]:
        for path in paths:
            stamp, content = files.stamp(path), files.read(path)
            found = outline(path, content) if content and stamp else None
            if found is None:
                continue
            uses: dict[str, list[object]] = {}
            for use in found.references:
                uses.setdefault(use.name, []).append((use.line, use.kind, use.inside))
            definitions = [(one.name, one.kind, one.line, one.end_line, one.qualified) for one in found.definitions]
            yield marshal.dumps((path, stamp, found.language, definitions, uses, found.broken))

    return work


def load_grammars() -> None:
    """Once, here, and not in each copy of this process."""
    outline("empty.py", b"")


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
