"""The cases of an experiment: read once, checked, and kept on disk if there are many.

A run reads a case when its trials start, so a table holds the offset and two digests of each. The text is copied, to
memory while small and to disk when large, so that editing the case file during a run has no effect.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import tempfile
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field
from json.encoder import encode_basestring
from pathlib import Path
from typing import IO, Any

from abreast.code.reference import reference_in
from abreast.digest import SIZE, digest
from abreast.errors import BadInput, did_you_mean, suggestion
from abreast.model import Case
from abreast.spec.read_cases import CaseLocation, as_case, location_of, records
from abreast.spec.values import is_plain, quote

FEW_IDS = 1_000  # ids that are searched for a similar one
IN_MEMORY = 2_000_000  # bytes of text before they are written to a file


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of cases: by id, by tags, the first `limit`."""

    ids: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None

    def takes(self, case: Case) -> bool:
        if self.ids and case.id not in self.ids:
            return False
        return not self.tags or all(case.tags.get(key) == value for key, value in self.tags.items())


class CaseTable:
    """The selected cases, by index in file order."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.groups: list[str | None] = []
        self.tag_keys: set[str] = set()
        self.without_expected: str | None = None  # location of the first case without it
        self.has_expected = False  # true if any case has it
        self.hash = ""
        self._text = bytearray()
        self._file: IO[bytes] | None = None
        self._offsets = array("Q", [0])
        self._digests = bytearray()
        self._inputs = bytearray()
        self._objects: dict[int, Case] = {}  # cases from Python that are not plain data
        self._last: tuple[int, Case] | None = None  # the case read last, if it is immutable

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Case:
        """A case that the caller may change without affecting others."""
        if index in self._objects:
            case = self._objects[index]
            return case if isinstance(case.input, str) else copy.deepcopy(case)
        if self._last is not None and self._last[0] == index:
            return self._last[1]
        line = self._line(self._offsets[index], self._offsets[index + 1]).decode("utf-8", "surrogatepass")
        case_id, value, expected, tags, group = json.loads(line)
        case = Case(case_id, value, expected, tags, group)
        if _is_immutable(case):
            self._last = (index, case)  # kept, because all trials of the case may share it
        return case

    def original(self, index: int, case: Case) -> Case:
        """Return the case as it was read: `case` itself if it is immutable."""
        return case if _is_immutable(case) else self[index]

    def digest(self, index: int) -> str:
        """Digest of the whole case."""
        return self._digests[index * SIZE : (index + 1) * SIZE].hex()

    def input_digest(self, index: int) -> str:
        """Digest of the input."""
        return self._inputs[index * SIZE : (index + 1) * SIZE].hex()

    def input_digests(self) -> bytes:
        """The concatenated digests of all inputs."""
        return bytes(self._inputs)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, case: Case) -> None:
        plain = is_plain(case.input, case.expected)
        fallback = None if plain else repr
        line = (
            f"[{encode_basestring(case.id)},{_encoded(case.input, fallback)},{_encoded(case.expected, fallback)},"
            f"{_encoded(case.tags, None) if case.tags else '{}'},{_encoded(case.group, None)}]"
        ).encode("utf-8", "surrogatepass")
        self._inputs += bytes.fromhex(digest(case.input))
        self._digests += hashlib.blake2b(line, digest_size=SIZE).digest()
        if plain:
            self._text += line
            if len(self._text) > IN_MEMORY:
                self._write_out()
        else:
            self._objects[len(self.ids)] = case
        self._offsets.append(self._offsets[-1] + (len(line) if plain else 0))
        self.ids.append(case.id)
        self.groups.append(case.group)
        self.tag_keys.update(case.tags)

    def seal(self) -> None:
        """Finish the table after the last case."""
        if self._file is not None:
            self._write_out()
        self.hash = hashlib.blake2b(self._digests, digest_size=SIZE).hexdigest()

    def _write_out(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the table
        self._file.write(self._text)
        self._text.clear()

    def _line(self, start: int, end: int) -> bytes:
        if self._file is None:
            return bytes(self._text[start:end])
        self._file.seek(start)
        return self._file.read(end - start)


def _is_immutable(case: Case) -> bool:
    return type(case.input) is str and not case.tags and not isinstance(case.expected, list | dict)


def _encoded(value: Any, fallback: Callable[[Any], str] | None) -> str:
    if type(value) is str:
        return encode_basestring(value)
    if value is None:
        return "null"
    return json.dumps(value, ensure_ascii=False, default=fallback, skipkeys=fallback is not None, separators=(",", ":"))


def load_cases(cases: Any, base: Path, selection: Selection | None = None) -> CaseTable:
    """Read, check and select cases."""
    table = CaseTable()
    try:
        _fill(table, cases, base, selection or Selection())
    except BaseException:
        table.close()
        raise
    table.seal()
    return table


def _fill(table: CaseTable, cases: Any, base: Path, selection: Selection) -> None:
    locations = _CaseLocations()
    for location, item in records(cases, base):
        case = _with_id(as_case(location, item), locations)
        first = locations.find(case.id)
        if first is not None:
            raise BadInput(f"{location}: duplicate case id {quote(case.id)} (first at {first})", "change one of them")
        locations.add(case.id, location)
        if not selection.takes(case) or len(table) == selection.limit:
            continue
        table.has_expected = table.has_expected or case.expected is not None
        if case.expected is None and table.without_expected is None:
            table.without_expected = str(location)
        try:
            table.add(case)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadInput(f"{location}: cannot store the case {quote(case.id)}: {error}") from None
        if len(table) == selection.limit and not selection.ids:  # with ids, check that all of them exist
            break
    if not len(locations):
        name = reference_in(cases)
        problem = f'"{name}" has no cases' if name is not None else "no cases"
        example = 'add at least one case, such as {"input": "2 + 2", "expected": "4"}'
        raise BadInput(f"{location_of(cases)}: {problem}", example)
    _check_selection(table, selection, locations)


class _CaseLocations:
    """The location of each id, stored compactly: there may be millions."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._sources: list[tuple[int, str]] = []  # index of the first case, and its source
        self._lines = array("Q")

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, case_id: object) -> bool:
        return case_id in self._numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def add(self, case_id: str, location: CaseLocation) -> None:
        if not self._sources or self._sources[-1][1] != location.source:
            self._sources.append((len(self._lines), location.source))
        self._numbers[case_id] = len(self._lines)
        self._lines.append(location.number)

    def find(self, case_id: str) -> CaseLocation | None:
        index = self._numbers.get(case_id)
        if index is None:
            return None
        at = bisect_right(self._sources, index, key=lambda source: source[0]) - 1
        return CaseLocation(self._sources[at][1], self._lines[index])


