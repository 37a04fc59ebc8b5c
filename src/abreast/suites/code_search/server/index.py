"""Parse the definitions and uses in files on demand, and cache them until the files change."""

from __future__ import annotations

import marshal
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from abreast.languages import SymbolDefinition, SymbolReference, language_of, outline
from abreast.suites.code_search.server.files import Files, Stamp
from abreast.suites.code_search.server.workers import Work, run_workers

PATIENCE_S = 10.0
MOST_WORKERS = 8
LARGEST_CACHE = 40_000_000  # bytes of records; about seven times that in memory
LARGEST_PARSED = 1_000_000  # bytes; larger files are generated
_WORTH_A_WORKER = 400_000  # bytes of source; less is parsed faster than a process starts
WEIGHT = {"call": 0, "import": 1, "name": 2}


@dataclass(frozen=True, slots=True)
class Parsed:
    language: str
    definitions: list[SymbolDefinition]
    uses: dict[str, list[tuple[int, Any, str | None]]]  # line, kind and enclosing definition
    broken: bool

    def uses_of(self, name: str) -> list[SymbolReference]:
        """Return one use of a name per line: a call rather than an import, an import rather than a bare name."""
        lines: dict[int, SymbolReference] = {}
        for line, kind, inside in self.uses.get(name, ()):
            if line not in lines or WEIGHT[kind] < WEIGHT[lines[line].kind]:
                lines[line] = SymbolReference(name, line, kind, inside)
        return list(lines.values())


@dataclass(frozen=True, slots=True)
class IndexResult:
    """Parsed files by path, and how many could not be read (in time)."""

    files: dict[str, Parsed]
    missing: int


class Index:
    def __init__(self, files: Files, patience_s: float) -> None:
        self._files, self._patience_s = files, patience_s
        self._cache: dict[str, tuple[Stamp, int, Parsed]] = {}  # oldest first
        self._size = 0

    def read(self, paths: Sequence[str], could: Callable[[str, bytes], bool]) -> IndexResult:
        """Return the files that are cached or pass the test `could`."""
        current, missing = {}, []
        for path in paths:
            if language_of(path) is None:
                continue
            cached = self._cache.get(path)
            if cached is not None and cached[0] == self._files.stamp(path):
                current[path] = cached[2]
            elif (content := self._files.read(path)) and len(content) <= LARGEST_PARSED and could(path, content):
                missing.append((len(content), path))
        for record in run_workers(self._works(missing), self._patience_s):
            path, stamp, language, definitions, uses, broken = marshal.loads(record)
            current[path] = Parsed(language, [SymbolDefinition(*fields) for fields in definitions], uses, broken)
            self._keep(path, stamp, len(record), current[path])
        unread = sum(path not in current for _, path in missing)
        return IndexResult({path: current[path] for path in paths if path in current}, unread)

    def _works(self, missing: list[tuple[int, str]]) -> list[Work]:
        """Split the files among processors, small files first, so that more are read in time."""
        if not missing:
            return []
        outline("empty.py", b"")  # load the parser before forking
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        count = max(1, min(processors, MOST_WORKERS, sum(size for size, _ in missing) // _WORTH_A_WORKER))
        ordered = [path for _, path in sorted(missing)]
        return [partial(_parse, self._files, ordered[start::count]) for start in range(count)]

    def _keep(self, path: str, stamp: Stamp, size: int, parsed: Parsed) -> None:
        for old in [path, *self._cache]:
            if old == path or self._size + size > LARGEST_CACHE:
                self._size -= self._cache.pop(old, (None, 0, None))[1]
            else:
                break
        self._cache[path] = stamp, size, parsed
        self._size += size


def _parse(files: Files, paths: list[str]) -> Iterator[bytes]:
    """Yield a record for each file that can be parsed."""
    for path in paths:
        stamp, content = files.stamp(path), files.read(path)
        parsed = outline(path, content) if content and stamp else None
        if parsed is None:
            continue
        uses: dict[str, list[object]] = {}
        for use in parsed.references:
            uses.setdefault(use.name, []).append((use.line, use.kind, use.inside))
        definitions = [(item.name, item.kind, item.line, item.end_line, item.container) for item in parsed.definitions]
        yield marshal.dumps((path, stamp, parsed.language, definitions, uses, parsed.broken))
