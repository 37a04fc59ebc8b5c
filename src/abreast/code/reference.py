"""References to Python functions: load `python:MODULE:FUNCTION`, with or without arguments."""

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
from abreast.errors import BadInput, did_you_mean, suggestion
from abreast.plugins import is_async

_PREFIX = "python:"
_MAX_HINT = 300
_ABSENT = object()
_FORM = "use {from: python:MODULE:FUNCTION, NAME: VALUE}"


def add_to_path(folder: Path) -> None:
    """Let `python:module:function` find modules next to the spec first, then in the working folder."""
    for text in (str(Path.cwd()), str(folder.resolve())):
        if sys.path[:1] != [text]:
            sys.path[:] = [text, *(entry for entry in sys.path if entry != text)]


def load_function(reference: str) -> Callable[..., Any]:
    """Load `python:MODULE:FUNCTION`, where FUNCTION may also be `Class.method` or `object.method`.

    >>> load_function("python:math:sqrt")(9)
    3.0
    """
    module_name, _, path = reference.removeprefix(_PREFIX).partition(":")
    if not reference.startswith(_PREFIX) or not module_name or not path or ":" in path:
        raise BadInput(f'"{reference}" is not a function reference', "use python:MODULE:FUNCTION")
    if module_name.startswith(".") or "/" in module_name or "\\" in module_name or module_name.endswith(".py"):
        raise BadInput(f'"{reference}" does not name a module', _module_fix(module_name, path))
    owner: Any = None
    function: Any = _import_module(module_name, reference)
    for name in path.split("."):
        owner, function = function, _attribute(function, name, reference)
    _check_callable(reference, owner, function)
    return function  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Call:
    """A function with arguments from a spec, copied for each call. Digests of answers contain this class's name."""

    name: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments, **copy.deepcopy(dict(self.arguments)))

    def __str__(self) -> str:
        """Python source, such as `load(count=3)`."""
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.name.rpartition(':')[2]}({arguments})"


def reference_in(setting: Any) -> str | None:
    """Return the function that a setting refers to, as text or in `{from: python:MODULE:FUNCTION, NAME: VALUE}`.

    >>> reference_in({"from": "python:math:log", "base": 2}), reference_in("python:math:sqrt"), reference_in(len)
    ('python:math:log', 'python:math:sqrt', None)
    """
    reference = setting.get("from") if isinstance(setting, Mapping) else setting
    return str(reference) if isinstance(reference, str) else None


def references_in(setting: Any) -> list[str]:
    """List the reference in a setting, and those among its arguments.

    >>> references_in({"from": "python:mine:shorten", "by": "python:mine:words", "to": 3})
    ['python:mine:shorten', 'python:mine:words']
    """
    reference = reference_in(setting)
    values = [value for name, value in setting.items() if name != "from"] if isinstance(setting, Mapping) else []
    return [*([] if reference is None else [reference]), *filter(_is_reference, values)]


def load_call(where: str, setting: Mapping[str, Any], first: Sequence[str] = ()) -> Call:
    """Load and check `{from: python:MODULE:FUNCTION, NAME: VALUE}`. `first` names the positional arguments of later
    calls. Values that are references are replaced by their functions.

    >>> load_call("cases", {"from": "python:builtins:sorted", "reverse": True}, ["items"])([1, 2])
    [2, 1]
    """
    arguments = _arguments(where, setting)
    name = str(setting["from"])
    try:
        functions = {key: load_function(value) for key, value in arguments.items() if _is_reference(value)}
        call = Call(name, load_function(name), {**arguments, **functions})
    except BadInput as error:
        raise BadInput(f"{where}: {error.message}", error.fix) from error
    if is_async(call.function):
        raise BadInput(f"{where}: {name} is async", "use a plain function")
    _check_arguments(where, call, first)
    return call


def _arguments(where: str, setting: Mapping[str, Any]) -> dict[str, Any]:
    if "from" not in setting:
        raise BadInput(f'{where}: "from" is missing', _FORM)
    if not isinstance(setting["from"], str):
        raise BadInput(f"{where}: from must be text, got {_short_repr(setting['from'])}", _FORM)
    arguments = {name: value for name, value in setting.items() if name != "from"}
    for name, value in arguments.items():
        if not isinstance(name, str):
            raise BadInput(f"{where}: the argument {_short_repr(name)} is not a name", _FORM)
        if not _survives_json(value):
            fix = "use text, numbers, true, false, null, or lists and mappings of these"
            raise BadInput(f"{where}: {name} must be a JSON value, got {_short_repr(value)}", fix)
    return arguments


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(_PREFIX)


def _short_repr(value: Any) -> str:
    try:
        return repr(value)[:_MAX_HINT]
    except (ValueError, RecursionError):  # a number with thousands of digits, or deeply nested lists
        return f"a {type(value).__name__} that cannot be shown"


