"""References to Python functions: loading `python:MODULE:FUNCTION`, and a digest that changes with the code."""

from __future__ import annotations

import enum
import functools
import hashlib
import importlib
import inspect
import re
import sys
import textwrap
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path, PurePath
from typing import Any

from abreast.errors import BadInput, suggestion

_PREFIX = "python:"
_DEEPEST = 20
_LONGEST_HINT = 300
_SCRIPTS = ("__main__", "__mp_main__")
_PLAIN = (str, bytes, bool, int, float, complex)
_CODE = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType, type, functools.partial)
_STABLE = (*_PLAIN, *_CODE, tuple, list, dict, set, frozenset, PurePath, enum.Enum, re.Pattern)


def load_function(reference: str) -> Callable[..., Any]:
    """The function behind `python:MODULE:FUNCTION`; the function may be `Class.method`. Modules of the working folder
    are found as Python itself finds them.

    >>> load_function("python:math:sqrt")(9)
    3.0
    """
    module_name, _, path = reference.removeprefix(_PREFIX).partition(":")
    if not reference.startswith(_PREFIX) or not module_name or not path or ":" in path:
        raise BadInput(f'"{reference}" is not a function reference', "Write python:MODULE:FUNCTION.")
    found: Any = _imported(module_name, reference)
    for name in path.split("."):
        owner, found = found, getattr(found, name, _ABSENT)
        if found is _ABSENT:
            raise BadInput(*_no_such_name(reference, owner, name))
    if not callable(found):
        raise BadInput(f'"{reference}": {path} is not a function but a {type(found).__name__}')
    return found  # type: ignore[no-any-return]


