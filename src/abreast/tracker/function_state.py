"""Track the digest of a function from call to call.

The digest is recomputed when something that the function refers to has changed. Variables that the calls themselves
change (a counter, a memo, a client made at the first call) count with their value before the first call. Otherwise a
restarted program, in which no call has changed anything yet, would find hardly any of its cached results.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from abreast.code.content import qualified_name
from abreast.code.digest import source_digest
from abreast.code.modules import classify_module

MOST_ITEMS = 20  # larger containers are compared only by identity and length
_SIMPLE_TYPES = (str, int, float, bool, bytes, type(None))

Owner = tuple[str, int]  # variable name, id of the object it belongs to (0 for functions, classes and modules)
OwnedValue = tuple[Owner, Any]
NO_OWNER: Owner = ("", 0)


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """A snapshot of everything that a function or class refers to, directly or indirectly.

    A bound method or callable object also has a digest, because its data may be too large to compare item by item.
    """

    objects: list[Any] = field(default_factory=list)  # kept alive, so that their ids are not reused
    state: list[Any] = field(default_factory=list)
    owners: list[Owner] = field(default_factory=list)  # the owner of each item of `state`
    digest: str | None = None
    class_name: str = ""

    @classmethod
    def of(cls, code: Any) -> Self:
        """Collect the state of a function, class, method or callable object."""
        if isinstance(code, types.FunctionType | type):
            snapshot = cls()
        else:
            snapshot = cls(digest=source_digest(code), class_name=type(getattr(code, "__self__", code)).__qualname__)
        add_state, add_owner = snapshot.state.append, snapshot.owners.append
        seen = {id(code)}
        snapshot.objects.append(code)
        pending = list(_references(NO_OWNER, code))
        while pending:
            owner, value = pending.pop()
            add_owner(owner)
            if isinstance(value, _SIMPLE_TYPES):
                add_state((type(value), repr(value) if isinstance(value, float) else value))
                continue
            add_state(id(value))
            if id(value) not in seen:
                seen.add(id(value))
                snapshot.objects.append(value)
                pending.extend(_references(owner, value))
        return snapshot

    def is_same(self, other: StateSnapshot) -> bool:
        return self.digest == other.digest and self._refers_to_same(other)

    def _refers_to_same(self, other: StateSnapshot) -> bool:
        return self.state == other.state and self.owners == other.owners

    def changed(self, other: StateSnapshot) -> set[str]:
        """Return the names of the variables that differ, in objects that are in both snapshots."""
        if self._refers_to_same(other):
            return set() if self.digest == other.digest else {self.class_name}
        before, after = self._by_owner(), other._by_owner()
        shared_ids = {id(value) for value in self.objects} & {id(value) for value in other.objects} | {0}
        differing = {owner for owner in before.keys() | after.keys() if before.get(owner) != after.get(owner)}
        return {variable for variable, holder in differing if variable and holder in shared_ids}

    def _by_owner(self) -> dict[Owner, list[Any]]:
        items: dict[Owner, list[Any]] = {}
        for owner, item in zip(self.owners, self.state, strict=True):
            items.setdefault(owner, []).append(item)
        return items


def _references(owner: Owner, value: Any) -> Iterable[OwnedValue]:
    if isinstance(value, types.FunctionType):
        return _function_items(value) if _is_user_module(value.__module__) else ()
    if isinstance(value, dict | list | tuple | set | frozenset):
        return _container_items(owner, value)
    if isinstance(value, type):
        return _with_prefix(_class_name(value), 0, vars(value).items()) if _is_user_module(value.__module__) else ()
    if isinstance(value, types.MethodType):
        return (NO_OWNER, value.__func__), (NO_OWNER, value.__self__)
    if isinstance(value, classmethod | staticmethod):
        return ((NO_OWNER, value.__func__),)
    if isinstance(value, property):
        return (NO_OWNER, value.fget), (NO_OWNER, value.fset)
    if isinstance(value, functools.partial):
        return (NO_OWNER, value.func), (owner, value.args), (owner, value.keywords)
    if _is_user_module(type(value).__module__):
        return _object_items(value)
    return ()


def _container_items(owner: Owner, value: Any) -> Iterator[OwnedValue]:
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


def _object_items(value: Any) -> Iterator[OwnedValue]:
    kind: Any = type(value)
    yield NO_OWNER, kind
    prefix, holder = _class_name(kind), id(value)
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        for name, item in attributes.items():
            if not _is_cached_property(kind, name):
                yield (f"{prefix}.{name}", holder), item
    yield from _with_prefix(prefix, holder, ((name, getattr(value, name, None)) for name in _slot_names(kind)))


def _function_items(function: types.FunctionType) -> Iterator[OwnedValue]:
    code = function.__code__
    name = f"{function.__module__}.{function.__qualname__}"
    yield NO_OWNER, code
    if function.__defaults__:
        defaults = function.__defaults__
        parameters = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
        yield from _with_prefix(name, 0, zip(parameters, defaults, strict=True))
    if function.__kwdefaults__:
        yield from _with_prefix(name, 0, function.__kwdefaults__.items())
    if function.__dict__:
        yield from _with_prefix(name, 0, function.__dict__.items())
    for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield (f"{name}.{variable}", 0), cell.cell_contents
        except ValueError:  # not assigned yet
            yield (f"{name}.{variable}", 0), None
    names, scope = _names(code), function.__globals__
    module = scope.get("__name__")
    for variable in names:
        value = scope.get(variable)
        yield (f"{module}.{variable}", 0), value
        if isinstance(value, types.ModuleType) and _is_user_module(value.__name__):
            yield from _with_prefix(value.__name__, 0, ((attribute, vars(value).get(attribute)) for attribute in names))


def _with_prefix(prefix: str, holder: int, pairs: Iterable[tuple[str, Any]]) -> Iterator[OwnedValue]:
    return (((f"{prefix}.{name}", holder), value) for name, value in pairs)


@functools.lru_cache(maxsize=10_000)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """Return the global names and attributes that the code and its inner functions use."""
    inner = (name for constant in code.co_consts if isinstance(constant, types.CodeType) for name in _names(constant))
    return tuple(dict.fromkeys((*code.co_names, *inner)))


@functools.lru_cache(maxsize=1_000)
def _slot_names(kind: type) -> tuple[str, ...]:
    declared = (vars(base).get("__slots__", ()) for base in kind.__mro__)
    return tuple(name for slots in declared for name in ((slots,) if isinstance(slots, str) else slots))


_class_name = functools.lru_cache(maxsize=1_000)(qualified_name)


@functools.lru_cache(maxsize=10_000)
def _is_cached_property(kind: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)


@functools.lru_cache(maxsize=10_000)
def _is_user_module(module: str | None) -> bool:
    return classify_module(module) != "foreign"


MOST_STATES = 1_000  # more functions are probably made in a loop


class FunctionState:
    """The digest of a function, or of a method of one object, and its running calls."""

    def __init__(self, code: Any) -> None:
        self._lock = threading.RLock()  # a signal handler may call the function
        self._running = 0
        self._changing: set[str] = set()  # names of the variables that calls change
        self._unsettled: list[EndedCall] = []
        self._first = self._last = StateSnapshot.of(code)
        self._digest = self._first.digest or source_digest(code)

    def observe(self, code: Any) -> tuple[str, StateSnapshot]:
        """Return the current digest and snapshot.

        While calls are running, a change does not replace the stored digest: `end` finds out whether a call made it.
        """
        with self._lock:
            now = StateSnapshot.of(code)
            if self._last.is_same(now) or (self._running and self._is_own_change(self._last, now)):
                return self._digest, now
            digest = now.digest or source_digest(code)
            if not self._running:
                self._digest, self._first, self._last = digest, now, now
            return digest, now

    def begin(self) -> None:
        with self._lock:
            self._running += 1

    def end(self, code: Any, before: StateSnapshot) -> set[str]:
        """Record and return the names of the variables that a call changed."""
        with self._lock:
            after = StateSnapshot.of(code)
            changed = before.changed(after)
            self._running = max(0, self._running - 1)
            self._changing |= changed
            if self._is_own_change(self._last, after):
                self._last = after
            return changed

    def settle(self, *calls: EndedCall) -> None:
        """Report the digest of ended calls as soon as it is final.

        A call that began after a change waits until every call that may have made the change has ended.
        """
        settled, unsettled = [], []
        with self._lock:
            for call in (*self._unsettled, *calls):
                if self._is_own_change(self._first, call.before):
                    settled.append((call, self._digest))
                elif not self._running:
                    settled.append((call, call.digest))
                else:
                    unsettled.append(call)
            self._unsettled = unsettled
        for call, digest in settled:
            call.on_settled(digest)

    def restart(self) -> None:
        self._lock, self._running, self._unsettled = threading.RLock(), 0, []

    def fits(self, code: Any) -> bool:
        """Whether a function with the same code can share this state, because it differs only in what calls change."""
        return self._running > 0 or self._is_own_change(self._last, StateSnapshot.of(code))

    def _is_own_change(self, before: StateSnapshot, after: StateSnapshot) -> bool:
        return before.changed(after) <= self._changing


class EndedCall(NamedTuple):
    before: StateSnapshot
    digest: str  # digest before the call
    on_settled: Callable[[str], None]


_states: dict[tuple[int, int], tuple[Any, FunctionState]] = {}  # by id; functions are kept alive, as in `StateSnapshot`
_states_lock = threading.RLock()
_latest: dict[types.CodeType, FunctionState] = {}


def state_of(code: Callable[..., Any] | type) -> FunctionState:
    """Return the state of a function, class or method. Functions with the same code share it, as a lambda in a loop."""
    key = (id(getattr(code, "__func__", code)), id(getattr(code, "__self__", None)))
    entry = _states.get(key)
    return entry[1] if entry is not None else _add(key, code)


def _add(key: tuple[int, int], code: Any) -> FunctionState:
    with _states_lock:
        if key in _states:  # another thread was faster
            return _states[key][1]
        if len(_states) > MOST_STATES:
            _states.clear()
            _latest.clear()
        code_object = code.__code__ if isinstance(code, types.FunctionType) else None
        state = _latest.get(code_object) if code_object is not None else None
        if state is None or not state.fits(code):
            state = FunctionState(code)
        if code_object is not None:
            _latest[code_object] = state
        _states[key] = (code, state)
        return state


def _restart() -> None:
    global _states_lock
    _states_lock = threading.RLock()
    for _, state in _states.values():
        state.restart()


os.register_at_fork(after_in_child=_restart)
