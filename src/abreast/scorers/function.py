"""Scorers of users and of other packages: `python:MODULE:FUNCTION` and plugins."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from abreast.code.digest import source_digest
from abreast.errors import BadInput
from abreast.model import Answer, Case, Score
from abreast.plugins import Plugin, describe
from abreast.scorers.base import Mark, Scorer, ScorerSettings, is_column, is_range, short

_RETURNS = "a scorer returns True, False, a number, a Score, or a mapping of names to numbers"
NAMES = ("case", "answer", "text", "expected", "input", "value")


class Function(Scorer):
    """Calls a function with the parameters that it names: case, answer, text, expected, input, value. A function with
    other parameters is called with the case and the answer.

    It returns True or False, a number in [0, 1], a `Score`, or a mapping of names to numbers, which `columns` lists if
    there are several. `range` rescales other numbers, such as 1 to 5 stars, to [0, 1]. The function may be async. If it
    raises, the score is empty.

    >>> from abreast.scorers import build
    >>> def brief(text): return len(text) < 10
    >>> build(brief, {}).score(Case("c", "?"), Answer("short"))
    (Score(name='brief', value=1.0, explanation=''),)
    """

    revision = 1
    needs_expected = False

    def __init__(self, function: Callable[..., Any], settings: ScorerSettings) -> None:
        self._function = function
        self._takes = _parameters(function, settings.kind)
        self.takes_expected = _requires(function, "expected")
        name = settings.name(_column_name(function))
        expects = "a list of different names in lowercase letters, digits and underscores"
        self._keys: list[str] = settings.take("columns", [], _is_columns, expects)
        self._range: tuple[float, float] = tuple(
            settings.take("range", (0, 1), is_range, "two numbers, the lower first")
        )
        self.columns = tuple(f"{name}_{key}" for key in self._keys) or (name,)
        self.version = settings.version(self.revision, source_digest(function))

    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]:
        try:
            return self._scores(self._call(case, answer))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a scorer that crashes never spoils an answer
            return self.fill(None, f"crashed: {type(error).__name__}: {_message(error)}")

    def _scores(self, result: Any) -> tuple[Score, ...]:
        if isinstance(result, Mapping):
            return self._from_mapping(result)
        if len(self.columns) > 1:
            return self.fill(None, f"gave {short(result)}, not a mapping with {', '.join(self._keys)}")
        return self.fill(*read_mark(result, self._range))

    def _call(self, case: Case, answer: Answer) -> Any:
        offered = dict(zip(NAMES, (case, answer, answer.text, case.expected, case.input, answer.value), strict=True))
        if self._takes is None:
            result = self._function(case, answer)
        else:
            by_position, by_name = self._takes
            result = self._function(
                *(offered[name] for name in by_position), **{name: offered[name] for name in by_name}
            )
        return _run_awaitable(result) if inspect.isawaitable(result) else result

    def _from_mapping(self, result: Mapping[Any, Any]) -> tuple[Score, ...]:
        why = str(result.get("explanation", ""))
        keys = self._keys or ["score"]
        others = [str(key) for key in result if key not in keys and key != "explanation"]
        if others and not self._keys:
            return self.fill(None, f"gave several numbers; declare them: columns: [{', '.join(others)}]")
        why += f"{'; ' if why else ''}not declared in columns: {', '.join(others)}" if others else ""
        marks = (read_mark(result[key], self._range) if key in result else (None, f'gave no "{key}"') for key in keys)
        return tuple(Score(column, value, own or why) for column, (value, own) in zip(self.columns, marks, strict=True))


def read_mark(result: Any, scale: tuple[float, float] = (0, 1)) -> Mark:
    """Rescale a value to [0, 1]; values outside of the range are refused, as they hide a mistake."""
    if isinstance(result, Score):
        value, why = (None, "gave no score") if result.value is None else read_mark(result.value, scale)
        return value, "; ".join(part for part in (why if value is None else "", result.explanation) if part)
    if result is None:
        return None, f"gave no score but None; {_RETURNS}"
    item = getattr(result, "item", None)
    number: Any = item() if callable(item) else result  # a number of numpy
    if not isinstance(number, int | float | Fraction | Decimal):
        return None, f"gave {short(result)}, which is not a number; {_RETURNS}"
    low, high = scale
    if isinstance(number, bool):
        return float(number), ""
    if not low <= number <= high:
        return None, f"gave {short(result)}, which is not between {low:g} and {high:g}"
    value = (float(number) - low) / (high - low)
    return value, "" if (low, high) == (0, 1) else f"{float(number):g} on a scale from {low:g} to {high:g}"


def _run_awaitable(result: Awaitable[Any]) -> Any:
    async def wait() -> Any:
        return await result

    return asyncio.run(wait())


def _parameters(function: Callable[..., Any], kind: str) -> tuple[list[str], list[str]] | None:
    """Return the parameters to pass by position and by name, or None to pass the case and the answer."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have no signature
        return None
    parameters = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    filled = [parameter for parameter in parameters if parameter.name in NAMES]
    if filled and all(parameter in filled or parameter.default is not parameter.empty for parameter in parameters):
        by_position = [parameter.name for parameter in filled if parameter.kind is parameter.POSITIONAL_ONLY]
        return by_position, [parameter.name for parameter in filled if parameter.name not in by_position]
    try:
        signature.bind(None, None)
    except TypeError:
        raise BadInput(
            f'scorer "{kind}": cannot be called with its parameters {signature}',
            f"use parameters among {', '.join(NAMES)}, or two: (case, answer)",
        ) from None
    return None


