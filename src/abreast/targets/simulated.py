"""The simulator: a target that calls no model and gives the expected answer with a declared probability.

Random numbers are derived from a digest of the trial, so results do not depend on parallelism, order or process.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import random
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from abreast import errors
from abreast.code.digest import source_digest
from abreast.code.reference import load_function
from abreast.digest import compose, digest
from abreast.errors import BadInput, did_you_mean, suggestion
from abreast.model import Answer, Case, CostBasis, Request, Trial, Usage
from abreast.rate_headers import announcement, rate_limits
from abreast.settings import Settings, is_count, is_number
from abreast.targets.base import CHARACTERS_PER_TOKEN, Expected, Target, Workers
from abreast.targets.request import Renderer, digest_of_params

REVISION = 3  # a new revision invalidates stored answers, but does not change which trials are right
_NORMAL = NormalDist()
_PAIR = struct.Struct("<QQ")
_ERRORS: dict[str, type[errors.TrialError]] = {
    error.kind: error
    for error in (
        *(errors.RateLimited, errors.Transient, errors.Unauthenticated, errors.TimedOut, errors.Refused),
        *(errors.TooLong, errors.NoAnswer, errors.Crashed, errors.Skipped),
    )
}
PARAMETERS = (  # parameters of the simulator; all others stand for parameters of a model
    *("accuracy", "latency", "errors", "capacity", "allows", "correlation"),
    *("retry_after", "cost_usd", "output_tokens", "knows"),
)


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds: a constant, a uniform range, or a log-normal given by its median and 95th percentile."""

    low: float
    high: float
    median: float = 0.0
    sigma: float = 0.0

    def draw(self, uniform: float) -> float:
        if self.median:
            return self.median * math.exp(self.sigma * _quantile(uniform))
        return self.low + uniform * (self.high - self.low)

    def mean(self) -> float:
        return self.median * math.exp(self.sigma**2 / 2) if self.median else (self.low + self.high) / 2


@dataclass(frozen=True, slots=True)
class RequestWindow:
    """A rate limit: at most `requests` per window of `seconds`. `headers` is the provider whose headers announce it."""

    requests: int
    seconds: float
    headers: str | None = None


class _SimulatedProvider:
    """State shared by all variants: the number of calls in flight, and the current window."""

    def __init__(self) -> None:
        self.busy = 0
        self._begin: float | None = None
        self._window = 0
        self._admitted = 0

    def admit(self, allows: RequestWindow) -> bool:
        """Count a request; return whether the window had room for it."""
        self._update_window(allows)
        if self._admitted >= allows.requests:
            return False
        self._admitted += 1
        return True

    def _update_window(self, allows: RequestWindow) -> float:
        """Move to the current window; return the seconds until it ends."""
        now = asyncio.get_running_loop().time()
        self._begin = now if self._begin is None else self._begin
        window, passed = divmod(now - self._begin, allows.seconds)
        if window != self._window:
            self._window, self._admitted = int(window), 0
        return allows.seconds - passed

    def headers(self, allows: RequestWindow) -> dict[str, str] | None:
        """Return the rate headers, if the rate is announced."""
        if allows.headers is None:
            return None
        reset_s = self._update_window(allows)
        return announcement(allows.headers, "requests", allows.requests, allows.requests - self._admitted, reset_s)


