"""Targets from other packages: they are checked when they are built, and their return values when called."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from abreast.errors import Crashed, TrialError, classify
from abreast.model import Answer, Request, Trial, Variant
from abreast.plugins import Plugin, describe
from abreast.targets.base import Expected, Problem, Target, Workers

Rule = tuple[Callable[[Any], bool], str]


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _is_list_of(value: Any, kind: type) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str) and all(isinstance(item, kind) for item in value)


_TEXT: Rule = (lambda value: isinstance(value, str) and bool(value.strip()), "text")
_FLAG: Rule = (lambda value: isinstance(value, bool), "True or False")
_AMOUNT: Rule = (_is_amount, "a number that is not negative")
_MAPPING: Rule = (lambda value: isinstance(value, Mapping), "a mapping")
_ANYTHING: Rule = (lambda value: True, "anything")

ATTRIBUTES: dict[str, Rule] = {  # rules for values that differ from the defaults of `Target`
    "name": _TEXT,
    "version": (_TEXT[0], "text that changes whenever an answer could change"),
    "sees": (lambda value: value in ("input", "case", "truth"), '"input", "case" or "truth"'),
    "place": (lambda value: value in ("loop", "thread", "process"), '"loop", "thread" or "process"'),
    **dict.fromkeys(("simulated", "transforms", "quick", "is_service", "warmup"), _FLAG),
    **dict.fromkeys(("subscription", "asks_often", "has_workspace"), _FLAG),
    **dict.fromkeys(("account", "pool"), _TEXT),
    **dict.fromkeys(("sent_with_each", "start_cpu_s"), _AMOUNT),
    **dict.fromkeys(("keyed_params", "cli_versions"), _MAPPING),
    **dict.fromkeys(("endpoint", "mcp_servers", "mcp_folder", "function"), _ANYTHING),
}
METHODS = {  # their parameters, and whether they are async
    "request": (("trial",), False),
    "answer": (("trial", "request", "attempt", "workers"), True),
    "close": ((), True),
}
HOOKS: dict[str, tuple[tuple[str, ...], Rule]] = {  # optional methods: their parameters and return values
    "expects": (
        ("trial", "request"),
        (lambda value: isinstance(value, Expected | None), "an abreast.targets.Expected"),
    ),
    "costs": (("input_tokens", "output_tokens"), (lambda cost: cost is None or _is_amount(cost), "dollars, or None")),
    "problems": ((), (lambda value: _is_list_of(value, Problem), "a list of abreast.targets.Problem")),
    "notes": ((), (lambda value: _is_list_of(value, str), "a list of texts")),
    "after": (("case",), (lambda value: isinstance(value, str | None), "the id of a case, or None")),
}


class PluginTarget(Target):
    """A target of another package. Missing members and wrong return types are errors of that package.

    Objects that are not subclasses of `Target` get its defaults.
    """

    def __init__(self, plugin: Plugin, target: Any) -> None:
        self._plugin, self._target = plugin, target
        if target is None or isinstance(target, type) or not hasattr(target, "answer"):
            plugin.refuse("it must make an object with the methods and attributes of abreast.Target", target)
        for name, rule in ATTRIBUTES.items():
            setattr(self, name, plugin.call("reading its attributes", self._attribute, name, rule))
        for name, (names, is_awaited) in METHODS.items():
            plugin.check_method(target, name, names, is_awaited)
        for name, (names, rule) in HOOKS.items():
            if hasattr(target, name):
                plugin.check_method(target, name, names)
                setattr(self, name, partial(self._call, name, rule))

    def _attribute(self, name: str, rule: Rule) -> Any:
        kind, (is_valid, expected) = type(self._target).__name__, rule
        default = getattr(Target, name, ...)
        value = getattr(self._target, name, default)
        if value is ...:
            raise self._plugin.error(f"{kind} has no {name}: it must be {expected}")
        if value is not default and not is_valid(value):
            self._plugin.refuse(f"{kind}.{name} must be {expected}", value)
        return value

    def _call(self, name: str, rule: Rule, *arguments: Any) -> Any:
        value = self._plugin.call(f"{name}()", getattr(self._target, name), *arguments)
        is_valid, expected = rule
        if not is_valid(value):
            self._plugin.refuse(f"{name}() must return {expected}", value)
        return value

    def request(self, trial: Trial) -> Request:
        try:
            request = self._target.request(trial)
        except TrialError:
            raise
        except Exception as error:
            raise Crashed(f"{self._plugin}: request() failed: {classify(error).message}") from error
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


def build_target(plugin: Plugin, variant: Variant, seed: int, shared: dict[str, Any]) -> Target:
    factory = "a class or function that makes a target"
    return PluginTarget(plugin, plugin.build(factory, ("variant", "seed", "shared"), variant, seed, shared))
