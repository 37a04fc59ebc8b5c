"""Values of users in typed columns: what a value is stored as, and how it comes back as what it was."""

from __future__ import annotations

import datetime
import json
import math
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

from abreast.store.rows import safe_text, to_json
from abreast.text import storable

_NUMBERS = ("boolean", "integer", "real")


class TypedCell(NamedTuple):
    """A value as a database takes it, and the type that makes of it what it was."""

    type: str
    value: Any


def cell(value: Any) -> TypedCell:
    """The cell of a value.

    >>> cell(True), cell({"a": 1}), cell(2**70).type
    (Cell(type='boolean', value=1), Cell(type='json', value='{"a":1}'), 'large')
    """
    kind = type(value)
    if kind is str:
        return TypedCell("text", storable(value))
    if kind is float:
        return TypedCell("real", None if math.isnan(value) else value)
    if kind is bool:
        return TypedCell("boolean", int(value))
    if value is None:
        return TypedCell("null", None)
    if kind is int:
        return TypedCell("integer", value) if -(2**63) <= value < 2**63 else TypedCell("large", _digits(value))
    try:
        return _other(value)
    except Exception:  # noqa: BLE001 - an object of a user's that raises when it is looked at
        return TypedCell("text", safe_text(value))


def _other(value: Any) -> TypedCell:
    if isinstance(value, Enum):
        return cell(value.value)
    if isinstance(value, bytes | bytearray | memoryview):
        return TypedCell("blob", bytes(value))
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        text = value.isoformat()
        return TypedCell("null", None) if text == "NaT" else TypedCell("datetime", text)
    if isinstance(value, Decimal):
        return TypedCell("real", float(value) if value.is_finite() else None)
    if isinstance(value, bool | int | float | str):  # of a subclass
        return cell(next(base(value) for base in (int, float, str) if isinstance(value, base)))
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a number of numpy
        return cell(value.item())
    if _is_structured(value):
        return TypedCell("json", to_json(value))
    if type(value).__name__ == "NAType":  # of pandas
        return TypedCell("null", None)
    return TypedCell("text", storable(getattr(value, "__qualname__", None) or safe_text(value)))


def is_object(value: Any) -> bool:
    """Whether a column could keep only the text of a value: an instance of a class of a user or a library.

    >>> is_object(object()), is_object({"a": 1}), is_object(len)
    (False, False, False)
    """
    kind = type(value)
    try:
        return (
            kind is not object
            and not any(_is_standard(base.__module__) for base in kind.__mro__[:-1])
            and not hasattr(value, "__qualname__")
            and getattr(value, "shape", None) != ()
            and not _is_structured(value)
            and kind.__name__ != "NAType"
        )
    except Exception:  # noqa: BLE001 - an object of a user's that raises when it is looked at
        return False


def _is_standard(module: str) -> bool:
    """Whether a base class is of Python's own and has values of its own kind: dates, paths, errors, threads."""
    return module.partition(".")[0] in sys.stdlib_module_names and module not in ("abc", "typing", "collections.abc")


def _is_structured(value: Any) -> bool:
    return (
        isinstance(value, Mapping | list | tuple | set | frozenset)
        or hasattr(value, "tolist")
        or hasattr(value, "model_dump")
        or (hasattr(value, "__dataclass_fields__") and not isinstance(value, type))
    )


def _digits(number: int) -> str:
    try:
        return str(number)
    except ValueError:  # too many for Python to write in one go
        return hex(number)


def widest(one: str, other: str) -> str:
    """The type of a column that holds values of both.

    >>> widest("integer", "real"), widest("json", "text"), widest("null", "blob"), widest("boolean", "integer")
    ('real', 'text', 'blob', 'integer')
    """
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    if one in _NUMBERS and other in _NUMBERS:
        return max(one, other, key=_NUMBERS.index)
    return "large" if {one, other} == {"integer", "large"} else "text"


def values(type: str, cells: Sequence[Any]) -> Sequence[Any]:
    """The cells of a column as the values they were."""
    match type:
        case "boolean":
            return [None if value is None else bool(value) for value in cells]
        case "json":
            return [_parsed(value) for value in cells]
        case "datetime":
            return [_moment(value) for value in cells]
        case "large":
            return [None if value is None else int(str(value), 0) for value in cells]
    return cells


def _parsed(text: Any) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (TypeError, ValueError):  # changed by somebody's SQL
        return text


def _moment(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    for read in (datetime.date.fromisoformat, datetime.datetime.fromisoformat, datetime.time.fromisoformat):
        try:
            return read(text)
        except ValueError:
            continue
    return text