def _with_id(case: Case, existing: Container[str]) -> Case:
    """Return the case with an id. A missing id is derived from the content, not from the line number."""
    if case.id:
        return case
    base = digest(case.input)[:8]
    name, number = base, 1
    while name in existing:
        number += 1
        name = f"{base}-{number}"
    return Case(name, case.input, case.expected, case.tags, case.group)


def _check_selection(table: CaseTable, selection: Selection, ids: Collection[str]) -> None:
    for case_id in selection.ids:
        if case_id not in ids:
            hint = suggestion if len(ids) <= FEW_IDS else did_you_mean
            raise BadInput(f"--case {case_id}: no such case{hint(case_id, itertools.islice(ids, FEW_IDS))}")
    if not len(table):
        filters = [f"--case {case_id}" for case_id in selection.ids]
        filters += [f"--tag {key}={value}" for key, value in selection.tags.items()]
        raise BadInput(f"no case matches {' '.join(filters)}", "relax the filters")


def count_duplicates(table: CaseTable) -> Callable[[int], int]:
    """Return a function that maps a case index to the number of earlier cases with the same input."""
    digests = table.input_digests()
    pieces = [digests[at : at + SIZE] for at in range(0, len(digests), SIZE)]
    if len(set(pieces)) == len(table):
        return lambda _index: 0
    counts: Counter[bytes] = Counter()
    duplicates: dict[int, int] = {}
    for index, piece in enumerate(pieces):
        if counts[piece]:
            duplicates[index] = counts[piece]
        counts[piece] += 1
    return lambda index: duplicates.get(index, 0)
