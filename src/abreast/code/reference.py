"""References to Python functions: finding and loading `python:MODULE:FUNCTION`, with arguments or without."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import json
import sys
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from abreast.code.modules import is_own_file
from abreast.errors import BadInput, suggestion
from abreast.plugins import is_async

_PREFIX = "python:"
_LONGEST_HINT = 300
_ABSENT = object()
_FORM = "write {from: python:MODULE:FUNCTION, NAME: VALUE}"


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


@dataclass(frozen=True, slots=True)
class Call:
    """A function and the arguments that a spec gives it; what a call does to them, no other call sees."""

    name: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]

    def __call__(self, *given: Any) -> Any:
        return self.function(*given, **copy.deepcopy(dict(self.arguments)))

    def __str__(self) -> str:
        """As Python would write it, such as `load(count=3)`."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.name.rpartition(':')[2]}({given})"


def reference_in(written: Any) -> str | None:
    """The reference that stands in `python:MODULE:FUNCTION` or in `{from: python:MODULE:FUNCTION, NAME: VALUE}`.

    >>> reference_in({"from": "python:math:log", "base": 2}), reference_in("python:math:sqrt"), reference_in(len)
    ('python:math:log', 'python:math:sqrt', None)
    """
    found = written.get("from") if isinstance(written, Mapping) else written
    return str(found) if isinstance(found, str) else None


def references_in(written: Any) -> list[str]:
    """That reference, and those that are its arguments.

    >>> references_in({"from": "python:mine:shorten", "by": "python:mine:words", "to": 3})
    ['python:mine:shorten', 'python:mine:words']
    """
    own = reference_in(written)
    given = [value for name, value in written.items() if name != "from"] if isinstance(written, Mapping) else []
    return [*([] if own is None else [own]), *(value for value in given if _is_reference(value))]


def load_call(where: str, written: Mapping[str, Any], first: Sequence[str] = ()) -> Call:
    """What `{from: python:MODULE:FUNCTION, NAME: VALUE}` says, checked; `first` is what is given by position. A value
    that is such a reference itself is handed over as the function.

    >>> load_call("cases", {"from": "python:builtins:sorted", "reverse": True}, ["items"])([1, 2])
    [2, 1]
    """
    arguments = _arguments(where, written)
    name = str(written["from"])
    try:
        functions = {key: load_function(value) for key, value in arguments.items() if _is_reference(value)}
        call = Call(name, load_function(name), {**arguments, **functions})
    except BadInput as error:
        raise BadInput(f"{where}: {error.message}", error.fix) from error
    if is_async(call.function):
        raise BadInput(f"{where}: {name} is async", "write a plain function")
    _check_arguments(where, call, first)
    return call


def _arguments(where: str, written: Mapping[str, Any]) -> dict[str, Any]:
    if "from" not in written:
        raise BadInput(f'{where}: "from" is missing', _FORM)
    if not isinstance(written["from"], str):
        raise BadInput(f"{where}: from must be text, got {_shown(written['from'])}", _FORM)
    arguments = {name: value for name, value in written.items() if name != "from"}
    for name, value in arguments.items():
        if not isinstance(name, str):
            raise BadInput(f"{where}: the argument {_shown(name)} is not a name", _FORM)
        if not _is_kept_by_json(value):
            fix = "write text, numbers, true, false, null, or lists and mappings of them"
            raise BadInput(f"{where}: {name} must be what JSON can say, got {_shown(value)}", fix)
    return arguments


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(_PREFIX)


def _shown(value: Any) -> str:
    try:
        return repr(value)[:_LONGEST_HINT]
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists in lists
        return f"a {type(value).__name__} that cannot be shown"


def _is_kept_by_json(value: Any) -> bool:
    """Whether a run that goes on with what is stored has the same value."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


def _check_arguments(where: str, call: Call, first: Sequence[str]) -> None:
    """What a function does not take, and what it needs, is said before anything is called."""
    try:
        signature = inspect.signature(call.function)
    except (TypeError, ValueError):  # of C
        return
    parameters = list(signature.parameters.values())
    filled = [one for one in parameters if one.kind in _BY_POSITION][: len(first)]
    taken = [one for one in parameters if one.kind in _BY_NAME and one not in filled]
    names = [one.name for one in taken]
    takes = f"it takes {', '.join(names)}" if names else "it takes no arguments"
    if not any(one.kind == one.VAR_KEYWORD for one in parameters):
        for name in call.arguments:
            if name not in names:
                near = suggestion(name, names) if names else ""
                near = near if "did you mean" in near else ""
                raise BadInput(f'{where}: {call.name} does not take "{name}"{near}', takes)
    for one in taken:
        if one.default is one.empty and one.name not in call.arguments:
            raise BadInput(f'{where}: {call.name} needs "{one.name}"', f"add {one.name}: VALUE beside from; {takes}")
    try:
        signature.bind(*first, **call.arguments)
    except TypeError as error:
        called = f"function({', '.join([*first, 'NAME=VALUE'])})"
        raise BadInput(f"{where}: {call.name}{signature} cannot be called as {called}: {error}", takes) from error


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


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
