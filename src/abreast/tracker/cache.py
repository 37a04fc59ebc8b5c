"""The name of a call by its content: the same function with the same arguments, in whatever process.

It is made of what the function is (its code, what it refers to, its defaults and closures) and what the arguments are.
"""

from __future__ import annotations

import dataclasses
import io
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from abreast.code.content import qualified_name
from abreast.code.digest import content_digest, source_digest
from abreast.code.modules import home
from abreast.digest import canonical, compose, digest
from abreast.store.cached import Cache, warn_once
from abreast.tracker.glimpse import glimpse
from abreast.tracker.process import Shared

_PLAIN = (str, int, float, bool, bytes, type(None))

_caches: Shared[Cache] = Shared()
Answer = TypeVar("Answer")


def use(folder: str, act: Callable[[Cache], Answer]) -> Answer:
    """What `act` does with the cache in this folder, made if it is not there."""
    return _caches.use(folder, lambda: Cache(Path(folder)), act)


def key_of(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], params: Mapping[str, Any]
) -> str | None:
    """The name of this very call; None, with a warning, if the function or an argument has no content to tell."""
    try:
        kinds: set[type] = set()
        given = digest(_said([list(args), dict(kwargs), *([dict(params)] if params else [])], kinds))
        classes = [_code_digest(kind) for kind in sorted(kinds, key=lambda kind: (kind.__module__, kind.__qualname__))]
        return f"{name_of(function)}:{compose(_code_digest(function), given, *classes)}"
    except Exception as error:  # noqa: BLE001 - a user's object may raise anything when it is looked at
        warn_once(name_of(function), f"{name_of(function)} is not cached: {error}")
        return None


def name_of(function: Callable[..., Any]) -> str:
    while hasattr(function, "func") and not hasattr(function, "__qualname__"):  # a partial
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', '?')}.{named.__qualname__}"


def _said(value: Any, kinds: set[type]) -> Any:
    """What an argument is, for a digest. `kinds` gets the classes of dataclasses: a function may call their methods."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind in (list, tuple):
        return [kind.__name__, *(_said(item, kinds) for item in value)]
    if kind is dict:
        pairs = ([_said(key, kinds), _said(item, kinds)] for key, item in value.items())
        return ["dict", *sorted(pairs, key=lambda pair: digest(pair[0]))]
    if isinstance(value, io.IOBase):
        return ["file", kind.__qualname__, *_file_content(value)]
    fields = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(kind) else []
    if fields and getattr(value, "__dict__", {}).keys() <= set(fields):  # nothing beside them
        kinds.add(kind)
        return [qualified_name(kind), *([name, _said(getattr(value, name), kinds)] for name in fields)]
    if home(kind.__module__) == "foreign":  # an array, a frame, a date
        zone = str(getattr(value, "tzinfo", None))
        return [zone, canonical(value, lambda inner: {"content": content_digest(inner)})]
    return ["content", content_digest(value)]


def _file_content(file: Any) -> list[Any]:
    """What a call that reads an open file would read: what comes after its position, which stays."""
    if not file.readable() or not file.seekable():
        raise ValueError("an argument is a file that cannot be read ahead")
    position = file.tell()
    try:
        content = file.read()
    finally:
        file.seek(position)
    return [content]


_known: dict[int, tuple[list[Any], list[Any], str]] = {}  # id → what it refers to, its state then, its digest


def _code_digest(code: Any) -> str:
    """The digest of a function or a class, made anew when something it refers to changed."""
    if not isinstance(code, types.FunctionType | type):
        return source_digest(code)
    held, state = glimpse(code)
    known = _known.get(id(code))
    if known is not None and known[1] == state:
        return known[2]
    found = source_digest(code)
    if len(_known) > 1_000:  # functions that are made in a loop
        _known.clear()
    _known[id(code)] = (held, state, found)  # what is held is not freed: its id is of no other
    return found