def _requires(function: Callable[..., Any], name: str) -> bool:
    """Whether a function has a parameter of this name without a default."""
    try:
        parameter = inspect.signature(function).parameters.get(name)
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    return parameter is not None and parameter.default is parameter.empty


def _column_name(function: Callable[..., Any]) -> str:
    inner = getattr(function, "func", function)  # the function of a functools.partial
    name = getattr(inner, "__name__", type(inner).__name__)
    name = re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_")
    return name if is_column(name) else "function"


def _is_columns(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(key, str) and re.fullmatch(r"[a-z0-9_]+", key) for key in value)
        and len(set(value)) == len(value)
    )


def _message(error: BaseException) -> str:
    try:
        return str(error)[:500]
    except Exception:  # noqa: BLE001 - its own __str__ may be broken
        return "(no message)"


class PluginScorer(Scorer):
    """Wraps a scorer of another package, which need not be a subclass of `Scorer`. Invalid scores become empty ones."""

    def __init__(self, plugin: Plugin, scorer: Any) -> None:
        self._plugin, self._scorer = plugin, scorer
        if scorer is None or isinstance(scorer, type) or not hasattr(scorer, "score"):
            plugin.refuse("it must make an object with the methods and attributes of abreast.Scorer", scorer)
        plugin.call("reading its attributes", self._take_attributes)
        plugin.check_method(scorer, "score", ("case", "answer"))
        if hasattr(scorer, "flaw"):
            plugin.check_method(scorer, "flaw", ("expected",))

    def _take_attributes(self) -> None:
        kind, refuse = type(self._scorer).__name__, self._plugin.refuse
        for name in ("columns", "version", "needs_expected"):
            if not hasattr(self._scorer, name) and not hasattr(Scorer, name):
                raise self._plugin.error(f"{kind} has no {name}")
            setattr(self, name, getattr(self._scorer, name, getattr(Scorer, name, None)))
        if not isinstance(self.columns, tuple | list) or not self.columns or not all(map(is_column, self.columns)):
            rule = f"{kind}.columns must be a tuple of names in lowercase letters, digits and underscores"
            refuse(rule, self.columns)
        self.columns = tuple(self.columns)
        if not isinstance(self.version, str) or not self.version:
            refuse(f"{kind}.version must be text that changes whenever a score could change", self.version)
        if not isinstance(self.needs_expected, bool):
            refuse(f"{kind}.needs_expected must be True or False", self.needs_expected)

    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]:
        scores = self._scorer.score(case, answer)
        if not isinstance(scores, Sequence) or not all(isinstance(score, Score) for score in scores):
            reason = f"{self._plugin}: score() must return a tuple of abreast.Score, got {describe(scores)}"
            return self.fill(None, reason)
        by_name = {score.name: score for score in scores}
        unknown = [name for name in by_name if name not in self.columns]
        missing = f"{self._plugin}: score() gave no score for this column"
        missing += f", but for {', '.join(map(str, unknown))}" if unknown else ""
        marks = (read_mark(by_name.get(column, Score(column, None, missing))) for column in self.columns)
        return tuple(Score(column, *mark) for column, mark in zip(self.columns, marks, strict=True))

    def flaw(self, expected: Any) -> tuple[str, str] | None:
        method = getattr(self._scorer, "flaw", super().flaw)
        problem: tuple[str, str] | None = self._plugin.call("flaw()", method, expected)
        is_pair = isinstance(problem, tuple) and len(problem) == 2 and all(isinstance(text, str) for text in problem)
        if problem is not None and not is_pair:
            self._plugin.refuse("flaw() must return what is wrong and how to fix it, two texts, or None", problem)
        return problem


def build_scorer(plugin: Plugin, settings: dict[str, Any]) -> Scorer:
    """Build the scorer of a plugin; built-in families are not wrapped."""
    scorer = plugin.build("a class or function that makes a scorer", ("name", "settings"), plugin.point.name, settings)
    is_ours = type(scorer).__module__.startswith("abreast.scorers.")
    return scorer if is_ours else PluginScorer(plugin, scorer)
