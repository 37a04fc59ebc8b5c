"""Cases from the columns of any table: `cases: {file: questions.csv, input: question, expected: answer:number}`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from abreast.errors import BadInput, suggestion
from abreast.spec.values import kind_of, quote

FIELDS_OF_COLUMNS = ("id", "input", "expected", "tags", "group")


def _boolean(text: str) -> bool:
    return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[text.strip().lower()]


def _number(text: str) -> int | float:
    value = float(text)
    if value - value != 0:
        raise ValueError("not finite")
    return int(value) if value.is_integer() and "." not in text and "e" not in text.lower() else value


TYPES: Mapping[str, Callable[[str], Any]] = {"text": str, "number": _number, "boolean": _boolean, "json": json.loads}


@dataclass(frozen=True, slots=True)
class CaseColumn:
    """A column and the type its text is converted to: `answer`, or `answer:number`."""

    name: str
    type: str | None = None

    @classmethod
    def parse(cls, text: str) -> CaseColumn:
        """
        >>> CaseColumn.parse("answer:number"), CaseColumn.parse("a:b")
        (CaseColumn(name='answer', type='number'), CaseColumn(name='a:b', type=None))
        """
        name, _, kind = text.rpartition(":")
        return cls(name, kind) if name and kind in TYPES else cls(text)

    def value(self, row: Mapping[str, Any], location: object) -> Any:
        value = row.get(self.name)
        if self.type is None or not isinstance(value, str) or (not value and self.type != "text"):
            return value
        try:
            return TYPES[self.type](value)
        except (ValueError, KeyError):
            raise BadInput(
                f"{location}: column {quote(self.name)}: {quote(value)} is not of type {self.type}",
                f"correct it, or use another type: {', '.join(TYPES)}",
            ) from None


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """The columns of a table for each field of a case. A field with several columns is a mapping."""

    file: str
    single: Mapping[str, CaseColumn] = field(default_factory=dict)
    several: Mapping[str, Mapping[str, CaseColumn]] = field(default_factory=dict)

    @classmethod
    def parse(cls, settings: Mapping[str, Any], where: str) -> ColumnMapping:
        """Parse `{file: questions.csv, input: question, tags: [kind, level]}`."""
        file = settings.get("file")
        if not isinstance(file, str):
            raise BadInput(f"{where}: file must be the name of a file, got {quote(file)}")
        single: dict[str, CaseColumn] = {}
        several: dict[str, dict[str, CaseColumn]] = {}
        for key, columns in settings.items():
            if key == "file":
                continue
            if key not in FIELDS_OF_COLUMNS:
                raise BadInput(f"{where}: unknown key {quote(key)}{suggestion(str(key), ('file', *FIELDS_OF_COLUMNS))}")
            is_text = isinstance(columns, str)
            if is_text and key != "tags":
                single[key] = CaseColumn.parse(columns)
                continue
            named = {columns: columns} if is_text else columns
            if isinstance(named, list | tuple):
                named = {CaseColumn.parse(str(item)).name: item for item in named}
            is_mapping = isinstance(named, Mapping) and key in ("input", "expected", "tags")
            if not is_mapping or not all(isinstance(item, str) for item in named.values()):
                raise BadInput(f"{where}: {key} must be a column, got {kind_of(columns)}", f"use {key}: COLUMN")
            several[key] = {CaseColumn.parse(str(name)).name: CaseColumn.parse(item) for name, item in named.items()}
        if "input" not in single and "input" not in several:
            raise BadInput(f"{where}: no column for input", "add input: COLUMN")
        return cls(file, single, several)

    def check_names(self, row: Mapping[str, Any], where: str) -> None:
        """Refuse columns that the first row of a file does not have."""
        for columns in (self.single, *self.several.values()):
            for column in columns.values():
                if column.name not in row:
                    raise BadInput(f"{where}: no column {quote(column.name)}{suggestion(column.name, map(str, row))}")

    def case(self, row: Mapping[str, Any], location: object) -> dict[str, Any]:
        """Convert a row to a case. Empty cells are skipped, except for the input."""
        case = {name: column.value(row, location) for name, column in self.single.items()}
        for name, columns in self.several.items():
            values = {key: column.value(row, location) for key, column in columns.items()}
            case[name] = {key: value for key, value in values.items() if name == "input" or value not in ("", None)}
        return {name: value for name, value in case.items() if name == "input" or value not in ("", None, {})}


def parse_assignments(words: list[str]) -> dict[str, Any]:
    """Parse `input=question` and `tags=kind,level`, as in `--map`.

    >>> parse_assignments(["input=question", "tags=kind,level"])
    {'input': 'question', 'tags': ['kind', 'level']}
    """
    columns: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not value:
            raise BadInput(f"--map {word}: not FIELD=COLUMN", "use --map input=question")
        columns[name] = value.split(",") if "," in value else value
    return columns


def with_columns(cases: Any, columns: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return `cases:`, which must name one file, with these columns."""
    settings = {"file": str(cases)} if isinstance(cases, str) and not cases.startswith("python:") else cases
    if not isinstance(settings, Mapping) or "file" not in settings:
        raise BadInput(f"{where}: columns can be mapped only for a file", "use cases: FILE, or cases: {file: FILE}")
    return {**settings, **columns}
