"""Split objects into pieces of content to digest, so that objects with equal content have equal digests."""

from __future__ import annotations

import enum
import functools
import inspect
import io
import random
import re
import types
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import PurePath
from typing import Any

from abreast.code.modules import classify_module, is_standard
from abreast.digest import digest

Piece = str | tuple[str, Any]
"""A text, or a named value with content of its own."""

PLAIN = frozenset({str, bytes, bool, int, float, complex})
ACCESSORS = (property, staticmethod, classmethod, functools.cached_property, functools.partialmethod)
BUILTIN = (types.BuiltinFunctionType, types.MethodWrapperType)
CODE = (types.FunctionType, types.MethodType, *BUILTIN, types.ModuleType, type, functools.partial, *ACCESSORS)
LRU = type(functools.lru_cache(len))
_CONTAINERS = (list, tuple, dict, set, frozenset, bytearray)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_READABLE = (PurePath, re.Pattern, re.Match, memoryview, types.CellType, types.MappingProxyType, *_VIEWS)
_SIMPLE = (*PLAIN, *_CONTAINERS, PurePath, enum.Enum, re.Pattern)
_SERVICE = re.compile(  # suffixes of class names; such objects act rather than hold data, and change with use
    "(Client|Session|Connection|Pool|Transport|Logger|Handler|Lock|Semaphore|Condition|Barrier|Queue|Thread|Process|"
    "Popen|Executor|Loop|Socket|Channel|Stub|Cookies|CookieJar|Engine|WeakSet|WeakKeyDictionary|WeakValueDictionary|"
    "TemporaryDirectory|TemporaryFileWrapper|IOBase)$"
)


class NoContentError(Exception):
    """The value is neither data nor a known service, so it has no content to compare."""


def has_type(value: Any, *kinds: type) -> bool:
    """Check the type alone, since mocks and proxies can deceive `isinstance`."""
    return issubclass(type(value), kinds)


def is_container(value: Any) -> bool:
    return type(value) in _CONTAINERS or has_type(value, *_READABLE)


def is_service(value: Any) -> bool:
    return any(_SERVICE.search(item.__name__) for item in type(value).__mro__)


def is_random_source(value: Any) -> bool:
    """Whether a value is a random generator, whose state differs between processes."""
    return has_type(value, random.Random) or type(value).__module__.startswith("numpy.random")


def is_data(value: Any) -> bool:
    """Whether a variable is digested by its content. Of other objects of libraries, only the type is digested."""
    kind = type(value)
    return (
        value is None
        or has_type(value, *_SIMPLE, *CODE)
        or is_dataclass(kind)
        or classify_module(kind.__module__) != "foreign"
        or hasattr(kind, "__array__")
        or kind is LRU
    )


def container_pieces(value: Any) -> Iterator[Piece]:
    if isinstance(value, dict | types.MappingProxyType):
        for key, item in value.items():
            yield "", key
            yield str(key) if type(key) in PLAIN else type(key).__name__, item
    elif has_type(value, list, tuple, *_VIEWS):
        yield from (("", item) for item in value)
    elif isinstance(value, bytearray | memoryview):
        yield "", bytes(value)
    elif isinstance(value, re.Pattern):
        yield from (("", value.pattern), ("", value.flags))
    elif isinstance(value, re.Match):
        yield from (("", value.re), ("", value.string), ("", value.regs))
    elif isinstance(value, types.CellType):
        yield "", cell_value(value)
    else:
        yield "", str(value)


def own_object_pieces(value: Any) -> Iterator[Piece]:
    """The pieces of an object of a user's class: its class, attributes, and what a base class in a library stores."""
    kind = type(value)
    yield "", kind
    if isinstance(value, enum.Enum):
        yield value.name or "", value.value
        return
    attributes = _attributes(value)
    yield from sorted(attributes.items())
    if any(classify_module(base.__module__) == "foreign" and base is not object for base in kind.__mro__):
        yield from _array_pieces(value) or _copy_pieces(value) or ()
    elif not attributes and not hasattr(value, "__dict__") and not any("__slots__" in vars(b) for b in kind.__mro__):
        yield from foreign_object_pieces(value)