def _survives_json(value: Any) -> bool:
    """Whether JSON preserves a value, so that a resumed run gets the same one."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


def _check_arguments(where: str, call: Call, first: Sequence[str]) -> None:
    """Check the arguments against the signature before anything is called."""
    try:
        signature = inspect.signature(call.function)
    except (TypeError, ValueError):  # written in C
        return
    parameters = list(signature.parameters.values())
    positional = [parameter for parameter in parameters if parameter.kind in _BY_POSITION][: len(first)]
    keywords = [parameter for parameter in parameters if parameter.kind in _BY_NAME and parameter not in positional]
    names = [parameter.name for parameter in keywords]
    fix = f"use the arguments {', '.join(names)}" if names else "remove the arguments, it takes none"
    if not any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters):
        for name in call.arguments:
            if name not in names:
                raise BadInput(f'{where}: {call.name} does not take "{name}"{did_you_mean(name, names)}', fix)
    for parameter in keywords:
        name = parameter.name
        if parameter.default is parameter.empty and name not in call.arguments:
            raise BadInput(f'{where}: {call.name} needs "{name}"', f"add {name}: VALUE next to from; {fix}")
    try:
        signature.bind(*first, **call.arguments)
    except TypeError as error:
        example = f"function({', '.join([*first, 'NAME=VALUE'])})"
        raise BadInput(f"{where}: {call.name}{signature} cannot be called as {example}: {error}", fix) from error


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _module_fix(name: str, path: str) -> str:
    if ".." in name:
        return "use python:MODULE:FUNCTION with a module next to the spec, in the working folder or on PYTHONPATH"
    dotted = name.removesuffix(".py").replace("\\", "/").strip("./").replace("/", ".")
    return f"use {_PREFIX}{dotted}:{path}"


def _attribute(owner: Any, name: str, reference: str) -> Any:
    try:
        value = getattr(owner, name, _ABSENT)
    except Exception as error:
        raise BadInput(f'"{reference}": "{name}" cannot be read: {_reason(error)}{_own_line(error)}') from error
    if value is not _ABSENT:
        return value
    names = [key for key in dir(owner) if key[:1] != "_" and callable(inspect.getattr_static(owner, key, None))]
    hint = suggestion(name, names)
    module = getattr(owner, "__file__", None) or getattr(owner, "__name__", type(owner).__name__)
    raise BadInput(
        f'"{reference}": {module} has no "{name}"{hint if len(hint) < _MAX_HINT else ""}',
        "check the spelling, and that this is the right file",
    )


def _check_callable(reference: str, owner: Any, value: Any) -> None:
    module, _, path = reference.removeprefix(_PREFIX).partition(":")
    class_path, _, name = path.rpartition(".")
    if not callable(value):
        kind = type(value).__name__
        kind = f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
        fix = f"define a function in {module}, and use its name"
        raise BadInput(f'"{reference}": {path} is not a function but {kind}', fix)
    if isinstance(value, type) and value.__module__ != "builtins":
        method = "" if "__call__" in dir(value) else ".METHOD"
        fix = _instance_fix(module, value, method)
        raise BadInput(f'"{reference}": {path} is a class, not a function', fix)
    if isinstance(owner, type) and isinstance(inspect.getattr_static(owner, name), types.FunctionType):
        fix = _instance_fix(module, owner, f".{name}")
        raise BadInput(f'"{reference}": {name} is a method and needs an object of the class {class_path}', fix)


def _instance_fix(module: str, kind: type, method: str) -> str:
    name = kind.__name__.lower()
    return f"create an object in {module}, such as {name} = {kind.__name__}(), and use {_PREFIX}{module}:{name}{method}"


def _import_module(name: str, reference: str) -> types.ModuleType:
    folder = str(Path.cwd())
    if folder not in sys.path and "" not in sys.path:
        sys.path.insert(0, folder)
    _check_not_another(name, reference)
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            _refuse(reference, name, error)
        raise BadInput(f'"{reference}": no module named "{error.name}"', _import_fix(name, reference)) from error
    except BaseException as error:  # noqa: BLE001 - importing a module may do anything, such as sys.exit
        _refuse(reference, name, error)


def _check_not_another(name: str, reference: str) -> None:
    """Refuse a module if another one of that name is loaded, from the folder of another spec."""
    loaded = getattr(sys.modules.get(name), "__file__", None)
    if not loaded or "." in name or not loaded.endswith(".py") or not is_own_file(loaded):
        return
    for folder in sys.path:
        for file in (Path(folder, name, "__init__.py"), Path(folder, f"{name}.py")):
            if file.is_file():
                if not file.samefile(loaded):
                    fix = "rename one of them, or run them in separate processes"
                    raise BadInput(f'"{reference}" is {file} here, but {loaded} is loaded under that name', fix)
                return


def _import_fix(name: str, reference: str) -> str:
    """Suggest how to refer to a module that is not on the path, if it is in a folder nearby."""
    cwd = Path.cwd()
    path, function = name.replace(".", "/"), reference.rpartition(":")[2]
    for folder in dict.fromkeys([Path(sys.path[0]), cwd]):
        for pattern in (f"*/{path}.py", f"*/*/{path}.py"):
            for file in sorted(folder.glob(pattern)):
                dotted = ".".join(file.relative_to(folder).with_suffix("").parts)
                if not dotted.startswith(".") and all(part.isidentifier() for part in dotted.split(".")):
                    return f"use {_PREFIX}{dotted}:{function} for {file}"
    hint = did_you_mean(name, [file.stem for file in cwd.glob("*.py")]) if name.isidentifier() else ""
    return f'install "{name}", or put it in {cwd} or on PYTHONPATH{hint}'


def _refuse(reference: str, name: str, error: BaseException) -> NoReturn:
    message = f'"{reference}": importing {name} failed: {_reason(error)}{_own_line(error)}'
    fix = f"make sure that `python -c 'import {name}'` works"
    if isinstance(error, ModuleNotFoundError) and error.name:
        fix = f'install "{error.name}" in {sys.prefix}, or put it in {Path.cwd()} or on PYTHONPATH'
    elif isinstance(error, SystemExit):
        fix = 'move the code that exits under `if __name__ == "__main__":`'
    raise BadInput(message, fix) from error


def _reason(error: BaseException) -> str:
    text = str(error.msg if isinstance(error, SyntaxError) else error)
    return f"{type(error).__name__}: {' '.join(text.split())[:_MAX_HINT]}".removesuffix(": ")


def _own_line(error: BaseException) -> str:
    """The last line of the user's own code in a traceback, as ` (file, line 3)`."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_file():
        return f" ({error.filename}, line {error.lineno})"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if is_own_file(frame.filename)]
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
