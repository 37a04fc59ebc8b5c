"""The cases of an experiment: read once, checked, and kept outside memory when there are many.

A run touches a case when its trials start, so a table holds where each case stands and two digests of it. The text
itself is copied: in memory while small, on disk when large, so that editing the file during a run changes nothing.
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
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from json.encoder import encode_basestring
from pathlib import Path
from typing import IO, Any

from abreast.code.reference import reference_in
from abreast.digest import SIZE, digest
from abreast.errors import BadInput, suggestion
from abreast.model import Case
from abreast.spec.read_cases import Place, as_case, records
from abreast.spec.values import is_plain, shown
from abreast.spec.written import place_of

IN_MEMORY = 2_000_000  # bytes of text; more goes to a file, so many at a time


@dataclass(frozen=True, slots=True)
class Selection:
    """Which cases to take: by id, by tags, the first so many."""

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
        self.without_expected: str | None = None  # the place of the first case that has none
        self.has_expected = False  # at least one of them
        self.hash = ""
        self._text = bytearray()
        self._file: IO[bytes] | None = None
        self._offsets = array("Q", [0])
        self._digests = bytearray()
        self._inputs = bytearray()
        self._objects: dict[int, Case] = {}  # those of Python that no text could keep
        self._last: tuple[int, Case] | None = None  # the case read last, if it cannot be changed

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Case:
        """A case of the caller's own: what is done to its lists and mappings, nobody else sees."""
        if index in self._objects:
            case = self._objects[index]
            return case if isinstance(case.input, str) else copy.deepcopy(case)
        if self._last is not None and self._last[0] == index:
            return self._last[1]
        line = self._line(self._offsets[index], self._offsets[index + 1]).decode("utf-8", "surrogatepass")
        case_id, value, expected, tags, group = json.loads(line)
        case = Case(case_id, value, expected, tags, group)
        if _is_immutable(case):
            self._last = (index, case)  # all trials of the case may share it
        return case

    def original(self, index: int, case: Case) -> Case:
        """The case as it was read; `case`, which was taken from here, if nothing in it can have been changed."""
        return case if _is_immutable(case) else self[index]

    def digest(self, index: int) -> str:
        """Of everything in the case."""
        return self._digests[index * SIZE : (index + 1) * SIZE].hex()

    def input_digest(self, index: int) -> str:
        """Of what a target sees."""
        return self._inputs[index * SIZE : (index + 1) * SIZE].hex()

    def input_digests(self) -> bytes:
        """All of them, one after the other."""
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
        """All cases are in."""
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
    """Read, check and select. Nothing is kept if one case is wrong."""
    table = CaseTable()
    try:
        _fill(table, cases, base, selection or Selection())
    except BaseException:
        table.close()
        raise
    table.seal()
    return table


def _fill(table: CaseTable, cases: Any, base: Path, selection: Selection) -> None:
    places = _Places()
    for place, item in records(cases, base):
        case = _identified(as_case(place, item), places)
        earlier = places.find(case.id)
        if earlier is not None:
            raise BadInput(
                f"{place}: the case id {shown(case.id)} is there twice (first at {earlier})",
                "give one of them another id",
            )
        places.add(case.id, place)
        if not selection.takes(case) or len(table) == selection.limit:
            continue
        table.has_expected = table.has_expected or case.expected is not None
        if case.expected is None and table.without_expected is None:
            table.without_expected = str(place)
        try:
            table.add(case)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadInput(f"{place}: the case {shown(case.id)} cannot be kept: {error}") from None
        if len(table) == selection.limit and not selection.ids:  # ids that come later are still to be found
            break
    if not len(places):
        name = reference_in(cases)
        told = f'"{name}" has none' if name is not None else "there are none"
        raise BadInput(
            f"{place_of(cases)}: {told}", 'add at least one case, such as {"input": "2 + 2", "expected": "4"}'
        )
    _check_selection(table, selection, places)


class _Places:
    """Where each id was first: a file and a number each, for there may be millions."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._sources: list[tuple[int, str]] = []  # from which case on, and what its place begins with
        self._lines = array("Q")

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, case_id: object) -> bool:
        return case_id in self._numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def add(self, case_id: str, place: Place) -> None:
        if not self._sources or self._sources[-1][1] != place.source:
            self._sources.append((len(self._lines), place.source))
        self._numbers[case_id] = len(self._lines)
        self._lines.append(place.number)

    def find(self, case_id: str) -> Place | None:
        index = self._numbers.get(case_id)
        if index is None:
            return None
        at = bisect_right(self._sources, index, key=lambda source: source[0]) - 1
        return Place(self._sources[at][1], self._lines[index])


def _identified(case: Case, taken: Container[str]) -> Case:
    """A case without an id is called after its content, so that another line above it changes nothing."""
    if case.id:
        return case
    base = digest(case.input)[:8]
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    return Case(name, case.input, case.expected, case.tags, case.group)


def _check_selection(table: CaseTable, selection: Selection, known: _Places) -> None:
    for wanted in selection.ids:
        if wanted not in known:
            some = list(itertools.islice(known, 1000))
            raise BadInput(
                f"--case {wanted}: no such case{suggestion(wanted, some) if len(some) <= 20 else _near(wanted, some)}"
            )
    if not len(table):
        filters = [f"--case {wanted}" for wanted in selection.ids]
        filters += [f"--tag {key}={value}" for key, value in selection.tags.items()]
        raise BadInput(f"no case is left after {' '.join(filters)}", "loosen the filters")


def _near(wanted: str, known: list[str]) -> str:
    hint = suggestion(wanted, known)
    return hint if "did you mean" in hint else f" (there are {known[0]}, {known[1]} and others)"


def expand_duplicates(table: CaseTable) -> Callable[[int], int]:
    """How many earlier cases have the same input: the occurrence that keeps their answers apart."""
    digests = table.input_digests()
    pieces = [digests[at : at + SIZE] for at in range(0, len(digests), SIZE)]
    if len(set(pieces)) == len(table):
        return lambda _index: 0
    seen: Counter[bytes] = Counter()
    earlier: dict[int, int] = {}
    for index, piece in enumerate(pieces):
        if seen[piece]:
            earlier[index] = seen[piece]
        seen[piece] += 1
    return lambda index: earlier.get(index, 0)
