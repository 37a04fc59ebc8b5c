"""Cache keys of calls: equal for the same function with the same arguments, in every process.

A key covers the function (its code, what it refers to, its defaults and closures) and the content of the arguments.
"""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from abreast.code.content import qualified_name
from abreast.code.digest import content_digest
from abreast.code.modules import classify_module
from abreast.digest import canonical, compose, digest
from abreast.store.user_tables.result_cache import Cache, warn_once
from abreast.tracker.function_state import EndedCall, state_of
from abreast.tracker.process import Shared

_SIMPLE_TYPES = (str, int, float, bool, bytes, type(None))

MOST_NAMES = 3  # variables listed in a warning
_caches: Shared[Cache] = Shared()
Answer = TypeVar("Answer")


def use(folder: str, act: Callable[[Cache], Answer]) -> Answer:
    return _caches.use(folder, lambda: Cache.open(Path(folder)), act)


class CallKey:
    """The cache key of a call, provisional until the call ends: it may change variables that the function uses."""

    def __init__(self, function: Callable[..., Any], content: Sequence[str]) -> None:
        self._code = function
        self._function = name_of(function)
        self._state = state_of(function)
        self._digest, self._before = self._state.observe(function)
        self._content = content

    @property
    def text(self) -> str:
        return self._text(self._digest)

    def _text(self, digest: str) -> str:
        return f"{self._function}:{compose(digest, *self._content)}"

    def begin(self) -> None:
        self._state.begin()

    def end(self) -> None:
        """Record which variables the call itself changed, and warn once."""
        changed = self._state.end(self._code, self._before)
        if changed:
            names = ", ".join(sorted(changed)[:MOST_NAMES])
            warn_once(
                f"{self._function} changes",
                f"{self._function} changes {names}; cached results ignore that",
            )

    def settle(self, keep: Callable[[str], None] | None = None) -> None:
        """Call `keep` with the final key of the ended call, now or when a concurrent call ends."""
        ended = [EndedCall(self._before, self._digest, lambda digest: keep(self._text(digest)))] if keep else []
        self._state.settle(*ended)


def call_key(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], params: Mapping[str, Any]
) -> CallKey | None:
    """Return the key of a call; None, with a warning, if the function or an argument has no digest."""
    try:
        inner: Any = function
        while isinstance(inner, functools.partial) and not vars(inner):
            inner, args, kwargs = inner.func, [*inner.args, *args], {**inner.keywords, **kwargs}
        kinds: set[type] = set()
        arguments_digest = digest(_describe([list(args), dict(kwargs), *([dict(params)] if params else [])], kinds))
        classes = sorted(kinds, key=lambda kind: (kind.__module__, kind.__qualname__))
        return CallKey(inner, [arguments_digest, *(state_of(kind).observe(kind)[0] for kind in classes)])
    except Exception as error:  # noqa: BLE001 - a user's object may raise anything
        warn_once(name_of(function), f"{name_of(function)} is not cached: {error}")
        return None


def name_of(function: Callable[..., Any]) -> str:
    while hasattr(function, "func") and not hasattr(function, "__qualname__"):  # a partial
        function = function.func
    owner = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(owner, '__module__', '?')}.{owner.__qualname__}"


def _describe(value: Any, kinds: set[type]) -> Any:
    """Describe an argument in plain values for its digest.

    Adds dataclasses to `kinds`: their code counts too, because the function may call their methods.
    """
    kind = type(value)
    if kind in _SIMPLE_TYPES:
        return value
    if kind in (list, tuple):
        return [kind.__name__, *(_describe(item, kinds) for item in value)]
    if kind is dict:
        pairs = ([_describe(key, kinds), _describe(item, kinds)] for key, item in value.items())
        return ["dict", *sorted(pairs, key=lambda pair: digest(pair[0]))]
    if isinstance(value, io.IOBase):
        return ["file", kind.__qualname__, *_file_content(value)]
    fields = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(kind) else []
    if fields and getattr(value, "__dict__", {}).keys() <= set(fields):  # no other attributes
        kinds.add(kind)
        return [qualified_name(kind), *([name, _describe(getattr(value, name), kinds)] for name in fields)]
    if classify_module(kind.__module__) == "foreign":  # such as an array, a data frame or a date
        zone = str(getattr(value, "tzinfo", None))
        return [zone, canonical(value, lambda inner: {"content": content_digest(inner)})]
    return ["content", content_digest(value)]


def _file_content(file: Any) -> list[Any]:
    """Read the rest of an open file, and restore its position."""
    if not file.readable() or not file.seekable():
        raise ValueError("an argument is a file that is not seekable")
    position = file.tell()
    try:
        content = file.read()
    finally:
        file.seek(position)
    return [content]
