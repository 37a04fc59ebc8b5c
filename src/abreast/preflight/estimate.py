"""Estimate the tokens, dollars, time and share of the quota that the remaining trials will take.

Sources, best first: earlier trials of the same variant, of the same target, what the target expects, and otherwise the
size of the prompts and what the spec expects. Unknown values are None, never 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from abreast.errors import Skipped, StoreError, TrialError
from abreast.plan.concurrency import Concurrency
from abreast.plan.plan import Plan
from abreast.preflight.previous_run import TrialHistory
from abreast.spec.schema import Expectation, Limits, quota_window
from abreast.store import Store
from abreast.targets import Target
from abreast.targets.base import CHARACTERS_PER_TOKEN, Expected, may_render

RENDERS = 50  # requests rendered to measure their length, over all variants

Basis = Literal["variant", "declared", "target", "prompts", "inputs"]


@dataclass(frozen=True, slots=True)
class VariantEstimate:
    """Total use of the remaining trials of one variant; None is unknown."""

    variant: str
    trials: int
    input_tokens: float | None
    output_tokens: float | None
    cost_usd: float | None
    seconds: float | None  # one after the other
    basis: Basis
    seen: int  # earlier trials that it is based on
    simulated: bool
    expected: tuple[str, ...] = ()  # fields taken from `expects` of the spec: seconds, output_tokens


@dataclass(frozen=True, slots=True)
class QuotaEstimate:
    target: str
    needed: int
    most: int
    window_s: float
    used: int | None  # calls by all runs in the current window

    @property
    def remaining(self) -> int | None:
        return None if self.used is None else max(0, self.most - self.used)


@dataclass(frozen=True, slots=True)
class JudgeEstimate:
    scorer: str
    calls: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """Remaining trials and what they will take; None is unknown."""

    trials: int
    done: int  # earlier, or reused
    input_tokens: float | None
    output_tokens: float | None
    cost_usd: float | None
    seconds: float | None
    in_flight: int
    quotas: tuple[QuotaEstimate, ...]
    variants: tuple[VariantEstimate, ...]  # those with trials left
    judges: tuple[JudgeEstimate, ...] = ()  # those that will be called

    @property
    def real_cost_usd(self) -> float:
        """Known dollars that will be charged."""
        return sum(variant.cost_usd or 0.0 for variant in self.variants if not variant.simulated) + self.judges_usd

    @property
    def judges_usd(self) -> float:
        return sum(judge.cost_usd or 0.0 for judge in self.judges)


def estimate(
    plan: Plan,
    is_missing: npt.NDArray[np.bool_],
    targets: Sequence[Target],
    limits: Limits,
    history: TrialHistory,
    expects: Expectation,
    store: Store,
) -> RunEstimate:
    counts = is_missing.reshape(-1, len(targets)).sum(axis=0)
    guesses = _guesses(plan, is_missing, counts, targets, history, expects)
    variants = [
        _of_variant(plan.variants[index].name, int(counts[index]), targets[index], guess)
        for index, guess in guesses.items()
    ]
    trials = int(is_missing.sum())
    in_flight = min(Concurrency(limits, targets).likely, max(1, trials), max(1, plan.beginnings))
    return RunEstimate(
        trials=trials,
        done=len(plan) - trials,
        input_tokens=_sum([variant.input_tokens for variant in variants]),
        output_tokens=_sum([variant.output_tokens for variant in variants]),
        cost_usd=_sum(_costs(variants)),
        seconds=_duration(dict(zip(guesses, variants, strict=True)), targets, limits, in_flight),
        in_flight=in_flight,
        quotas=tuple(_quotas(counts, targets, limits, store)),
        variants=tuple(variants),
    )


class Guess(NamedTuple):
    """Expected use of one trial of a variant."""

    means: Expected
    basis: Basis
    seen: int = 0
    expected: tuple[str, ...] = ()  # fields taken from `expects` of the spec


def _guesses(
    plan: Plan,
    is_missing: npt.NDArray[np.bool_],
    counts: npt.NDArray[np.int64],
    targets: Sequence[Target],
    history: TrialHistory,
    expects: Expectation,
) -> dict[int, Guess]:
    """Expected use of one trial, by the index of variants with trials left."""
    guesses: dict[int, Guess] = {}
    unknown: list[int] = []
    for index in np.flatnonzero(counts).tolist():
        target = targets[index]
        of_variant = history.of_variant.get(plan.digests[index])
        of_target = None if target.simulated else history.of_target.get(target.name)  # simulators differ
        use = of_variant or of_target
        if use is not None:
            means = Expected(*use[1:])
            guesses[index] = _filled(Guess(means, "variant" if of_variant else "target", use.trials), expects)
        else:
            unknown.append(index)
    renders = max(1, RENDERS // max(1, len(unknown)))
    for number, index in enumerate(unknown):
        if number < RENDERS:
            guesses[index] = _sampled(plan, is_missing, index, renders, targets[index], expects)
        else:  # a huge grid: assume the use of one of the rendered variants
            guesses[index] = guesses[unknown[index % RENDERS]]
    return {index: guesses[index] for index in sorted(guesses)}


def _filled(guess: Guess, expects: Expectation) -> Guess:
    """Fill in what the spec expects where a value is unknown."""
    values = {"seconds": expects.seconds, "output_tokens": expects.output_tokens}
    used = {name: value for name, value in values.items() if value is not None and getattr(guess.means, name) is None}
    return guess._replace(means=guess.means._replace(**used), expected=tuple(used))


def _sampled(
    plan: Plan, is_missing: npt.NDArray[np.bool_], variant: int, most: int, target: Target, expects: Expectation
) -> Guess:
    """Estimate from a few trials spread over those that are missing."""
    blocks = np.flatnonzero(is_missing.reshape(-1, len(plan.variants))[:, variant])
    sample = blocks[sorted({int(at) for at in np.linspace(0, len(blocks) - 1, most)})]
    positions = [int(block) * len(plan.variants) + variant for block in sample]
    if not may_render(target):
        lengths = [_length(plan.trial(position).case.input) for position in positions]
        return _filled(Guess(Expected(sum(lengths) / len(lengths) / CHARACTERS_PER_TOKEN), "inputs"), expects)
    pairs = list(_expected(plan, positions, target))
    answered = [pair[1] for pair in pairs if pair is not None]
    basis: Basis = "declared" if any(pair is not None and pair[0] for pair in pairs) else "prompts"
    if pairs and not answered:
        return Guess(Expected(0.0, 0.0, 0.0, 0.0), basis)
    means = Expected(*(_mean([getattr(expected, name) for expected in answered]) for name in Expected._fields))
    guess = _filled(Guess(means, basis), expects)
    means = guess.means
    if means.cost_usd is None and means.output_tokens is not None:
        inputs = [expected.input_tokens for expected in answered if expected.input_tokens is not None]
        means = means._replace(cost_usd=_mean([target.costs(tokens, means.output_tokens) for tokens in inputs]))
    share = len(answered) / max(1, len(pairs))  # skipped trials take nothing
    return guess._replace(means=Expected(*(None if value is None else value * share for value in means)))


def _expected(plan: Plan, positions: Sequence[int], target: Target) -> Iterator[tuple[bool, Expected] | None]:
    """Yield for each trial whether its target declares the expected use, and that use; None if it is skipped."""
    for position in positions:
        trial = plan.trial(position)
        try:
            request = target.request(trial)
        except Skipped:
            yield None
            continue
        except TrialError:  # the run will report the error
            continue
        declared = target.expects(trial, request)
        sent = len(request.prompt) + target.sent_with_each
        yield declared is not None, declared or Expected(sent / CHARACTERS_PER_TOKEN)


def _length(value: object) -> int:
    return len(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def _of_variant(name: str, trials: int, target: Target, guess: Guess) -> VariantEstimate:
    tokens_in, tokens_out, cost, seconds = (None if mean is None else mean * trials for mean in guess.means)
    return VariantEstimate(
        variant=name,
        trials=trials,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cost_usd=cost,
        seconds=seconds,
        basis=guess.basis,
        seen=guess.seen,
        simulated=target.simulated,
        expected=guess.expected,
    )


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum; None if a part is unknown."""
    numbers = [value for value in values if value is not None]
    return float(sum(numbers)) if len(numbers) == len(values) else None


