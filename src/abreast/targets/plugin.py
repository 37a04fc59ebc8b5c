"""Targets from other packages: checked when they are built, and guarded when they are called."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from abreast.code.reference import is_async
from abreast.errors import Crashed, TrialError, classify
from abreast.model import Answer, Request, Trial, Variant
from abreast.plugins import Plugin, describe
from abreast.targets.base import Expected, Place, Problem, Sees, Target, Workers

METHODS = {  # what is called, and whether it is async
    "request": (("trial",), False),
    "answer": (("trial", "request", "attempt", "workers"), True),
    "close": ((), True),
}
HOOKS = {  # optional methods
    "expects": ("trial", "request"),
    "costs": ("input_tokens", "output_tokens"),
    "problems": (),
    "notes": (),
}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


Rule = tuple[Callable[[Any], bool], str]

ATTRIBUTES: dict[str, Rule] = {
    "name": (_is_text, "text"),
    "version": (_is_text, "text that changes whenever an answer could change"),
    "simulated": (_is_bool, "True or False"),
    "sees": (lambda value: value in ("input", "case", "truth"), '"input", "case" or "truth"'),
    "transforms": (_is_bool, "True or False"),
    "place": (lambda value: value in ("loop", "thread", "process"), '"loop", "thread" or "process"'),
}
OPTIONAL: dict[str, Rule] = {
    **dict.fromkeys(("quick", "warmup", "subscription", "asks_often", "is_service"), (_is_bool, "True or False")),
    **dict.fromkeys(("account", "pool"), (_is_text, "text")),
    **dict.fromkeys(("sent_with_each", "start_cpu_s"), (_is_amount, "a number that is not negative")),
    **dict.fromkeys(("keyed_params", "cli_versions"), (lambda value: isinstance(value, Mapping), "a mapping")),
}


class PluginTarget:
    """A target of another package. What it lacks, and what it returns of the wrong type, is an error of its package."""

    def __init__(self, plugin: Plugin, target: Any) -> None:
        self._plugin, self._target = plugin, target
        plugin.call("reading its attributes", _check, plugin, target)
        self.name: str = target.name
        self.version: str = target.version
        self.simulated: bool = target.simulated
        self.sees: Sees = target.sees
        self.transforms: bool = target.transforms
        self.place: Place = target.place
        self.is_service: bool = getattr(target, "is_service", False)

    def __getattr__(self, name: str) -> Any:
        """Optional attributes and hooks, of the target itself."""
        value = getattr(self._target, name)
        return _guarded(self._plugin, name, value) if name in HOOKS else value

    def request(self, trial: Trial) -> Request:
        try:
            request = self._target.request(trial)
        except TrialError:
            raise
        except Exception as error:
            raise self._crash("request()", error) from error
        if not isinstance(request, Request):
            self._plugin.refuse("request() must return an abreast.Request", request)
        if not isinstance(request.prompt, str):
            self._plugin.refuse("the prompt of a Request must be text", request.prompt)
        return request

    async def answer(self, trial: Trial, request: Request, attempt: int, workers: Workers) -> Answer:
        answer = await self._target.answer(trial, request, attempt, workers)
        if not isinstance(answer, Answer):
            raise Crashed(f"{self._plugin}: answer() must return an abreast.Answer, got {describe(answer)}")
        return answer

    async def close(self) -> None:
        try:
            await self._target.close()
        except Exception as error:
            raise self._plugin.error(f"close() failed: {classify(error).message}") from error

    def _crash(self, what: str, error: Exception) -> Crashed:
        return Crashed(f"{self._plugin}: {what} failed: {classify(error).message}")


def build_target(plugin: Plugin, variant: Variant, seed: int, shared: dict[str, Any]) -> Target:
    """The target that a plugin makes for a variant."""
    what = "a class or function that makes a target"
    return PluginTarget(plugin, plugin.build(what, ("variant", "seed", "shared"), variant, seed, shared))


def _check(plugin: Plugin, target: Any) -> None:
    if target is None or isinstance(target, type) or not hasattr(target, "answer"):
        plugin.refuse("it must make an object with the methods and attributes of abreast.Target", target)
    for name, rule in ATTRIBUTES.items():
        if not hasattr(target, name):
            raise plugin.error(f"{type(target).__name__} has no {name}: it must be {rule[1]}")
        _check_attribute(plugin, target, name, rule)
    for name, rule in OPTIONAL.items():
        if hasattr(target, name):
            _check_attribute(plugin, target, name, rule)
    for name, (names, awaited) in METHODS.items():
        _check_method(plugin, target, name, names, awaited)
    for name, names in HOOKS.items():
        if hasattr(target, name):
            _check_method(plugin, target, name, names, False)


def _check_attribute(plugin: Plugin, target: Any, name: str, rule: Rule) -> None:
    is_valid, expected = rule
    value = getattr(target, name)
    if not is_valid(value):
        plugin.refuse(f"{type(target).__name__}.{name} must be {expected}", value)


def _check_method(plugin: Plugin, target: Any, name: str, names: tuple[str, ...], awaited: bool) -> None:
    method = getattr(target, name, None)
    called = f"{name}({', '.join(names)})"
    if not callable(method):
        raise plugin.error(f"{type(target).__name__} has no method {called}")
    if is_async(method) != awaited:
        raise plugin.error(f"{type(target).__name__}.{called} must {'' if awaited else 'not '}be async")
    plugin.check_call(f"{name} is a method of a target", method, names)


_RESULTS: dict[str, Rule] = {
    "expects": (lambda value: value is None or isinstance(value, Expected), "an abreast.targets.Expected"),
    "costs": (lambda value: value is None or _is_amount(value), "dollars, or None"),
    "problems": (lambda value: _is_list_of(value, Problem), "a list of abreast.targets.Problem"),
    "notes": (lambda value: _is_list_of(value, str), "a list of texts"),
}


def _guarded(plugin: Plugin, name: str, hook: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        is_valid, expected = _RESULTS[name]
        result = plugin.call(f"{name}()", hook, *arguments)
        if not is_valid(result):
            plugin.refuse(f"{name}() must return {expected}", result)
        return result

    return call


def _is_list_of(value: Any, kind: type) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str) and all(isinstance(item, kind) for item in value)
