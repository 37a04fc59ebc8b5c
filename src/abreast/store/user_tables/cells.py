"""Conversion of users' values to typed cells of tracked tables and back."""

from __future__ import annotations

import datetime
import json
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

from abreast.store.rows import safe_text, to_json
from abreast.text import storable

_NUMBERS = ("boolean", "integer", "real")


class TypedCell(NamedTuple):
    """A value as stored, and the type to convert it back."""

    type: str
    value: Any

    def to_python(self) -> Any:
        return values(self.type, [self.value])[0]


def cell(value: Any) -> TypedCell:
    """Convert a value to a cell.

    >>> cell(True), cell({"a": 1}), cell(2**70).type
    (TypedCell(type='boolean', value=1), TypedCell(type='json', value='{"a":1}'), 'large')
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
    except Exception:  # noqa: BLE001 - a user's object may raise anything
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
    if isinstance(value, bool | int | float | str):  # an instance of a subclass
        return cell(next(base(value) for base in (int, float, str) if isinstance(value, base)))
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a numpy scalar
        return cell(value.item())
    if _is_structured(value):
        return TypedCell("json", to_json(value))
    if type(value).__name__ == "NAType":  # pandas
        return TypedCell("null", None)
    return TypedCell("text", storable(getattr(value, "__qualname__", None) or safe_text(value)))


def is_object(value: Any) -> bool:
    """Whether a column could store only the text of a value: an instance of a class of the user or a library.

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
    except Exception:  # noqa: BLE001 - a user's object may raise anything
        return False


def _is_standard(module: str) -> bool:
    """Whether a base class belongs to the standard library: dates, paths, errors, threads; but not an abstract base."""
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
    except ValueError:  # beyond the limit of digits for int → str
        return hex(number)


def widest(first: str, second: str) -> str:
    """Return the column type for values of both types.

    >>> widest("integer", "real"), widest("json", "text"), widest("null", "blob"), widest("boolean", "integer")
    ('real', 'text', 'blob', 'integer')
    """
    if first == second or second == "null":
        return first
    if first == "null":
        return second
    if first in _NUMBERS and second in _NUMBERS:
        return max(first, second, key=_NUMBERS.index)
    return "large" if {first, second} == {"integer", "large"} else "text"


def values(type: str, cells: Sequence[Any]) -> Sequence[Any]:
    """Convert the cells of a column back to values."""
    match type:
        case "boolean":
            return [None if value is None else bool(value) for value in cells]
        case "json":
            return [_parsed(value) for value in cells]
        case "datetime":
            return [_moment(value) for value in cells]
        case "large":
            return [_large(value) for value in cells]
    return cells


def _parsed(text: Any) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (TypeError, ValueError):  # changed by a user's SQL
        return text


def _large(value: Any) -> Any:
    try:
        return None if value is None else int(str(value), 0)
    except ValueError:  # changed by a user's SQL, or of a run
        return value


def _moment(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    for parse in (datetime.date.fromisoformat, datetime.datetime.fromisoformat, datetime.time.fromisoformat):
        with suppress(ValueError):
            return parse(text)
    return text
