"""References to Python functions: finding and loading `python:MODULE:FUNCTION`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from abreast.code.modules import is_own_file
from abreast.errors import BadInput, suggestion

_PREFIX = "python:"
_LONGEST_HINT = 300
_ABSENT = object()


def add_to_path(folder: Path) -> None:
    """Let `python:module:function` find modules beside the spec first, then those of the working folder."""
    for text in (str(Path.cwd()), str(folder.resolve())):
        if sys.path[:1] != [text]:
            sys.path[:] = [text, *(entry for entry in sys.path if entry != text)]


def load_function(reference: str) -> Callable[..., Any]:
    """The function behind `python:MODULE:FUNCTION`; the function may be `Class.method` or `object.method`. Modules of
    the working folder are found as Python itself finds them.

    >>> load_function("python:math:sqrt")(9)
    3.0
    """
    module_name, _, path = reference.removeprefix(_PREFIX).partition(":")
    if not reference.startswith(_PREFIX) or not module_name or not path or ":" in path:
        raise BadInput(f'"{reference}" is not a function reference', "Write python:MODULE:FUNCTION.")
    if module_name.startswith(".") or "/" in module_name or "\\" in module_name or module_name.endswith(".py"):
        raise BadInput(f'"{reference}" does not name a module', _as_module(module_name, path))
    owner: Any = None
    found: Any = _imported(module_name, reference)
    for name in path.split("."):
        owner, found = found, _attribute(found, name, reference)
    _check_callable(reference, owner, found)
    return found  # type: ignore[no-any-return]


def _as_module(name: str, path: str) -> str:
    if ".." in name:
        return (
            "Modules are found beside the spec, in the working folder and on PYTHONPATH: write python:MODULE:FUNCTION."
        )
    dotted = name.removesuffix(".py").replace("\\", "/").strip("./").replace("/", ".")
    return f"Write {_PREFIX}{dotted}:{path}"


def _attribute(owner: Any, name: str, reference: str) -> Any:
    try:
        found = getattr(owner, name, _ABSENT)
    except Exception as error:
        raise BadInput(f'"{reference}": "{name}" cannot be read: {_reason(error)}{_own_line(error)}') from error
    if found is not _ABSENT:
        return found
    known = [
        key for key in dir(owner) if not key.startswith("_") and callable(inspect.getattr_static(owner, key, None))
    ]
    hint = suggestion(name, known)
    place = getattr(owner, "__file__", None) or getattr(owner, "__name__", type(owner).__name__)
    raise BadInput(
        f'"{reference}": {place} has no "{name}"{hint if len(hint) < _LONGEST_HINT else ""}',
        "Check the spelling, and that this is the file you mean.",
    )


def _check_callable(reference: str, owner: Any, found: Any) -> None:
    module, _, path = reference.removeprefix(_PREFIX).partition(":")
    above, _, name = path.rpartition(".")
    if not callable(found):
        kind = type(found).__name__
        kind = f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
        fix = f"Write a function in {module}, and its name here."
        raise BadInput(f'"{reference}": {path} is not a function but {kind}', fix)
    if isinstance(found, type) and found.__module__ != "builtins":
        made = found.__name__.lower()
        method = f"{made}.METHOD" if "__call__" not in dir(found) else made
        fix = f"Make one in {module}, such as {made} = {found.__name__}(), and write {_PREFIX}{module}:{method}"
        raise BadInput(f'"{reference}": {path} is a class, not a function', fix)
    if isinstance(owner, type) and isinstance(inspect.getattr_static(owner, name), types.FunctionType):
        made = owner.__name__.lower()
        fix = f"Make one in {module}, such as {made} = {owner.__name__}(), and write {_PREFIX}{module}:{made}.{name}"
        raise BadInput(f'"{reference}": {name} is a method and needs an object of the class {above}', fix)


def _imported(name: str, reference: str) -> types.ModuleType:
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    _check_not_another(name, reference)
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            _refuse(reference, name, error)
        raise BadInput(f'"{reference}": there is no module "{error.name}"', _elsewhere(name, reference)) from error
    except BaseException as error:  # noqa: BLE001 - sys.exit, and whatever else a module does when it is imported
        _refuse(reference, name, error)


def _check_not_another(name: str, reference: str) -> None:
    """A module of that name may be loaded already, from the folder of another spec."""
    loaded = getattr(sys.modules.get(name), "__file__", None)
    if not loaded or "." in name or not loaded.endswith(".py") or not is_own_file(loaded):
        return
    for folder in sys.path:
        for file in (Path(folder, name, "__init__.py"), Path(folder, f"{name}.py")):
            if file.is_file():
                if not file.samefile(loaded):
                    fix = "Give one of them another name, or run them in processes of their own."
                    raise BadInput(f'"{reference}" is {file} here, but {loaded} is loaded under that name', fix)
                return


def _elsewhere(name: str, reference: str) -> str:
    """What to write for a module that is not on the path, if it is in a folder near by."""
    here = Path.cwd()
    path, function = name.replace(".", "/"), reference.rpartition(":")[2]
    for folder in dict.fromkeys([Path(sys.path[0]), here]):
        for pattern in (f"*/{path}.py", f"*/*/{path}.py"):
            for file in sorted(folder.glob(pattern)):
                dotted = ".".join(file.relative_to(folder).with_suffix("").parts)
                if not dotted.startswith(".") and all(part.isidentifier() for part in dotted.split(".")):
                    return f"There is {file}: write {_PREFIX}{dotted}:{function}"
    near = suggestion(name, [file.stem for file in here.glob("*.py")]) if name.isidentifier() else ""
    near = near if "did you mean" in near else ""
    return f'Is "{name}" installed, or a file in {here} or on PYTHONPATH?{near}'


def _refuse(reference: str, name: str, error: BaseException) -> NoReturn:
    message = f'"{reference}": importing {name} failed: {_reason(error)}{_own_line(error)}'
    fix = f"Check that `python -c 'import {name}'` works."
    if isinstance(error, ModuleNotFoundError) and error.name:
        fix = f'Is "{error.name}" installed in {sys.prefix}, or a file in {Path.cwd()} or on PYTHONPATH?'
    elif isinstance(error, SystemExit):
        fix = 'Put what ends the program under: if __name__ == "__main__":'
    raise BadInput(message, fix) from error


def _reason(error: BaseException) -> str:
    text = str(error.msg if isinstance(error, SyntaxError) else error)
    return f"{type(error).__name__}: {' '.join(text.split())[:_LONGEST_HINT]}".removesuffix(": ")


def _own_line(error: BaseException) -> str:
    """The last line of the user's own on the way to an error, as ` (file, line 3)`."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_file():
        return f" ({error.filename}, line {error.lineno})"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if is_own_file(frame.filename)]
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
