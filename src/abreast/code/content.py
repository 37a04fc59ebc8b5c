"""What an object is made of: its content, piece by piece, so that two of equal content can be told to be equal."""

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

from abreast.code.modules import home, is_standard
from abreast.digest import digest

Piece = str | tuple[str, Any]
"""A text, or a value under a name, which is made of something in turn."""

PLAIN = frozenset({str, bytes, bool, int, float, complex})
ACCESSORS = (property, staticmethod, classmethod, functools.cached_property, functools.partialmethod)
BUILTIN = (types.BuiltinFunctionType, types.MethodWrapperType)
CODE = (types.FunctionType, types.MethodType, *BUILTIN, types.ModuleType, type, functools.partial, *ACCESSORS)
LRU = type(functools.lru_cache(len))
_CONTAINERS = (list, tuple, dict, set, frozenset, bytearray)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_READABLE = (PurePath, re.Pattern, re.Match, memoryview, types.CellType, types.MappingProxyType, *_VIEWS)
_SIMPLE = (*PLAIN, *_CONTAINERS, PurePath, enum.Enum, re.Pattern)
_SERVICE = re.compile(  # how the class of something that does, rather than is, ends: its insides change with use
    "(Client|Session|Connection|Pool|Transport|Logger|Handler|Lock|Semaphore|Condition|Barrier|Queue|Thread|Process|"
    "Popen|Executor|Loop|Socket|Channel|Stub|Cookies|CookieJar|Engine|WeakSet|WeakKeyDictionary|WeakValueDictionary|"
    "TemporaryDirectory|TemporaryFileWrapper|IOBase)$"
)


class NoContentError(Exception):
    """Neither data nor known to be a service: one cannot be told from another."""


def is_a(value: Any, *kinds: type) -> bool:
    """By the type alone: a mock or a proxy tells `isinstance` what it likes."""
    return issubclass(type(value), kinds)


def is_container(value: Any) -> bool:
    return type(value) in _CONTAINERS or is_a(value, *_READABLE)


def is_service(value: Any) -> bool:
    return any(_SERVICE.search(each.__name__) for each in type(value).__mro__)


def is_chance(value: Any) -> bool:
    """A source of chance differs in every process."""
    return is_a(value, random.Random) or type(value).__module__.startswith("numpy.random")


def is_data(value: Any) -> bool:
    """Whether a global of a module counts by its content; a library's object there is made by the module's file."""
    kind = type(value)
    return (
        value is None
        or is_a(value, *_SIMPLE, *CODE)
        or is_dataclass(kind)
        or home(kind.__module__) != "foreign"
        or hasattr(kind, "__array__")
        or kind is LRU
    )


def in_container(value: Any) -> Iterator[Piece]:
    """What is in a container or another kind of plain data that is not a set."""
    if isinstance(value, dict | types.MappingProxyType):
        for key, item in value.items():
            yield "", key
            yield str(key) if type(key) in PLAIN else type(key).__name__, item
    elif is_a(value, list, tuple, *_VIEWS):
        yield from (("", each) for each in value)
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


def in_own_object(value: Any) -> Iterator[Piece]:
    """An object of a class of the user's: its class, its attributes, and what a base in C keeps elsewhere."""
    kind = type(value)
    yield "", kind
    if isinstance(value, enum.Enum):
        yield value.name or "", value.value
        return
    attributes = _attributes(value)
    yield from sorted(attributes.items())
    if any(home(base.__module__) == "foreign" and base is not object for base in kind.__mro__):
        yield from _array(value) or _reduced(value) or ()
    elif not attributes and not hasattr(value, "__dict__") and not any("__slots__" in vars(b) for b in kind.__mro__):
        yield from in_foreign_object(value)


def in_foreign_object(value: Any) -> list[Piece]:
    """An object of a library's class: as an array, as `copy` would copy it, or as it shows itself."""
    if is_a(value, LRU):
        return [("", value.__wrapped__)]
    for found in (_array(value), _reduced(value)):
        if found is not None:
            return found
    is_iterator = hasattr(type(value), "__next__") and not is_a(value, io.IOBase)
    if not is_iterator and is_standard(type(value).__module__):
        return []
    text = "" if is_iterator else _stable_text(value)
    if not text:
        raise NoContentError
    return [text]


def declared(kind: type) -> Iterator[Piece]:
    """What a dataclass or an enumeration declares."""
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
    except ValueError:  # not filled yet
        return None


def _array(value: Any) -> list[Piece] | None:
    """Arrays, and the frames and tensors that turn into them."""
    kind = type(value)
    if hasattr(kind, "tobytes") and hasattr(kind, "dtype") and hasattr(kind, "shape"):
        if value.dtype.hasobject:
            return [str(value.dtype), str(value.shape), ("", value.tolist())]
        return [digest(value)]
    if not hasattr(kind, "__array__"):
        return None
    import numpy as np  # late: only for those that have it

    try:
        found = _array(np.asarray(value.detach() if hasattr(kind, "detach") else value)) or []
        return found + [(name, getattr(value, name)) for name in ("columns", "index", "name") if hasattr(kind, name)]
    except Exception:  # noqa: BLE001 - on another device, or of a shape that has no array
        return None


def _reduced(value: Any) -> list[Piece] | None:
    """What `copy` would make a twin from; None for what has no twin."""
    if is_a(value, set, frozenset):  # `copy` would list its items in an order of this process
        return [("", frozenset(value))]
    try:
        made: Any = type(value).__reduce_ex__(value, 2)  # type: ignore[call-arg]
    except Exception:  # noqa: BLE001 - a lock, a socket, or a library's own refusal
        return None
    if not isinstance(made, tuple):
        return [str(made)]
    maker, arguments, state, items, pairs = (*made, None, None, None)[:5]
    found: list[Piece] = [qualified_name(maker), *(("", each) for each in arguments)]
    if type(state) is dict and all(type(key) is str for key in state):
        found += sorted(item for item in state.items() if not _is_cached(type(value), item[0]))
    else:
        found.append(("", state))
    return [*found, *(("", each) for each in items or ()), *(("", each) for each in pairs or ())]


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object, those in slots too; not what a cached property keeps, which follows from them."""
    kind = type(value)
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType):
                try:
                    found[f"{base.__qualname__}.{name}"] = member.__get__(value, kind)
                except AttributeError:  # a slot that was never filled
                    continue
    own = getattr(value, "__dict__", None)
    if type(own) is dict:
        found.update((key, item) for key, item in own.items() if not _is_cached(kind, key))
    for field in fields(value) if is_dataclass(kind) else ():
        if field.name not in found and hasattr(value, field.name):
            found[field.name] = getattr(value, field.name)
    return found


def _is_cached(kind: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)


def _stable_text(value: Any) -> str:
    """The representation of a value; nothing if it is an address, which it is when it names one."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a library's __repr__
        return ""
    return "" if re.search(r"\b0x[0-9a-f]+|\bid=\d+", text.lower()) else text


def qualified_name(value: Any) -> str:
    """The module and the name of a function or class; of an object, those of its class."""
    owner = value if is_a(value, *CODE) and hasattr(value, "__qualname__") else type(value)
    module = str(getattr(owner, "__module__", None))
    if is_standard(module):  # where exactly, versions of Python differ on: collections or _collections
        module = module.partition(".")[0].lstrip("_")
    return f"{'__main__' if module == '__mp_main__' else module}.{owner.__qualname__}"
