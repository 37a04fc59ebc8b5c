"""Definitions and uses in files, parsed when needed and kept while the files stay as they are."""

from __future__ import annotations

import marshal
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from abreast.languages import Definition, Reference, language_of, outline
from abreast.suites.code_search.server.files import Files, Stamp
from abreast.suites.code_search.server.workers import Work, run_workers

PATIENCE_S = 10.0
MOST_WORKERS = 8
MOST_KEPT = 40_000_000  # bytes of records; about seven times that in memory
LARGEST_PARSED = 1_000_000  # bytes of a file; what is larger was made by a program
_WORTH_A_WORKER = 400_000  # bytes of source: less is parsed sooner than a process starts
WEIGHT = {"call": 0, "import": 1, "name": 2}


@dataclass(frozen=True, slots=True)
class Parsed:
    language: str
    definitions: list[Definition]
    uses: dict[str, list[tuple[int, Any, str | None]]]  # line, kind and enclosing definition
    broken: bool

    def used(self, name: str) -> list[Reference]:
        """The uses of a name, one for each line: a call wins over an import, and that over its bare name."""
        lines: dict[int, Reference] = {}
        for line, kind, inside in self.uses.get(name, ()):
            if line not in lines or WEIGHT[kind] < WEIGHT[lines[line].kind]:
                lines[line] = Reference(name, line, kind, inside)
        return list(lines.values())


@dataclass(frozen=True, slots=True)
class IndexResult:
    """Files by their paths, and how many could not be read: in time, or at all."""

    files: dict[str, Parsed]
    missing: int


class Index:
    def __init__(self, files: Files, patience_s: float) -> None:
        self._files, self._patience_s = files, patience_s
        self._kept: dict[str, tuple[Stamp, int, Parsed]] = {}  # the oldest first
        self._size = 0

    def read(self, paths: Sequence[str], could: Callable[[str, bytes], bool]) -> IndexResult:
        """Those of the files that have a language and are kept, or that `could` finds worth parsing."""
        current, missing = {}, []
        for path in paths:
            if language_of(path) is None:
                continue
            kept = self._kept.get(path)
            if kept is not None and kept[0] == self._files.stamp(path):
                current[path] = kept[2]
            elif (content := self._files.read(path)) and len(content) <= LARGEST_PARSED and could(path, content):
                missing.append((len(content), path))
        for record in run_workers(self._works(missing), self._patience_s):
            path, stamp, language, definitions, uses, broken = marshal.loads(record)
            current[path] = Parsed(language, [Definition(*fields) for fields in definitions], uses, broken)
            self._keep(path, stamp, len(record), current[path])
        unread = sum(path not in current for _, path in missing)
        return IndexResult({path: current[path] for path in paths if path in current}, unread)

    def _works(self, missing: list[tuple[int, str]]) -> list[Work]:
        """A share for each processor that there is work for; small files first: more are read in the same time."""
        if not missing:
            return []
        outline("empty.py", b"")  # loads the parser once, here, and not in each copy of this process
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        count = max(1, min(processors, MOST_WORKERS, sum(size for size, _ in missing) // _WORTH_A_WORKER))
        ordered = [path for _, path in sorted(missing)]
        return [partial(_parse, self._files, ordered[start::count]) for start in range(count)]

    def _keep(self, path: str, stamp: Stamp, size: int, parsed: Parsed) -> None:
        for old in [path, *self._kept]:
            if old == path or self._size + size > MOST_KEPT:
                self._size -= self._kept.pop(old, (None, 0, None))[1]
            else:
                break
        self._kept[path] = stamp, size, parsed
        self._size += size


def _parse(files: Files, paths: list[str]) -> Iterator[bytes]:
    """A record for each file that can be parsed."""
    for path in paths:
        stamp, content = files.stamp(path), files.read(path)
        parsed = outline(path, content) if content and stamp else None
        if parsed is None:
            continue
        uses: dict[str, list[object]] = {}
        for use in parsed.references:
            uses.setdefault(use.name, []).append((use.line, use.kind, use.inside))
        definitions = [(each.name, each.kind, each.line, each.end_line, each.container) for each in parsed.definitions]
        yield marshal.dumps((path, stamp, parsed.language, definitions, uses, parsed.broken))
