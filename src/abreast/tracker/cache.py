"""The name of a call by its content: the same function with the same arguments, in whatever process.

It is made of what the function is (its code, what it refers to, its defaults and closures) and what the arguments are.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from abreast.code.digest import content_digest, source_digest
from abreast.digest import canonical, compose, digest
from abreast.store.cached import Cache, warn_once
from abreast.tracker.process import Shared

_PLAIN = (str, int, float, bool, bytes, type(None))

_caches: Shared[Cache] = Shared()
Answer = TypeVar("Answer")


def use(folder: str, act: Callable[[Cache], Answer]) -> Answer:
    """What `act` does with the cache in this folder, made if it is not there."""
    return _caches.use(folder, lambda: Cache(Path(folder)), act)


def key_of(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """The name of this very call; None, with a warning, if the function or an argument has no content to tell."""
    try:
        code: list[str] = []

        def by_content(value: Any) -> dict[str, str]:
            return {"content": content_digest(value)}

        given = digest(canonical([list(args), dict(kwargs)], by_content))
        code.extend(_class_digest(kind) for kind in _classes([*args, *kwargs.values()]))
        return f"{name_of(function)}:{compose(_function_digest(function), given, *code)}"
    except Exception as error:  # noqa: BLE001 - a user's object may raise anything when it is looked at
        warn_once(name_of(function), f"{name_of(function)} is not cached: {error}")
        return None


def name_of(function: Callable[..., Any]) -> str:
    while hasattr(function, "func") and not hasattr(function, "__qualname__"):  # a partial
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', '?')}.{named.__qualname__}"


def _classes(values: Sequence[Any]) -> list[type]:
    """Of arguments that are objects, the classes: a function may call their methods."""
    kinds = {type(value) for value in values} - {*_PLAIN, list, dict, tuple, set, frozenset}
    return sorted((kind for kind in kinds if hasattr(kind, "__dataclass_fields__")), key=lambda kind: kind.__qualname__)


_of_class: dict[type, str] = {}


def _class_digest(kind: type) -> str:
    if kind not in _of_class:
        _of_class[kind] = source_digest(kind)
    return _of_class[kind]


_of_function: dict[int, tuple[Any, Any, str]] = {}  # id → the function itself, its state then, its digest


def _function_digest(function: Callable[..., Any]) -> str:
    """The digest of a function, made anew when its defaults, its closure or the values it refers to changed."""
    if not isinstance(function, types.FunctionType):
        return source_digest(function)
    state = _state(function)
    known = _of_function.get(id(function))
    if known is not None and known[0] is function and known[1] == state:
        return known[2]
    found = source_digest(function)
    if len(_of_function) > 1_000:  # functions that are made in a loop
        _of_function.clear()
    _of_function[id(function)] = (function, state, found)
    return found


def _state(function: types.FunctionType) -> list[Any]:
    names = function.__code__.co_names
    held = [function.__defaults__, function.__kwdefaults__, function.__code__]
    held += [_cell(each) for each in function.__closure__ or ()]
    held += [function.__globals__.get(name) for name in names]
    return [_glimpse(value) for value in held]


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _glimpse(value: Any) -> Any:
    """Enough to see that a value changed: of small ones the content, of large ones which it is and how long."""
    if isinstance(value, _PLAIN):
        return type(value), value
    if isinstance(value, dict | list | tuple | set | frozenset):
        if len(value) > 20:
            return id(value), len(value)
        items = list(value.items()) if isinstance(value, dict) else list(value)
        return id(value), [_glimpse(item) for item in items]
    return id(value)
