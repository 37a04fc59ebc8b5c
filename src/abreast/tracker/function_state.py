"""The digest of a function from call to call.

It is computed again when something the function refers to has changed. What a call itself changes (a counter, a memo, a
client made at the first call) does not count as such a change: it keeps its value from before the first call.
Otherwise a restarted program, in which no call has changed anything yet, would find hardly any of its results.
"""

from __future__ import annotations

import os
import threading
import types
from collections.abc import Callable
from typing import Any

from abreast.code.digest import source_digest
from abreast.tracker.change_detector import View, look_at

MOST = 1_000  # functions that are remembered; more are made in a loop


class FunctionState:
    """One function, or method of one object, as this program has called it."""

    def __init__(self, code: Any) -> None:
        self._lock = threading.RLock()  # a signal handler may call the function while a call is being looked at
        self._running = 0
        self._changing: set[str] = set()  # variables that calls themselves change
        self._first = self._last = _Sight(code)
        self._digest = self._first.digest or source_digest(code)

    def see(self, code: Any) -> tuple[str, _Sight]:
        """The digest as of now, and what it was made from.

        While other calls run, nobody can tell yet whether they made a change or the caller did: `end` can.
        """
        with self._lock:
            now = _Sight(code)
            if self._last.is_same(now) or (self._running and self._is_own_change(self._last, now)):
                return self._digest, now
            digest = now.digest or source_digest(code)
            if not self._running:
                self._digest, self._first, self._last = digest, now, now
            return digest, now

    def begin(self) -> None:
        with self._lock:
            self._running += 1

    def end(self, code: Any, before: _Sight, digest: str) -> tuple[str, set[str]]:
        """Take note of what a call changed: its digest as it is now known to be, and the variables it changed."""
        with self._lock:
            after = _Sight(code)
            changed = before.changed(after)
            self._running = max(0, self._running - 1)
            self._changing |= changed
            if self._is_own_change(self._last, after):
                self._last = after
            return (self._digest if self._is_own_change(self._first, before) else digest), changed

    def restart(self) -> None:
        """Forget calls that run in other threads, which a forked process has not."""
        self._lock, self._running = threading.RLock(), 0

    def fits(self, code: Any) -> bool:
        """Whether another function of the same code differs in nothing but what calls change, as far as is known."""
        return self._running > 0 or self._is_own_change(self._last, _Sight(code))

    def _is_own_change(self, before: _Sight, after: _Sight) -> bool:
        return before.changed(after) <= self._changing


class _Sight:
    """What can be seen of a function; of the object of a method, whose data may be large, its digest as well."""

    def __init__(self, code: Any) -> None:
        self.view: View = look_at(code)
        self.digest = None if isinstance(code, types.FunctionType | type) else source_digest(code)
        self._name = "" if self.digest is None else type(getattr(code, "__self__", code)).__qualname__

    def is_same(self, other: _Sight) -> bool:
        return self.digest == other.digest and self.view.is_same(other.view)

    def changed(self, other: _Sight) -> set[str]:
        if self.view.is_same(other.view):
            return set() if self.digest == other.digest else {self._name}
        return self.view.changed(other.view)


_states: dict[tuple[int, int], tuple[Any, FunctionState]] = {}  # by id; what has the id is kept alive
_adding = threading.RLock()
_latest: dict[types.CodeType, FunctionState] = {}


def state_of(code: Callable[..., Any] | type) -> FunctionState:
    """What this program knows of a function, a class, or a method of an object.

    A function that is made again and again, such as a lambda in a loop, is one function.
    """
    key = (id(getattr(code, "__func__", code)), id(getattr(code, "__self__", None)))
    known = _states.get(key)
    return known[1] if known is not None else _add(key, code)


def _add(key: tuple[int, int], code: Any) -> FunctionState:
    with _adding:
        if key in _states:  # another thread was faster
            return _states[key][1]
        if len(_states) > MOST:
            _states.clear()
            _latest.clear()
        written = code.__code__ if isinstance(code, types.FunctionType) else None
        state = _latest.get(written) if written is not None else None
        if state is None or not state.fits(code):
            state = FunctionState(code)
        if written is not None:
            _latest[written] = state
        _states[key] = (code, state)
        return state


def _restart() -> None:
    global _adding
    _adding = threading.RLock()
    for _, state in _states.values():
        state.restart()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart)
