"""Estimate of what the trials that are left will take: tokens, dollars, time, and a share of the quota.

Sources, best first: earlier trials of the same variant, of the same target, what the target expects, and else the size
of the prompts and what the spec expects. What is not known is None, never 0.
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
from abreast.preflight.previous_run import History
from abreast.spec.schema import Expectation, Limits, quota_window
from abreast.store.user_state.folders import state_folder
from abreast.store.user_state.quota_ledger import Ledger
from abreast.targets import Target
from abreast.targets.base import CHARACTERS_PER_TOKEN, Expected, may_render

RENDERS = 50  # requests that are made to see how long they are, over all variants

Basis = Literal["variant", "declared", "target", "prompts", "inputs"]


@dataclass(frozen=True, slots=True)
class VariantEstimate:
    """What the trials of one variant that are left will take in all; None is unknown."""

    variant: str
    trials: int
    input_tokens: float | None
    output_tokens: float | None
    cost_usd: float | None
    seconds: float | None  # one after the other
    basis: Basis
    seen: int  # earlier trials this is from
    simulated: bool
    expected: tuple[str, ...] = ()  # what of it is as the spec expects: seconds, output_tokens


@dataclass(frozen=True, slots=True)
class QuotaEstimate:
    target: str
    needed: int
    most: int
    window_s: float
    used: int | None  # in the window that ends now, by this and other runs

    @property
    def left(self) -> int | None:
        return None if self.used is None else max(0, self.most - self.used)


@dataclass(frozen=True, slots=True)
class JudgeEstimate:
    scorer: str
    calls: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is left to execute, and what it will take; None is unknown."""

    trials: int
    done: int  # before, or reused
    input_tokens: float | None
    output_tokens: float | None
    cost_usd: float | None
    seconds: float | None
    in_flight: int
    quotas: tuple[QuotaEstimate, ...]
    variants: tuple[VariantEstimate, ...]  # those with something left to execute
    judges: tuple[JudgeEstimate, ...] = ()  # those with something to judge

    @property
    def real_cost_usd(self) -> float:
        """Dollars that will be charged, as far as known."""
        return sum(one.cost_usd or 0.0 for one in self.variants if not one.simulated) + self.judges_usd

    @property
    def judges_usd(self) -> float:
        return sum(one.cost_usd or 0.0 for one in self.judges)


def estimate(
    plan: Plan,
    left: npt.NDArray[np.bool_],
    targets: Sequence[Target],
    limits: Limits,
    history: History,
    expects: Expectation,
) -> Estimate:
    """Estimate the trials that are `left`."""
    of_each = left.reshape(-1, len(targets)).sum(axis=0)
    guesses = _guesses(plan, left, of_each, targets, history, expects)
    each = [
        _of_variant(plan.variants[index].name, int(of_each[index]), targets[index], guess)
        for index, guess in guesses.items()
    ]
    trials = int(left.sum())
    at_once = min(Concurrency(limits, targets).likely, max(1, trials), max(1, plan.beginnings))
    return Estimate(
        trials=trials,
        done=len(plan) - trials,
        input_tokens=_sum([one.input_tokens for one in each]),
        output_tokens=_sum([one.output_tokens for one in each]),
        cost_usd=_sum(_costs(each)),
        seconds=_duration(dict(zip(guesses, each, strict=True)), targets, limits, at_once),
        in_flight=at_once,
        quotas=tuple(_quotas(of_each, targets, limits)),
        variants=tuple(each),
    )


class Guess(NamedTuple):
    """What one trial of a variant takes."""

    means: Expected
    basis: Basis
    seen: int = 0
    expected: tuple[str, ...] = ()  # what of it is as the spec expects


