"""What a user's function is made of, by name: to say which of it changed. `digest` alone says that something did."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
import types
from collections.abc import Iterator
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


_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def returned_keys(function: Any) -> frozenset[str] | None:
    """The keys of the mappings that it returns; None if one of them is not written out, or it returns something else.

    >>> returned_keys(returned_keys) is None
    True
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(innermost(function))))
    except (OSError, TypeError, SyntaxError, ValueError, RecursionError):
        return None
    first = tree.body[0] if tree.body else None
    if not isinstance(first, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    keys: set[str] = set()
    returned = [value for value in _returned(first) if not _is_nothing(value)]
    for value in returned:
        if not isinstance(value, ast.Dict):
            return None
        for key in value.keys:
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                return None
            keys.add(key.value)
    return frozenset(keys) if returned else None


def _returned(function: ast.AST) -> Iterator[ast.expr | None]:
    """What stands after each `return` of the function itself."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.Return):
            yield node.value
        elif not isinstance(node, _INNER):
            yield from _returned(node)


def _is_nothing(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)
