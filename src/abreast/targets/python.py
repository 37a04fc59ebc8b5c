"""Python functions as targets: sync in threads or processes, async on the loop."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import json
import pickle
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from abreast.code.digest import source_digest
from abreast.code.reference import load_function
from abreast.digest import compose, digest
from abreast.errors import BadInput, Classified, Crashed, NoAnswer, TrialError, classify, did_you_mean
from abreast.model import Answer, Case, Executor, Request, Trial, Usage, has_fields
from abreast.targets.base import Target, Workers
from abreast.targets.request import Renderer, params_as_mapping
from abreast.text import storable

_USAGE = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


class PythonTarget(Target):
    """Calls `function(case, **params)`, or `function(item, params)` with a dataclass or pydantic instance.

    Trials do not see changes that a function makes to its parameters.
    """

    def __init__(
        self, where: str, target: str | Callable[..., Any], params: Any, executor: Executor, version: str
    ) -> None:
        self.function: Callable[..., Any] = load_function(target) if isinstance(target, str) else target
        self.name = target if isinstance(target, str) else reference_of(self.function)
        self._typed = has_fields(params)
        self._params: Mapping[str, Any] = {} if self._typed else dict(params)
        self._object = params
        self._is_async = inspect.iscoroutinefunction(inspect.unwrap(_innermost(self.function)))
        self._in_process = executor == "process"
        self.place = "process" if self._in_process else "loop" if self._is_async else "thread"
        if self._is_async and self._in_process:
            raise BadInput(
                f"{where}: {self.name} is async; executor: process is for plain functions", "remove executor"
            )
        if self._typed:
            _check_stable(where, params)
        if self._in_process:
            _check_sendable(where, self.function, self.name)
            if self._typed:
                _check_sendable(where, params, type(params).__qualname__)
        rendered = {key: value for key, value in self._params.items() if key in ("prompt", "transform")}
        self._renderer = Renderer(where, rendered)
        self.transforms, self.quick = self._renderer.transforms, self._renderer.quick
        self.sees = "input" if self._typed else "case"
        self._arguments = {key: value for key, value in self._params.items() if key != "transform"}
        self._mutable = any(isinstance(value, list | dict | set) for value in self._arguments.values())
        self._copier = _ParamsCopier(params) if self._typed else None
        self._check_signature(where)
        code = source_digest(self.function, versioned=bool(version))
        self.version = compose("python", self.name, code, version, self._renderer.version)

    def _check_signature(self, where: str) -> None:
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):
            return
        try:
            if self._typed:
                signature.bind("item", self._object)
            else:
                signature.bind("case", **self._arguments)
        except TypeError as error:
            raise BadInput(
                f"{where}: {self.name}{signature} cannot be called with these parameters: {error}",
                self._suggest_signature(signature),
            ) from error

    def _suggest_signature(self, signature: inspect.Signature) -> str:
        name = getattr(_innermost(self.function), "__name__", "function").replace("<lambda>", "function")
        if self._typed:
            return f"write def {name}(item, params) for a dataclass of parameters"
        accepted = list(signature.parameters)[1:]
        unknown = [key for key in self._arguments if key not in accepted]
        hint = did_you_mean(unknown[0], accepted) if unknown else ""
        definition = f"def {name}({', '.join(['case', *self._arguments])})"
        return f"write {definition}{hint}, or a dataclass of parameters for {name}(item, params)"

    def request(self, trial: Trial) -> Request:
        return self._renderer.request(trial)

    async def answer(self, trial: Trial, request: Request, attempt: int, workers: Workers) -> Answer:
        try:
            return as_answer(await self._call(trial.case, request, workers))
        except TrialError:
            raise
        except Exception as error:
            failure = classify(error, in_user_code=True)
            if self._typed and isinstance(error, AttributeError) and error.name in Case.__slots__:
                hint = "with a dataclass of parameters the function receives case.input, not the case"
                failure = dataclasses.replace(failure, message=f"{failure.message}; {hint}")
            raise Classified(failure) from error

    async def _call(self, case: Case, request: Request, workers: Workers) -> Any:
        if request.input is not case.input:
            case = dataclasses.replace(case, input=request.input)
        arguments: tuple[Any, ...] = (case,) if self._copier is None else (case.input, self._copier.copy())
        keywords = copy.deepcopy(self._arguments) if self._mutable else self._arguments
        if "prompt" in keywords:
            keywords = {**keywords, "prompt": request.prompt}
        call = functools.partial(self.function, **keywords) if keywords else self.function
        if self._is_async:
            returned = await call(*arguments)
        elif self._in_process:
            returned = await workers.in_process(call, *arguments)
        else:
            returned = await workers.in_thread(call, *arguments)
            if inspect.isawaitable(returned):  # a plain function that returns a coroutine
                returned = await returned
        return returned


class _ParamsCopier:
    """Copies an object of parameters unless it is immutable."""

    def __init__(self, params: Any) -> None:
        self._params = params
        fields = params_as_mapping(params)
        self._mutable = [name for name, value in fields.items() if isinstance(value, list | dict | set)]
        self._is_immutable = _is_frozen(type(params)) and not self._mutable

    def copy(self) -> Any:
        if self._is_immutable:
            return self._params
        params = copy.copy(self._params)
        for name in self._mutable:
            object.__setattr__(params, name, copy.deepcopy(getattr(params, name)))  # works for frozen classes, too
        return params


def _is_frozen(kind: Any) -> bool:
    flags = getattr(kind, "__dataclass_params__", None)
    return bool(flags.frozen if flags is not None else kind.model_config.get("frozen"))


def _check_stable(where: str, params: Any) -> None:
    try:
        digest(params)
    except TypeError as error:
        raise BadInput(
            f"{where}: a field of {type(params).__qualname__} has no stable digest: {error}",
            "pass functions in a mapping of parameters: {name: function}",
        ) from error


def _check_sendable(where: str, value: Any, name: str) -> None:
    try:
        pickle.dumps(value)
    except Exception as error:
        raise BadInput(
            f"{where}: {name} cannot be sent to another process ({error})",
            "define it at the top of a module, or remove executor: process",
        ) from error


def reference_of(function: Callable[..., Any]) -> str:
    """Return the name of a function in tables and messages."""
    inner = _innermost(function)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    return f"python:{getattr(inner, '__module__', '?')}:{name}"


def _innermost(function: Callable[..., Any]) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function) and callable(function):
        return type(function).__call__ if inspect.iscoroutinefunction(type(function).__call__) else function
    return function


_ANSWERS = (str, bool, int, float, list, tuple, set, frozenset, Decimal)


def as_answer(returned: Any) -> Answer:
    """Convert the return value of a function.

    >>> as_answer("42").text, as_answer({"prediction": 3, "confidence": 0.9}).data
    ('42', {'confidence': 0.9})
    """
    if isinstance(returned, Answer):
        return returned
    if returned is None:
        raise NoAnswer("the function returned None")
    if isinstance(returned, Mapping):
        return _from_mapping(dict(returned))
    if not isinstance(returned, _ANSWERS) and not hasattr(returned, "tolist"):
        raise Crashed(f"the function returned a {type(returned).__name__}: return text, a number, a list or a dict")
    return Answer(storable(as_text(returned)), None if isinstance(returned, str) else returned)


def _from_mapping(data: dict[str, Any]) -> Answer:
    error = data.get("error")
    value: Any
    key = next((name for name in ("prediction", "answer") if name in data), None)
    if error and (key is None or data[key] is None):
        raise Crashed(str(error))
    if key is None:
        text, value = as_text(data), data
    else:
        returned = data.pop(key)
        if returned is None:
            raise NoAnswer(f'the function returned {{"{key}": None}}')
        text, value = as_text(returned), None if isinstance(returned, str) else returned
    tokens = {name: data.pop(name) for name in _USAGE if name in data}
    usage = Usage(**{name: None if number is None else int(number) for name, number in tokens.items()})
    cost = data.pop("cost_usd", None)
    raw, model = data.pop("raw_response", None), data.pop("model", None)
    return Answer(
        storable(text),
        value,
        {str(name): item for name, item in data.items()},
        usage,
        cost_usd=None if cost is None else float(cost),
        cost_basis="unknown" if cost is None else "reported",
        model=None if model is None else str(model),
        raw_response=None if raw is None else as_text(raw),
    )


def as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
