"""The cases of an experiment: read once, checked, and kept outside memory when there are many.

A run touches a case when its trials start, so a table holds where each case stands and two digests of it. The text
itself lies in a spool: in memory while small, on disk when large, so that editing the file during a run changes
nothing.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abreast.digest import SIZE, digest
from abreast.errors import BadInput, suggestion
from abreast.model import Case
from abreast.spec.read_cases import as_case, records

IN_MEMORY = 32_000_000  # bytes of spool kept in memory


@dataclass(frozen=True, slots=True)
class Selection:
    """Which cases to take: by id, by tags, the first so many."""

    ids: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None

    def takes(self, case: Case) -> bool:
        if self.ids and case.id not in self.ids:
            return False
        return all(case.tags.get(key) == value for key, value in self.tags.items())


class CaseTable:
    """The selected cases, by index in file order."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.groups: list[str | None] = []
        self.tag_keys: set[str] = set()
        self.without_expected: str | None = None  # the place of the first case that has none
        self.hash = ""
        self._spool = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - lives as long as the table
        self._offsets = array("Q", [0])
        self._digests = bytearray()
        self._inputs = bytearray()
        self._objects: list[Case] | None = None
        self._last: tuple[int, Case] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Case:
        if self._objects is not None:
            return self._objects[index]
        if self._last is not None and self._last[0] == index:
            return self._last[1]
        self._spool.seek(self._offsets[index])
        line = self._spool.read(self._offsets[index + 1] - self._offsets[index])
        case_id, value, expected, tags, group = json.loads(line)
        case = Case(case_id, value, expected, tags, group)
        self._last = (index, case)
        return case

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
        self._spool.close()

    def add(self, case: Case, keep_object: bool) -> None:
        line = json.dumps(
            [case.id, case.input, case.expected, case.tags, case.group],
            ensure_ascii=False,
            default=repr if keep_object else None,
            separators=(",", ":"),
        ).encode("utf-8", "surrogatepass")
        self.ids.append(case.id)
        self.groups.append(case.group)
        self.tag_keys.update(case.tags)
        self._digests += hashlib.blake2b(line, digest_size=SIZE).digest()
        self._inputs += bytes.fromhex(digest(case.input))
        if keep_object:
            self._objects = self._objects or []
            self._objects.append(case)
        else:
            self._spool.write(line)
            self._offsets.append(self._offsets[-1] + len(line))

    def seal(self) -> None:
        whole = hashlib.blake2b(self._digests, digest_size=SIZE)
        self.hash = whole.hexdigest()


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
    in_python = not isinstance(cases, str) and not _is_plain(cases)
    places: dict[str, str] = {}
    read = 0
    for place, item in records(cases, base):
        read += 1
        case = _identified(as_case(place, item), places)
        if case.id in places:
            raise BadInput(
                f'{place}: the case id "{case.id}" is there twice (first at {places[case.id]})', "give it another id"
            )
        places[case.id] = place
        if not selection.takes(case):
            continue
        if case.expected is None and table.without_expected is None:
            table.without_expected = place
        try:
            table.add(case, keep_object=in_python)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadInput(f'{place}: the case "{case.id}" cannot be kept: {error}') from None
        if selection.limit is not None and len(table) >= selection.limit:
            break
    if not read:
        raise BadInput("cases: there are none", "add at least one case with an input")
    _check_selection(table, selection, places)


def _is_plain(cases: Any) -> bool:
    """Whether the cases can be written as JSON without loss: those of files and of specs can."""
    return isinstance(cases, list | tuple) and not any(isinstance(item, Case) for item in cases)


def _identified(case: Case, taken: Mapping[str, str]) -> Case:
    """A case without an id is called after its content, so that another line above it changes nothing."""
    if case.id:
        return case
    base = digest(case.input)[:8]
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    return Case(name, case.input, case.expected, case.tags, case.group)


def _check_selection(table: CaseTable, selection: Selection, known: Mapping[str, str]) -> None:
    for wanted in selection.ids:
        if wanted not in known:
            raise BadInput(f"--case {wanted}: no such case{suggestion(wanted, list(known)[:1000])}")
    if not len(table):
        wanted = ", ".join(f"{key}={value}" for key, value in selection.tags.items())
        raise BadInput(f"no case is left after the filters ({wanted or 'limit 0'})", "loosen --tag, --case or --limit")


def expand_duplicates(table: CaseTable) -> Callable[[int], int]:
    """How many earlier cases have the same input: the occurrence that keeps their answers apart."""
    seen: dict[bytes, int] = {}
    extra: dict[int, int] = {}
    everything = table.input_digests()
    if len(set(_pieces(everything))) == len(table):
        return lambda _index: 0
    for index, piece in enumerate(_pieces(everything)):
        count = seen.get(piece, 0)
        if count:
            extra[index] = count
        seen[piece] = count + 1
    return lambda index: extra.get(index, 0)


def _pieces(everything: bytes) -> Iterable[bytes]:
    return (everything[at : at + SIZE] for at in range(0, len(everything), SIZE))
