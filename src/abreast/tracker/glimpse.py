"""Whether anything that a function refers to has changed within this program: many times faster than its digest."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Iterator
from typing import Any

from abreast.code.modules import home

MOST_ITEMS = 20  # of a list or dictionary; of larger ones it is seen which they are and how long
_PLAIN = (str, int, float, bool, bytes, type(None))


def glimpse(code: Any) -> tuple[list[Any], list[Any]]:
    """What a function or class refers to, in turn, and what can be seen of it: two are equal if nothing changed."""
    held: list[Any] = []
    state: list[Any] = []
    seen: set[int] = set()
    later = [code]
    while later:
        value = later.pop()
        if isinstance(value, _PLAIN):
            state.append((type(value), repr(value) if isinstance(value, float) else value))
            continue
        state.append(id(value))
        if id(value) not in seen:
            seen.add(id(value))
            held.append(value)
            inner = list(_inside(value))
            state.append(len(inner))
            later.extend(inner)
    return held, state


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, types.FunctionType):
        return _of_function(value) if _is_users(value.__module__) else ()
    if isinstance(value, dict | list | tuple | set | frozenset):
        if len(value) > MOST_ITEMS:
            return (len(value),)
        return (*value.keys(), *value.values()) if isinstance(value, dict) else value
    if isinstance(value, type):
        return tuple(vars(value).values()) if _is_users(value.__module__) else ()
    if isinstance(value, types.MethodType):
        return value.__func__, value.__self__
    if isinstance(value, classmethod | staticmethod):
        return (value.__func__,)
    if isinstance(value, property):
        return value.fget, value.fset
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if _is_users(type(value).__module__):
        return type(value), *getattr(value, "__dict__", {}).values(), *_slots(value)
    return ()


def _of_function(function: types.FunctionType) -> Iterator[Any]:
    yield from (function.__code__, function.__defaults__, function.__kwdefaults__, function.__dict__)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            yield None
    names = _names(function.__code__)
    for name in names:
        value = function.__globals__.get(name)
        yield value
        if isinstance(value, types.ModuleType) and _is_users(value.__name__):
            yield from (vars(value).get(attribute) for attribute in names)


@functools.lru_cache(maxsize=10_000)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """What the code and the functions inside of it read from around them."""
    inner = (name for each in code.co_consts if isinstance(each, types.CodeType) for name in _names(each))
    return tuple(dict.fromkeys((*code.co_names, *inner)))


def _slots(value: Any) -> Iterator[Any]:
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        yield from (getattr(value, name, None) for name in ((slots,) if isinstance(slots, str) else slots))


@functools.lru_cache(maxsize=10_000)
def _is_users(module: str | None) -> bool:
    return home(module) != "foreign"
