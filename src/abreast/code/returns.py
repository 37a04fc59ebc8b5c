"""What keys a function returns, as far as that is written down: known before anything is paid for."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

from abreast.code.parts import innermost

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