def source_digest(function: Callable[..., Any]) -> str:
    """A digest that changes when the function's code may have changed.

    For a function of a module: its source and the module's file. For one of a script: its source and, in turn, the
    functions, classes and constants of the script that it refers to, so that other lines of the script do not count.
    Bound values (closures, defaults, the arguments of a partial) count for both.

    >>> source_digest(len) == source_digest(len)
    True
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in _Description().parts(function):
        digest.update(f"{len(part)}:{part}".encode(errors="surrogatepass"))
    return digest.hexdigest()


_ABSENT = object()


def _imported(name: str, reference: str) -> types.ModuleType:
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise BadInput(*_import_failed(reference, name, error)) from error
        fix = f'Is "{error.name}" installed, or a file in {here} or on PYTHONPATH?'
        raise BadInput(f'"{reference}": there is no module "{error.name}"', fix) from error
    except (Exception, SystemExit) as error:
        raise BadInput(*_import_failed(reference, name, error)) from error


def _import_failed(reference: str, name: str, error: BaseException) -> tuple[str, str]:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if len(frames) > 1 else ""
    if isinstance(error, SyntaxError):
        where = f" ({error.filename}, line {error.lineno})"
    reason = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    return f'"{reference}": importing {name} failed: {reason}{where}', f"Check that `python -c 'import {name}'` works."


def _no_such_name(reference: str, owner: Any, name: str) -> tuple[str, str]:
    hint = suggestion(
        name, [key for key in dir(owner) if not key.startswith("_") and callable(getattr(owner, key, None))]
    )
    place = getattr(owner, "__file__", None) or getattr(owner, "__name__", type(owner).__name__)
    hint = hint if len(hint) < _LONGEST_HINT else ""
    return f'"{reference}": {place} has no "{name}"{hint}', "Check the spelling, and that this is the file you mean."


class _Description:
    """Walks from a function over everything it is made of, each thing once; never writes a memory address."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}  # holds the values too: the id of a freed one may come again

    def parts(self, value: Any, depth: int = 0) -> Iterator[str]:
        if value is None or isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value:x}" if type(value) is int else f"{type(value).__name__} {value!r}"
        elif id(value) in self._seen or depth > _DEEPEST:
            yield "(seen)"
        else:
            self._seen[id(value)] = value
            yield from self._composed(value, depth + 1)

    def _composed(self, value: Any, depth: int) -> Iterator[str]:
        yield _qualified_name(value)
        if isinstance(value, types.FunctionType):
            yield from self._function(value, depth)
        elif isinstance(value, types.MethodType):
            yield from self._each(depth, value.__func__, value.__self__)
        elif isinstance(value, functools.partial):
            yield from self._each(depth, value.func, value.args, value.keywords)
        elif isinstance(value, type):
            yield from self._class(value, depth)
        elif isinstance(value, types.ModuleType):
            yield _own_file(value)
        elif hasattr(value, "__wrapped__"):
            yield from self._each(depth, value.__wrapped__)
        else:
            yield from self._instance(value, depth)

    def _each(self, depth: int, *values: Any) -> Iterator[str]:
        for value in values:
            yield from self.parts(value, depth)

    def _function(self, function: types.FunctionType, depth: int) -> Iterator[str]:
        yield from self._code(function.__code__, depth)
        cells = (_cell_value(cell) for cell in function.__closure__ or ())
        yield from self._each(depth, function.__defaults__, function.__kwdefaults__, *cells)
        if _in_script(function):
            yield from self._referred(_names(function.__code__), function.__globals__, depth)
        else:
            yield _own_file(sys.modules.get(function.__module__ or ""))

    def _code(self, code: types.CodeType, depth: int) -> Iterator[str]:
        try:
            yield textwrap.dedent(inspect.getsource(code)).strip()
        except (OSError, TypeError, IndexError, SyntaxError):  # typed at a prompt or made by exec
            yield from self._each(depth, code.co_code, code.co_names, code.co_consts)

    def _referred(self, names: set[str], scope: dict[str, Any], depth: int) -> Iterator[str]:
        for name in sorted(names & scope.keys()):
            yield name
            value = scope[name]
            yield from self.parts(value if _is_code_or_constant(value) else type(value), depth)

    def _class(self, value: type, depth: int) -> Iterator[str]:
        if not _in_script(value):
            yield _own_file(sys.modules.get(value.__module__))
            return
        try:
            yield textwrap.dedent(inspect.getsource(value)).strip()
        except (OSError, TypeError, IndexError, SyntaxError):
            yield "(no source)"
        yield from self._each(depth, *value.__bases__)
        for name, member in sorted(vars(value).items()):
            function = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", None) or member))
            if isinstance(function, types.FunctionType) and _in_script(function):
                yield name
                yield from self._referred(_names(function.__code__), function.__globals__, depth)

    def _instance(self, value: Any, depth: int) -> Iterator[str]:
        if isinstance(value, types.CodeType):
            yield from self._code(value, depth)
        elif isinstance(value, dict):
            yield from self._each(depth, *(part for item in value.items() for part in item))
        elif isinstance(value, list | tuple):
            yield from self._each(depth, *value)
        elif isinstance(value, set | frozenset):
            yield from sorted(f"{type(item).__name__} {item!r}" for item in value if _has_plain_repr(item))
        elif isinstance(value, PurePath | enum.Enum):
            yield str(value)
        elif isinstance(value, re.Pattern):
            yield from self._each(depth, value.pattern, value.flags)
        elif not isinstance(value, types.BuiltinFunctionType):
            attributes = getattr(value, "__dict__", {})
            stable = {key: each for key, each in attributes.items() if _is_code_or_constant(each)}
            yield from self._each(depth, type(value), stable)


def _qualified_name(value: Any) -> str:
    owner = value if hasattr(value, "__qualname__") else type(value)
    module = getattr(owner, "__module__", None)
    return f"{'__main__' if module in _SCRIPTS else module}.{owner.__qualname__}"


def _in_script(value: Any) -> bool:
    module = getattr(value, "__module__", None)
    return module in _SCRIPTS or module not in sys.modules


def _is_code_or_constant(value: Any) -> bool:
    """Not the clients, locks and open files, whose insides differ from run to run."""
    return value is None or isinstance(value, _STABLE) or hasattr(value, "__wrapped__") or is_dataclass(value)


def _has_plain_repr(value: Any) -> bool:
    return value is None or isinstance(value, _PLAIN)


def _own_file(module: types.ModuleType | None) -> str:
    """The content of a module's file. What is installed changes with its version, not with the user's code: a name."""
    name = getattr(module, "__name__", "")
    file = getattr(module, "__file__", None)
    if not file or name.partition(".")[0] in sys.stdlib_module_names or "site-packages" in Path(file).parts:
        return name
    try:
        return f"{name} {hashlib.blake2b(Path(file).read_bytes()).hexdigest()}"
    except OSError:
        return name


def _cell_value(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _names(code: types.CodeType) -> set[str]:
    """The names a function refers to, those of its inner functions included."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*inner)


def add_to_path(folder: Path) -> None:
    """Let `python:module:function` find modules beside the spec."""
    text = str(folder.resolve())
    if text not in sys.path:
        sys.path.insert(0, text)