def foreign_object_pieces(value: Any) -> list[Piece]:
    """The pieces of an object of a library's class: as an array, else as `copy` would copy it, else its repr."""
    if has_type(value, LRU):
        return [("", value.__wrapped__)]
    for pieces in (_array_pieces(value), _copy_pieces(value)):
        if pieces is not None:
            return pieces
    is_iterator = hasattr(type(value), "__next__") and not has_type(value, io.IOBase)
    if not is_iterator and is_standard(type(value).__module__):
        return []
    text = "" if is_iterator else _stable_text(value)
    if not text:
        raise NoContentError
    return [text]


def declared_pieces(kind: type) -> Iterator[Piece]:
    if is_dataclass(kind):
        flags = vars(kind).get("__dataclass_params__")
        yield from ((name, getattr(flags, name, None)) for name in ("eq", "frozen", "init", "order", "repr"))
        for field in fields(kind):
            yield field.name, field.default if field.default_factory is MISSING else field.default_factory
    elif issubclass(kind, enum.Enum):
        yield from ((name, member.value) for name, member in kind.__members__.items())


def cell_value(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return None


def _array_pieces(value: Any) -> list[Piece] | None:
    kind = type(value)
    if hasattr(kind, "tobytes") and hasattr(kind, "dtype") and hasattr(kind, "shape"):
        if value.dtype.hasobject:
            return [str(value.dtype), str(value.shape), ("", value.tolist())]
        return [digest(value)]
    if not hasattr(kind, "__array__"):
        return None
    import numpy as np  # imported late: optional

    try:
        pieces = _array_pieces(np.asarray(value.detach() if hasattr(kind, "detach") else value)) or []
        return pieces + [(name, getattr(value, name)) for name in ("columns", "index", "name") if hasattr(kind, name)]
    except Exception:  # noqa: BLE001 - on another device, or not convertible
        return None


def _copy_pieces(value: Any) -> list[Piece] | None:
    """The pieces from which `copy` would build a copy; None if it cannot."""
    if has_type(value, set, frozenset):  # the order differs between processes
        return [("", frozenset(value))]
    try:
        reduced: Any = type(value).__reduce_ex__(value, 2)  # type: ignore[call-arg]
    except Exception:  # noqa: BLE001 - a lock, a socket, or a library's own refusal
        return None
    if not isinstance(reduced, tuple):
        return [str(reduced)]
    maker, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    pieces: list[Piece] = [qualified_name(maker), *(("", item) for item in arguments)]
    if type(state) is dict and all(type(key) is str for key in state):
        pieces += sorted(item for item in state.items() if not _is_cached(type(value), item[0]))
    else:
        pieces.append(("", state))
    return [*pieces, *(("", item) for item in items or ()), *(("", item) for item in pairs or ())]


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object, including slots, without the values of cached properties."""
    kind = type(value)
    attributes: dict[str, Any] = {}
    for base in kind.__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType):
                try:
                    attributes[f"{base.__qualname__}.{name}"] = member.__get__(value, kind)
                except AttributeError:  # an empty slot
                    continue
    own = getattr(value, "__dict__", None)
    if type(own) is dict:
        attributes.update((key, item) for key, item in own.items() if not _is_cached(kind, key))
    for field in fields(value) if is_dataclass(kind) else ():
        if field.name not in attributes and hasattr(value, field.name):
            attributes[field.name] = getattr(value, field.name)
    return attributes


def _is_cached(kind: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)


def _stable_text(value: Any) -> str:
    """The repr of a value; empty if it contains a memory address."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a library's __repr__
        return ""
    return "" if re.search(r"\b0x[0-9a-f]+|\bid=\d+", text.lower()) else text


def qualified_name(value: Any) -> str:
    owner = value if has_type(value, *CODE) and hasattr(value, "__qualname__") else type(value)
    module = str(getattr(owner, "__module__", None))
    if is_standard(module):  # differs between Python versions: collections or _collections
        module = module.partition(".")[0].lstrip("_")
    return f"{'__main__' if module == '__mp_main__' else module}.{owner.__qualname__}"