class Simulated(Target):
    """`target: simulated`, with declared accuracy, latency, error rates and capacity."""

    simulated = True
    sees = "truth"
    name = "simulated"

    def __init__(self, where: str, params: Mapping[str, Any], seed: int, shared: dict[str, Any]) -> None:
        self._renderer = Renderer(where, params)
        self.transforms, self.quick = self._renderer.transforms, self._renderer.quick
        for key in params:
            if key not in PARAMETERS and (hint := did_you_mean(str(key), PARAMETERS)):
                raise BadInput(f'{where}: unknown parameter "{key}" of the simulator{hint}')
        settings = Settings(where, params)
        self._accuracy = _share(settings, "accuracy", 1.0)
        self._correlation = _share(settings, "correlation", 0.5)
        self._latency = _latency(settings)
        self._errors = _error_rates(settings)
        self._capacity: int | None = settings.take("capacity", None, _is_none_or(is_count), _COUNT)
        self._allows = _allowance(settings)
        self._retry_after: float | None = settings.take("retry_after", None, _is_none_or(_is_amount), _AMOUNT)
        self._cost: float | None = settings.take("cost_usd", None, _is_none_or(_is_amount), _AMOUNT)
        self._output_tokens: int | None = settings.take("output_tokens", None, _is_none_or(is_count), _COUNT)
        self._knows = _knows(settings)
        self._seed = seed
        self._instant = not (self._errors or self._capacity or self._allows or self._latency.mean())
        self._case_weight, self._trial_weight = math.sqrt(self._correlation), math.sqrt(1 - self._correlation)
        self._threshold = _quantile(self._accuracy)
        self._server: _SimulatedProvider = shared.setdefault("simulated-server", _SimulatedProvider())
        self._drawn_by = compose("simulated", seed, digest_of_params(params), self._renderer.version)
        knows = [source_digest(self._knows)] if self._knows is not None else []
        self.version = compose(self._drawn_by, REVISION, *knows)

    def request(self, trial: Trial) -> Request:
        return self._renderer.request(trial)

    def expects(self, trial: Trial, request: Request) -> Expected:
        """Return the declared values, for an answer as long as the expected one."""
        usage = self._usage(request.prompt, _text_of(trial.case.expected))
        return Expected(usage.input_tokens, usage.output_tokens, self._cost, self._latency.mean())

    def _usage(self, prompt: str, text: str) -> Usage:
        output_tokens = self._output_tokens or max(1, len(text) // CHARACTERS_PER_TOKEN)
        return Usage(max(1, len(prompt) // CHARACTERS_PER_TOKEN), output_tokens)

    async def answer(self, trial: Trial, request: Request, attempt: int, workers: Workers) -> Answer:
        case = trial.case
        case_key = digest(case.input)
        trial_key = f"{self._drawn_by}|{case_key}|{trial.repeat}|{trial.occurrence}"
        if not self._instant:
            await self._work(trial_key, attempt)
        # Correctness must not depend on the attempt: a retry does not make a model better.
        trial_draw, choice_draw = _uniforms(trial_key)
        value = self._value(case, request.prompt, case_key, trial_draw, choice_draw)
        text = _text_of(value)
        usage = self._usage(request.prompt, text)
        basis: CostBasis = "unknown" if self._cost is None else "estimated"
        data = None if isinstance(value, str) else value
        rate = None if self._allows is None else rate_limits(self._server.headers(self._allows))
        return Answer(text, data, usage=usage, cost_usd=self._cost, cost_basis=basis, model="simulated", rate=rate)

    def _value(self, case: Case, prompt: str, case_key: str, trial_draw: float, choice_draw: float) -> Any:
        """Return the expected answer or a wrong one; a guess if `knows` returns False: the prompt lacks the answer."""
        if self._knows is not None and self._knows(case, prompt) is not True:
            choices = _choices(case)
            return choices[int(trial_draw * len(choices))] if choices else wrong(case, choice_draw)
        return case.expected if self._is_right(case_key, trial_draw) else wrong(case, choice_draw)

    async def _work(self, trial_key: str, attempt: int) -> None:
        """Occupy the simulated provider for the latency, and fail with the declared probabilities."""
        latency_draw, error_draw = _uniforms(f"{trial_key}|{attempt}")
        server = self._server
        if self._capacity is not None and server.busy >= self._capacity:
            raise errors.RateLimited(
                "simulated: more concurrent calls than its capacity", retry_after=self._retry_after
            )
        if self._allows is not None and not server.admit(self._allows):
            raise errors.RateLimited(
                f"simulated: more than {self._allows.requests} requests in {self._allows.seconds:g} s",
                retry_after=self._retry_after,
                headers=self._server.headers(self._allows),
            )
        server.busy += 1
        try:
            await asyncio.sleep(self._latency.draw(latency_draw))
        finally:
            server.busy -= 1
        self._raise_error(error_draw)

    def _is_right(self, case_key: str, trial_draw: float) -> bool:
        """Decide with the declared probability, correlated between the trials of a case: some cases are harder."""
        if self._accuracy in (0.0, 1.0) or self._correlation == 0.0:
            return trial_draw < self._accuracy
        case_draw, _ = _uniforms(f"case|{self._seed}|{case_key}")
        mixed = self._case_weight * _quantile(case_draw) + self._trial_weight * _quantile(trial_draw)
        return mixed < self._threshold

    def _raise_error(self, uniform: float) -> None:
        """Raise an error with the declared probabilities."""
        cumulative = 0.0
        for kind, probability in self._errors.items():
            cumulative += probability
            if uniform < cumulative:
                retry_after = self._retry_after if kind == "rate_limit" else None
                raise _ERRORS[kind](f"simulated {kind}", retry_after=retry_after)


def _text_of(value: Any) -> str:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value if isinstance(value, str) else "" if value is None else str(value)


def _uniforms(key: str) -> tuple[float, float]:
    """Derive two uniform numbers in [0, 1) from a key."""
    first, second = _PAIR.unpack(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest())
    return first / 2**64, second / 2**64


def _quantile(probability: float) -> float:
    return _NORMAL.inv_cdf(min(max(probability, 1e-12), 1 - 1e-12))


def wrong(case: Case, uniform: float) -> Any:
    """Return a wrong answer of the same type as the expected one, beyond any usual tolerance.

    >>> wrong(Case("a", "", expected=True), 0.5), wrong(Case("b", "", expected=9), 0.0)
    (False, 14.0)
    >>> wrong(Case("c", {"choices": ["up", "down", "flat"]}, expected="down"), 0.9)
    'flat'
    """
    expected = case.expected
    others = [choice for choice in _choices(case) if choice != expected]
    if others:
        return others[int(uniform * len(others))]
    if isinstance(expected, bool):
        return not expected
    if isinstance(expected, int | float):
        return _wrong_number(expected, uniform)
    if isinstance(expected, list) and expected and _are_numbers(expected):
        return _wrong_numbers(expected, uniform)
    if isinstance(expected, list) and expected:
        subset = [item for item in expected if random.Random(f"{uniform}{item}").random() < 0.5]
        return subset if len(subset) < len(expected) else subset[1:]
    if isinstance(expected, Mapping) and expected:
        return {key: wrong(Case(case.id, None, value), uniform) for key, value in expected.items()}
    return f"a wrong answer ({int(uniform * 1000)})"


def _choices(case: Case) -> list[Any]:
    """Return the choices in the input, if they include the expected answer."""
    choices = case.input.get("choices") if isinstance(case.input, Mapping) else None
    return choices if isinstance(choices, list) and case.expected in choices else []


def _wrong_number(expected: float, uniform: float) -> float:
    """Return a number that is off by at least half of (1 + |expected|)."""
    try:
        number = expected + (1 + abs(expected)) * (0.5 + uniform) * (1 if uniform < 0.5 else -1)
    except OverflowError:
        return -expected
    return number if math.isfinite(number) else -expected


def _wrong_numbers(expected: list[Any], uniform: float) -> list[float]:
    """Return as many numbers of one sign, each beyond the largest absolute value by at least half of (1 + it)."""
    largest = min(max(map(abs, expected)), 1e300)  # avoids overflow
    sign = 1 if uniform < 0.5 else -1
    draws = random.Random(f"{uniform}")
    return [sign * (largest + (1 + largest) * (0.5 + draws.random())) for _ in expected]


# -- parameters -------------------------------------------------------------------------------------------------------


_AMOUNT = "a number of at least 0"
_COUNT = "an integer of at least 1"


def _is_amount(value: Any) -> bool:
    return is_number(value) and 0 <= value < math.inf


def _is_none_or(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _share(settings: Settings, key: str, default: float) -> float:
    value: float = settings.take(key, default, _is_amount, _AMOUNT)
    if value > 1:
        raise BadInput(f"{settings.where}: {key} must be between 0 and 1, got {value!r}")
    return float(value)


def _knows(settings: Settings) -> Callable[..., Any] | None:
    is_function = _is_none_or(lambda value: isinstance(value, str) or callable(value))
    function = settings.take("knows", None, is_function, "python:module:function")
    return load_function(function) if isinstance(function, str) else function


def _allowance(settings: Settings) -> RequestWindow | None:
    expects = "such as {requests: 60, seconds: 60, headers: openai} (headers: openai, anthropic or omitted)"
    allows = settings.take("allows", None, _is_none_or(_is_allowance), expects)
    return (
        None if allows is None else RequestWindow(allows["requests"], float(allows["seconds"]), allows.get("headers"))
    )


def _is_allowance(value: Any) -> bool:
    keys = set(value) if isinstance(value, Mapping) else set()
    if not {"requests", "seconds"} <= keys <= {"requests", "seconds", "headers"}:
        return False
    is_rate = is_count(value["requests"]) and _is_amount(value["seconds"]) and value["seconds"] > 0
    return is_rate and value.get("headers") in (None, "anthropic", "openai")


def _latency(settings: Settings) -> Latency:
    if not isinstance(settings.values.get("latency"), Mapping):
        seconds = settings.take("latency", 0.0, _is_none_or(_is_amount), _AMOUNT) or 0.0
        return Latency(seconds, seconds)
    expects = "seconds, {low, high} or {median, p95} in ascending order"
    value = settings.take("latency", None, _is_distribution, expects)
    if "low" in value:
        return Latency(float(value["low"]), float(value["high"]))
    sigma = math.log(value["p95"] / value["median"]) / _NORMAL.inv_cdf(0.95)
    return Latency(0.0, 0.0, float(value["median"]), sigma)


def _is_distribution(value: Mapping[str, Any]) -> bool:
    if set(value) == {"low", "high"}:
        return _are_numbers(value.values()) and 0 <= value["low"] <= value["high"]
    is_median = set(value) == {"median", "p95"} and _are_numbers(value.values())
    return is_median and 0 < value["median"] <= value["p95"]


def _error_rates(settings: Settings) -> dict[str, float]:
    def are_rates(value: Any) -> bool:
        return isinstance(value, Mapping) and all(_is_amount(rate) and rate <= 1 for rate in value.values())

    rates: Mapping[str, float] = settings.take("errors", {}, are_rates, "a mapping of kinds to probabilities")
    for kind in rates:
        if kind not in _ERRORS:
            raise BadInput(f'{settings.where}: errors: unknown kind "{kind}"{suggestion(str(kind), _ERRORS)}')
    if (total := sum(rates.values())) > 1:
        raise BadInput(f"{settings.where}: errors: the probabilities add up to {total:g}, more than 1")
    return dict(rates)


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(map(is_number, values))