def _guesses(
    plan: Plan,
    left: npt.NDArray[np.bool_],
    of_each: npt.NDArray[np.int64],
    targets: Sequence[Target],
    history: History,
    expects: Expectation,
) -> dict[int, Guess]:
    """What one trial takes, by the index of the variants with something left."""
    guesses: dict[int, Guess] = {}
    unknown: list[int] = []
    for index in np.flatnonzero(of_each).tolist():
        target = targets[index]
        same = history.of_variant.get(plan.digests[index])
        alike = None if target.simulated else history.of_target.get(target.name)  # simulators have nothing in common
        took = same or alike
        if took is not None:
            means = Expected(*took[1:])
            guesses[index] = _filled(Guess(means, "variant" if same else "target", took.trials), expects)
        else:
            unknown.append(index)
    of_one = max(1, RENDERS // max(1, len(unknown)))
    for number, index in enumerate(unknown):
        if number < RENDERS:
            guesses[index] = _sampled(plan, left, index, of_one, targets[index], expects)
        else:  # a huge grid: as those that were looked at
            guesses[index] = guesses[unknown[index % RENDERS]]
    return {index: guesses[index] for index in sorted(guesses)}


def _filled(guess: Guess, expects: Expectation) -> Guess:
    """Fill in what the spec expects where nothing is known."""
    wanted = {"seconds": expects.seconds, "output_tokens": expects.output_tokens}
    used = {name: value for name, value in wanted.items() if value is not None and getattr(guess.means, name) is None}
    return guess._replace(means=guess.means._replace(**used), expected=tuple(used))


def _sampled(
    plan: Plan, left: npt.NDArray[np.bool_], variant: int, most: int, target: Target, expects: Expectation
) -> Guess:
    """Estimate from a few trials spread over what is left."""
    open_blocks = np.flatnonzero(left.reshape(-1, len(plan.variants))[:, variant])
    chosen = open_blocks[sorted({int(at) for at in np.linspace(0, len(open_blocks) - 1, most)})]
    positions = [int(block) * len(plan.variants) + variant for block in chosen]
    if not may_render(target):
        lengths = [_length(plan.trial(position).case.input) for position in positions]
        return _filled(Guess(Expected(sum(lengths) / len(lengths) / CHARACTERS_PER_TOKEN), "inputs"), expects)
    seen = list(_expected(plan, positions, target))
    answered = [pair[1] for pair in seen if pair is not None]
    basis: Basis = "declared" if any(pair is not None and pair[0] for pair in seen) else "prompts"
    if seen and not answered:
        return Guess(Expected(0.0, 0.0, 0.0, 0.0), basis)
    means = Expected(*(_mean([getattr(expected, name) for expected in answered]) for name in Expected._fields))
    guess = _filled(Guess(means, basis), expects)
    means = guess.means
    if means.cost_usd is None and means.output_tokens is not None:
        means = means._replace(cost_usd=_priced(answered, means.output_tokens, target))
    share = len(answered) / max(1, len(seen))  # what is skipped takes nothing
    return guess._replace(means=Expected(*(None if value is None else value * share for value in means)))


def _priced(answered: Sequence[Expected], output_tokens: float, target: Target) -> float | None:
    """What such requests cost on average, if their target has a price."""
    given = [one.input_tokens for one in answered if one.input_tokens is not None]
    return _mean([target.costs(tokens, output_tokens) for tokens in given])


def _expected(plan: Plan, positions: Sequence[int], target: Target) -> Iterator[tuple[bool, Expected] | None]:
    """Whether the target declares what each of these trials takes, and how much; None for one that is skipped."""
    for position in positions:
        trial = plan.trial(position)
        try:
            request = target.request(trial)
        except Skipped:
            yield None
            continue
        except TrialError:  # it will fail in the run as well, and be told there
            continue
        declared = target.expects(trial, request)
        sent = len(request.prompt) + target.sent_with_each
        yield declared is not None, declared or Expected(sent / CHARACTERS_PER_TOKEN)


def _length(value: object) -> int:
    return len(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


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
    known = [value for value in values if value is not None]
    return float(sum(known)) if len(known) == len(values) else None


def _costs(each: Sequence[VariantEstimate]) -> list[float | None]:
    """Known costs. Simulators without a price do not count, unless there is nothing else."""
    priced = [one.cost_usd for one in each if not one.simulated or one.cost_usd is not None]
    return priced if priced or not each else [None]


def _duration(
    each: Mapping[int, VariantEstimate], targets: Sequence[Target], limits: Limits, at_once: int
) -> float | None:
    """The time of the slowest limit: total parallelism, that of one target, its rates."""
    work = _sum([one.seconds for one in each.values()])
    if work is None:
        return None
    longest = max((one.seconds / one.trials for one in each.values() if one.seconds is not None), default=0.0)
    bounds = [work / at_once, longest]
    if limits.per_variant is not None:
        bounds += [(one.seconds or 0.0) / max(1, limits.per_variant) for one in each.values()]
    for name in {targets[index].name for index in each}:
        own = limits.of(name)
        mine = [one for index, one in each.items() if targets[index].name == name]
        requests = sum(one.trials for one in mine)
        if name in limits.targets and isinstance(own.parallel, int):
            bounds.append(sum(one.seconds or 0.0 for one in mine) / max(1, own.parallel))
        for rate, period in ((own.requests_per_second, 1.0), (own.requests_per_minute, 60.0)):
            bounds.append(0.0 if rate is None else (requests - 1) * period / rate)
        if own.tokens_per_minute is not None:
            tokens = sum((one.input_tokens or 0.0) + (one.output_tokens or 0.0) for one in mine)
            bounds.append(max(0.0, tokens / own.tokens_per_minute - 1) * 60)
    return max(bounds)


def _quotas(of_each: npt.NDArray[np.int64], targets: Sequence[Target], limits: Limits) -> Iterator[QuotaEstimate]:
    for name, account in {target.name: target.account or target.name for target in targets}.items():
        quota = limits.of(name).quota
        if quota is not None:
            most, window_s = quota_window(quota)
            needed = sum(int(number) for number, target in zip(of_each, targets, strict=True) if target.name == name)
            yield QuotaEstimate(name, needed, most, window_s, _used(account, window_s))


def _used(account: str, window_s: float) -> int | None:
    """Use by the ledger, which is not created if missing."""
    try:
        if not (state_folder() / "quota.db").exists():
            return 0
        with closing(Ledger()) as ledger:
            return ledger.used(account, window_s)
    except (OSError, RuntimeError, StoreError):
        return None
