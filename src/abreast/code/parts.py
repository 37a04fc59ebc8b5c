"""The code that a user's function depends on, by name, to report what changed; `digest` only detects that it did."""

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

MAX_MODULES = 1_000  # listed by name
SHORT_DIGEST = 12  # hexadecimal digits


@dataclass(frozen=True, slots=True)
class CodeParts:
    """`own` is a digest of the function itself, `modules` are digests of the user's modules that it uses, `packages`
    the versions of installed packages, `files` the user's files. Field names are stored."""

    own: str = ""
    modules: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()


def parts(function: Any) -> CodeParts:
    """List the code that a function depends on, without importing or running any of it.

    >>> from textwrap import dedent
    >>> parts(dedent).modules
    {}
    """
    inner = unwrap_function(function)
    code, scope = getattr(inner, "__code__", None), getattr(inner, "__globals__", None)
    listing = Modules()
    module = getattr(inner, "__module__", None)
    listing.add(module)
    own = ""
    files = set[Path]()
    if isinstance(code, types.CodeType) and isinstance(scope, dict):
        definition = listing.definition_of(code, scope)
        own = definition.digest[:SHORT_DIGEST] if definition else ""
        if module in SCRIPTS and definition:  # in a script, only the function and its imports count
            listing.add_imports(definition.imports, scope)
        if is_own_file(code.co_filename):
            files.add(Path(code.co_filename))
    modules = {name: content[:SHORT_DIGEST] for name, content in sorted(listing.files.items())}
    for name in modules:
        origin = getattr(sys.modules.get(name), "__file__", None)
        if origin and is_own_file(origin):
            files.add(Path(origin))
    entries = (text.split(" ") for text in sorted(listing.packages))
    packages = {name: details[0] if details else "" for name, *details in entries}
    first_modules = dict(list(modules.items())[:MAX_MODULES])
    return CodeParts(own, first_modules, packages, tuple(sorted(files)))


def unwrap_function(function: Any) -> Any:
    """The function inside a partial, a method, a decorator or a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function) and callable(function):
        function = type(function).__call__
    return inspect.unwrap(getattr(function, "__func__", function))


_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def returned_keys(function: Any) -> frozenset[str] | None:
    """The keys of the dicts that a function returns; None if not all are literals, or it returns something else.

    >>> returned_keys(returned_keys) is None
    True
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(unwrap_function(function))))
    except (OSError, TypeError, SyntaxError, ValueError, RecursionError):
        return None
    first = tree.body[0] if tree.body else None
    if not isinstance(first, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    keys: set[str] = set()
    values = list(_return_values(first))
    for value in values:
        if not isinstance(value, ast.Dict):
            return None
        for key in value.keys:
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                return None
            keys.add(key.value)
    return frozenset(keys) if values else None


def _return_values(function: ast.AST) -> Iterator[ast.expr]:
    """The values that a function returns except None, without those of inner functions."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.Return):
            is_none = isinstance(node.value, ast.Constant) and node.value.value is None
            if node.value is not None and not is_none:
                yield node.value
        elif not isinstance(node, _INNER):
            yield from _return_values(node)
