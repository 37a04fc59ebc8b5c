"""Whether anything that a function refers to has changed within this program: many times faster than its digest."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from abreast.code.content import qualified_name
from abreast.code.modules import home

MOST_ITEMS = 20  # of a list or dictionary; of larger ones it is seen which they are and how long
_PLAIN = (str, int, float, bool, bytes, type(None))

Owner = tuple[str, int]
"""A variable by name, and the id of the object that has it; 0 if a function or module has it."""

Owned = tuple[Owner, Any]
NOBODY: Owner = ("", 0)


class View(NamedTuple):
    """What can be seen of a function or class, and in turn of what it refers to, at one moment."""

    objects: list[Any]  # kept alive, so that no other object gets the id of one of them
    state: list[Any]
    owners: list[Owner]  # whose each item of `state` is

    def is_same(self, other: View) -> bool:
        return self.state == other.state and self.owners == other.owners

    def changed(self, other: View) -> set[str]:
        """The variables that differ, of objects that both refer to."""
        before, after = self._by_owner(), other._by_owner()
        kept = {id(value) for value in self.objects} & {id(value) for value in other.objects} | {0}
        differing = {owner for owner in before.keys() | after.keys() if before.get(owner) != after.get(owner)}
        return {variable for variable, holder in differing if variable and holder in kept}

    def _by_owner(self) -> dict[Owner, list[Any]]:
        found: dict[Owner, list[Any]] = {}
        for owner, item in zip(self.owners, self.state, strict=True):
            found.setdefault(owner, []).append(item)
        return found


def look_at(code: Any) -> View:
    """See what a function or class refers to; two views are the same if nothing changed."""
    view = View([], [], [])
    add_state, add_owner = view.state.append, view.owners.append
    seen = {id(code)}
    view.objects.append(code)
    later = list(_inside(NOBODY, code))
    while later:
        owner, value = later.pop()
        add_owner(owner)
        if isinstance(value, _PLAIN):
            add_state((type(value), repr(value) if isinstance(value, float) else value))
            continue
        add_state(id(value))
        if id(value) not in seen:
            seen.add(id(value))
            view.objects.append(value)
            later.extend(_inside(owner, value))
    return view


def _inside(owner: Owner, value: Any) -> Iterable[Owned]:
    if isinstance(value, types.FunctionType):
        return _of_function(value) if _is_users(value.__module__) else ()
    if isinstance(value, dict | list | tuple | set | frozenset):
        return _of_container(owner, value)
    if isinstance(value, type):
        return _named(_class_name(value), 0, vars(value).items()) if _is_users(value.__module__) else ()
    if isinstance(value, types.MethodType):
        return (NOBODY, value.__func__), (NOBODY, value.__self__)
    if isinstance(value, classmethod | staticmethod):
        return ((NOBODY, value.__func__),)
    if isinstance(value, property):
        return (NOBODY, value.fget), (NOBODY, value.fset)
    if isinstance(value, functools.partial):
        return (NOBODY, value.func), (owner, value.args), (owner, value.keywords)
    if _is_users(type(value).__module__):
        return _of_object(value)
    return ()


def _of_container(owner: Owner, value: Any) -> Iterator[Owned]:
    yield owner, len(value)
    if len(value) > MOST_ITEMS:
        return
    if not isinstance(value, dict):
        yield from ((owner, item) for item in value)
    elif owner[0] and all(type(key) is str for key in value):
        yield owner, "\0".join(value)
        yield from (((f"{owner[0]}[{key!r}]", id(value)), item) for key, item in value.items())
    else:
        yield from ((owner, key) for key in value)
        yield from ((owner, item) for item in value.values())


def _of_object(value: Any) -> Iterator[Owned]:
    kind: Any = type(value)
    yield NOBODY, kind
    prefix, holder = _class_name(kind), id(value)
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        for name, item in attributes.items():
            if not _is_cached_property(kind, name):
                yield (f"{prefix}.{name}", holder), item
    yield from _named(prefix, holder, _slots(value))


def _of_function(function: types.FunctionType) -> Iterator[Owned]:
    code = function.__code__
    name = f"{function.__module__}.{function.__qualname__}"
    yield NOBODY, code
    if function.__defaults__:
        defaults = function.__defaults__
        parameters = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
        yield from _named(name, 0, zip(parameters, defaults, strict=True))
    if function.__kwdefaults__:
        yield from _named(name, 0, function.__kwdefaults__.items())
    if function.__dict__:
        yield from _named(name, 0, function.__dict__.items())
    for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield (f"{name}.{variable}", 0), cell.cell_contents
        except ValueError:  # not filled yet
            yield (f"{name}.{variable}", 0), None
    names, scope = _names(code), function.__globals__
    module = scope.get("__name__")
    for variable in names:
        value = scope.get(variable)
        yield (f"{module}.{variable}", 0), value
        if isinstance(value, types.ModuleType) and _is_users(value.__name__):
            yield from _named(value.__name__, 0, ((each, vars(value).get(each)) for each in names))


def _named(prefix: str, holder: int, pairs: Iterable[tuple[str, Any]]) -> Iterator[Owned]:
    return (((f"{prefix}.{name}", holder), value) for name, value in pairs)


@functools.lru_cache(maxsize=10_000)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """What the code and the functions inside of it read from around them."""
    inner = (name for each in code.co_consts if isinstance(each, types.CodeType) for name in _names(each))
    return tuple(dict.fromkeys((*code.co_names, *inner)))


def _slots(value: Any) -> Iterator[tuple[str, Any]]:
    kind: Any = type(value)
    return ((name, getattr(value, name, None)) for name in _slot_names(kind))


@functools.lru_cache(maxsize=1_000)
def _slot_names(kind: type) -> tuple[str, ...]:
    declared = (vars(base).get("__slots__", ()) for base in kind.__mro__)
    return tuple(name for slots in declared for name in ((slots,) if isinstance(slots, str) else slots))


_class_name = functools.lru_cache(maxsize=1_000)(qualified_name)


@functools.lru_cache(maxsize=10_000)
def _is_cached_property(kind: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)


@functools.lru_cache(maxsize=10_000)
def _is_users(module: str | None) -> bool:
    return home(module) != "foreign"
