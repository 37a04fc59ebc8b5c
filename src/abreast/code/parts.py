"""What a user's function is made of, by name: to say which of it changed. `digest` alone says that something did."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abreast.code.modules import SCRIPTS, Modules, is_own_file

MOST_MODULES = 1_000  # listed by name
SHORT = 12  # hexadecimal digits


@dataclass(frozen=True, slots=True)
class Parts:
    """`own` is a digest of the function's own lines; `modules` are digests of the user's modules that it reaches,
    `packages` the versions of installed ones, and `files` where the user's own stand."""

    own: str = ""
    modules: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()


class _Listing(Modules):
    """The same walk as for a digest, as a list."""

    def modules(self) -> dict[str, str]:
        return {name: content[:SHORT] for name, content in sorted(self._files.items())}

    def packages(self) -> dict[str, str]:
        found = (text.split(" ") for text in sorted(self._packages))
        return {words[0]: words[1] if len(words) > 1 else "" for words in found}


def parts(function: Any) -> Parts:
    """Nothing is imported, and nothing of the user's is run.

    >>> from textwrap import dedent
    >>> parts(dedent).modules
    {}
    """
    inner = innermost(function)
    code, scope = getattr(inner, "__code__", None), getattr(inner, "__globals__", None)
    listing = _Listing()
    module = getattr(inner, "__module__", None)
    listing.add(module)
    own = ""
    files = set[Path]()
    if isinstance(code, types.CodeType) and isinstance(scope, dict):
        written = listing.written(code, scope)
        own = written.digest[:SHORT] if written else ""
        if module in SCRIPTS and written:  # other lines of a script do not count, but its imports do
            listing.add_imports(written.imports, scope)
        if is_own_file(code.co_filename):
            files.add(Path(code.co_filename))
    modules = listing.modules()
    for name in modules:
        origin = getattr(sys.modules.get(name), "__file__", None)
        if origin and is_own_file(origin):
            files.add(Path(origin))
    short = dict(list(modules.items())[:MOST_MODULES])
    return Parts(own, short, listing.packages(), tuple(sorted(files)))


def innermost(function: Any) -> Any:
    """The function itself: out of a partial, a method, a decorator or an object that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function) and callable(function):
        function = type(function).__call__
    return inspect.unwrap(getattr(function, "__func__", function))