def _costs(variants: Sequence[VariantEstimate]) -> list[float | None]:
    """Costs of variants. Simulators without a price do not count, unless there are no others."""
    priced = [variant.cost_usd for variant in variants if not variant.simulated or variant.cost_usd is not None]
    return priced if priced or not variants else [None]


def _duration(
    variants: Mapping[int, VariantEstimate], targets: Sequence[Target], limits: Limits, in_flight: int
) -> float | None:
    """Seconds by the slowest limit: total parallelism, that of one target, its rates."""
    times = {index: variant.seconds for index, variant in variants.items() if variant.seconds is not None}
    if len(times) < len(variants):
        return None
    longest = max((seconds / variants[index].trials for index, seconds in times.items()), default=0.0)
    bounds = [sum(times.values()) / in_flight, longest]
    if limits.per_variant is not None:
        bounds += [seconds / max(1, limits.per_variant) for seconds in times.values()]
    for name in {targets[index].name for index in variants}:
        own = limits.of(name)
        indexes = [index for index in variants if targets[index].name == name]
        requests = sum(variants[index].trials for index in indexes)
        if name in limits.targets and isinstance(own.parallel, int):
            bounds.append(sum(times[index] for index in indexes) / max(1, own.parallel))
        for rate, period in ((own.requests_per_second, 1.0), (own.requests_per_minute, 60.0)):
            bounds.append(0.0 if rate is None else (requests - 1) * period / rate)
        if own.tokens_per_minute is not None:
            uses = (variants[index] for index in indexes)
            tokens = sum((use.input_tokens or 0.0) + (use.output_tokens or 0.0) for use in uses)
            bounds.append(max(0.0, tokens / own.tokens_per_minute - 1) * 60)
    return max(bounds)


def _quotas(
    counts: npt.NDArray[np.int64], targets: Sequence[Target], limits: Limits, store: Store
) -> Iterator[QuotaEstimate]:
    for name, account in {target.name: target.account or target.name for target in targets}.items():
        quota = limits.of(name).quota
        if quota is not None:
            most, window_s = quota_window(quota)
            needed = sum(int(number) for number, target in zip(counts, targets, strict=True) if target.name == name)
            yield QuotaEstimate(name, needed, most, window_s, _used(store, account, window_s))


def _used(store: Store, account: str, window_s: float) -> int | None:
    """Calls in the ledger."""
    try:
        with closing(store.quota_ledger()) as ledger:
            return ledger.used(account, window_s)
    except (OSError, RuntimeError, StoreError):
        return None
