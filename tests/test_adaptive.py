"""Adaptive concurrency in virtual time: the real scheduler and engine against servers with limits."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.errors import RateLimited
from abreast.execute.job import Job
from abreast.execute.limits.adaptive import Adaptive
from abreast.execute.limits.adaptive.latency import LatencyCurve
from abreast.execute.limits.adaptive.refusals import RefusalTest
from abreast.model import Answer, Failure, Outcome, Request, Usage
from abreast.rate_headers import rate_limits
from abreast.targets import Target
from test_scheduler import go, plan_of

LATENCY = 0.2


@dataclass
class Server(Target):
    """An API that takes `capacity` requests at once, refuses some at random, and queues beyond its knee."""

    capacity: Callable[[float], float] = lambda _now: math.inf
    refused_after: float = 0.002
    background: float = 0.0
    knee: float = math.inf
    sigma: float = 0.0
    latency: float = LATENCY
    announced: int = 0  # parallel requests announced in the headers
    is_service: bool = True
    seed: int = 1
    name: str = "server"
    version: str = "1"
    sees: str = "input"
    refused: int = 0
    latencies: list[float] = field(default_factory=list)
    answered_at: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._busy = 0
        self._chance = random.Random(self.seed)

    def request(self, trial: Any) -> Request:
        return Request("prompt", "prompt", {})

    async def answer(self, *_: Any) -> Answer:
        now = asyncio.get_running_loop().time()
        capacity = self.announced or self.capacity(now)
        if self._chance.random() < self.background or self._busy >= capacity:
            self.refused += 1
            await asyncio.sleep(self.refused_after)
            raise RateLimited("overloaded", headers=self._headers())
        self._busy += 1
        headers = self._headers()
        length = math.exp(self._chance.gauss(0.0, self.sigma)) * self._chance.uniform(0.98, 1.02)
        seconds = self.latency * length * max(1.0, self._busy / self.knee)
        await asyncio.sleep(seconds)
        self._busy -= 1
        self.latencies.append(seconds)
        self.answered_at.append(now + seconds)
        return Answer("yes", usage=Usage(10, 10), rate=rate_limits(headers))

    def _headers(self) -> dict[str, str]:
        remaining = str(max(0, self.announced - self._busy))
        return {"x-ratelimit-remaining-requests": remaining} if self.announced else {}

    async def close(self) -> None: ...


def seconds(server: Server, trials: int, parallel: Any = "auto") -> float:
    """Run the trials, all of which must succeed; return the elapsed seconds."""
    plan, _ = plan_of(trials, [{}], 1)
    watch, elapsed = go(plan, [server], parallel=parallel, retries=50)
    assert {outcome.status for _, outcome in watch.finished_jobs} == {"ok"}
    return elapsed


@pytest.mark.parametrize("seed", range(2))
def test_random_refusals_hardly_slow_a_run_down(seed: int) -> None:
    fixed = seconds(Server(background=0.05, seed=seed), 3_000, parallel=64)
    auto = seconds(Server(background=0.05, seed=seed), 3_000)
    assert fixed / auto >= 0.90


@settings(max_examples=15, deadline=None)
@given(moment=st.integers(1, 250))
def test_a_single_refusal_does_not_lower_the_limit(moment: int) -> None:
    plan, _ = plan_of(300, [{}], 1)
    once = iter([True])

    class Hiccup(Server):
        async def answer(self, *_: Any) -> Answer:
            if len(self.latencies) >= moment and next(once, None):
                raise RateLimited("overloaded")
            return await super().answer()

    watch, _ = go(plan, [Hiccup()], parallel="auto")
    assert "cut" not in watch.events


@settings(max_examples=100, deadline=None)
@given(
    least=st.integers(1, 10),
    most=st.integers(1, 60),
    share=st.floats(0.0, 1.0),
    is_service=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_the_limit_stays_within_its_bounds(least: int, most: int, share: float, is_service: bool, seed: int) -> None:
    """For any outcomes in any order and with any delay."""
    chance = random.Random(seed)
    limit = Adaptive(least, 20, most, lambda *_, **__: None, frozenset([0]), is_service)
    most, now, in_flight = max(least, most), 0.0, []
    outcomes = [
        Outcome("ok", answer=Answer("yes")),
        Outcome("error", failure=Failure("rate_limit", "infrastructure", "overloaded")),
        Outcome("error", failure=Failure("network", "infrastructure", "reset")),
    ]
    for position in range(600):
        now += chance.expovariate(50.0)
        job = Job(SimpleNamespace(position=position), 0, position, 0, position)  # type: ignore[arg-type]
        if limit.wait(job, now) == 0.0:
            job.dispatched_at = now
            limit.take(job, now)
            in_flight.append(job)
        else:
            assert in_flight, "it never waits for nothing"
            done = in_flight.pop(chance.randrange(len(in_flight)))
            outcome = chance.choices(outcomes, [1 - share, share * 0.9, share * 0.1])[0]
            limit.settle(done, replace(outcome, service_s=now - done.dispatched_at), now)
            limit.release(done, now)
        assert least <= limit.allowed <= most
        assert len(in_flight) <= most


@pytest.mark.parametrize("seed", range(2))
def test_answers_of_varying_length_are_not_mistaken_for_a_queue(seed: int) -> None:
    fixed = seconds(Server(sigma=1.0, seed=seed), 3_000, parallel=64)
    auto = seconds(Server(sigma=1.0, seed=seed), 3_000)
    assert fixed / auto >= 0.95


@pytest.mark.parametrize("knee", [8, 10, 30])
def test_a_queue_is_kept_short_and_the_server_busy(knee: int) -> None:
    server, trials = Server(knee=knee), max(1_000, 100 * knee)
    ideal = trials * LATENCY / knee
    assert ideal / seconds(server, trials) >= 0.95
    assert sum(server.latencies) / trials / LATENCY <= 1.5


def test_a_server_that_becomes_slower_is_not_mistaken_for_a_queue() -> None:
    """Everything takes longer from the third second on; a limit that latency lowered is raised again."""

    class Slower(Server):
        async def answer(self, *_: Any) -> Answer:
            await asyncio.sleep(LATENCY if asyncio.get_running_loop().time() > 3 else 0.0)
            return await super().answer()

    fixed = seconds(Slower(), 3_000, parallel=64)
    auto = seconds(Slower(), 3_000)
    assert fixed / auto >= 0.85


def test_latency_is_ignored_for_targets_that_are_not_services() -> None:
    server = Server(knee=10, is_service=False)
    seconds(server, 1_000)
    assert max(server.latencies) / LATENCY > 6, "64 in flight"


@pytest.mark.parametrize(
    ("capacity", "refused_after", "trials", "ideal", "share", "refused"),
    [
        (lambda _: 20, 0.002, 1_000, 10.0, 0.95, 0.05),
        (lambda now: 40 if now < 5 else 20 if now < 10 else 10, 0.002, 2_000, 20.0, 0.92, 0.05),
        (lambda now: 10 if 4 <= now < 8 else 20, 0.002, 1_000, 12.0, 0.90, 0.05),
        (lambda _: 20, 0.5, 2_000, 20.0, 0.95, 0.04),
    ],
    ids=["20", "halving twice", "a dip", "late refusals"],
)
def test_a_hidden_capacity_is_found_and_tracked(
    capacity: Callable[[float], int], refused_after: float, trials: int, ideal: float, share: float, refused: float
) -> None:
    server = Server(capacity, refused_after)
    assert ideal / seconds(server, trials) >= share
    assert server.refused / trials < refused


@pytest.mark.parametrize("latency", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("capacity", [7, 20, 35, 80])
def test_a_capacity_is_used_once_it_is_found(capacity: int, latency: float) -> None:
    """The rate after the start and before the end of the run, where fewer trials are left than may be in flight."""
    server = Server(lambda _: capacity, latency=latency)
    trials = 30 * capacity
    plan, _ = plan_of(trials, [{}], 1)
    watch, _ = go(plan, [server], parallel={"min": 1, "max": 100}, retries=50)
    times = sorted(server.answered_at)
    first, last = trials // 5, trials * 4 // 5
    assert (last - first) / (times[last] - times[first]) >= 0.95 * capacity / latency
    assert watch.events.count("cut") <= 2, "one cut when the capacity is found"


@settings(max_examples=10, deadline=None)
@given(capacity=st.integers(8, 40), depth=st.floats(0.3, 0.7), rounds=st.floats(10, 25), seed=st.integers(0, 10_000))
def test_a_temporary_dip_of_capacity_is_tracked(capacity: int, depth: float, rounds: float, seed: int) -> None:
    begin, end = 3.0, 3.0 + rounds * LATENCY
    low = math.ceil(depth * capacity)
    server = Server(lambda now: low if begin <= now < end else capacity, seed=seed)
    trials = int((begin + 6.0) * capacity / LATENCY + rounds * low)
    plan, _ = plan_of(trials, [{}], 1)
    watch, _ = go(plan, [server], parallel="auto", retries=50)
    late = [at for at in server.answered_at if end + 4.0 <= at < end + 5.0]
    assert len(late) >= 0.9 * capacity / LATENCY, "the full rate within 20 answer times"
    assert watch.events.count("cut") <= 4, "at the start, for the dip and after it"


def test_a_capacity_is_found_behind_random_refusals() -> None:
    server = Server(lambda _: 20, background=0.05)
    assert 20.0 / seconds(server, 2_000) >= 0.85
    assert server.refused / 2_000 < 0.11


@pytest.mark.parametrize("announced", [1, 2, 8, 30])
def test_an_announced_limit_is_respected_from_the_first_burst(announced: int) -> None:
    server = Server(announced=announced)
    seconds(server, 300)
    assert server.refused == 0


WINDOW_S = 10.0


@dataclass
class RateLimitedServer(Server):
    """An API that takes `per_window` requests in every window and announces how many are left."""

    per_window: int = 0
    style: str = "openai"
    announces_limit: bool = True
    used: int = 0
    window: float = -1.0

    async def answer(self, *_: Any) -> Answer:
        window = asyncio.get_running_loop().time() // WINDOW_S
        self.used = self.used + 1 if window == self.window else 1
        self.window = window
        if self.used > self.per_window:
            self.refused += 1
            raise RateLimited("slow down")
        remaining = self.per_window - self.used
        await asyncio.sleep(LATENCY)
        return Answer("yes", rate=rate_limits(self._announcement(remaining), now=0.0))

    def _announcement(self, remaining: int) -> dict[str, str]:
        reset_s = WINDOW_S - asyncio.get_running_loop().time() % WINDOW_S
        values = {"limit": str(self.per_window)} if self.announces_limit else {}
        if self.style == "openai":
            values |= {"remaining": str(remaining), "reset": f"{reset_s:.3f}s"}
            return {f"x-ratelimit-{name}-requests": value for name, value in values.items()}
        values |= {"remaining": str(remaining), "reset": f"1970-01-01T00:00:{reset_s:06.3f}Z"}
        return {f"anthropic-ratelimit-requests-{name}": value for name, value in values.items()}


@pytest.mark.parametrize("style", ["openai", "anthropic"])
@pytest.mark.parametrize("per_window", [1, 3, 10, 50])
def test_a_window_gets_no_more_requests_than_announced(per_window: int, style: str) -> None:
    server = RateLimitedServer(per_window=per_window, style=style)
    elapsed = seconds(server, 5 * per_window)
    assert server.refused == 0
    assert elapsed <= 5 * WINDOW_S, "every window is used in full"


@pytest.mark.parametrize("per_window", [3, 10, 50])
def test_the_highest_remaining_amount_replaces_a_missing_limit(per_window: int) -> None:
    server = RateLimitedServer(per_window=per_window, announces_limit=False)
    seconds(server, 5 * per_window)
    assert server.refused == 0


def test_fifty_trials_of_a_minute_start_soon() -> None:
    """Few requests start before the first answer, but slow answers do not delay the others."""

    class Slow(Server):
        async def answer(self, *_: Any) -> Answer:
            await asyncio.sleep(60.0)
            return Answer("yes")

    assert seconds(Slow(), 20) < 75


@settings(max_examples=30, deadline=None)
@given(share=st.floats(0.0, 0.15), seed=st.integers(0, 10_000))
def test_a_constant_share_of_refusals_is_rarely_congestion(share: float, seed: int) -> None:
    chance, test = random.Random(seed), RefusalTest()
    alarms = [test.add(chance.randint(10, 64), chance.random() < share) for _ in range(3_000)]
    assert sum(alarms[500:]) <= 25, "at most one in a hundred requests"


@settings(max_examples=30, deadline=None)
@given(share=st.floats(0.0, 0.1), seed=st.integers(0, 10_000))
def test_refusals_that_begin_at_a_higher_level_are_congestion(share: float, seed: int) -> None:
    chance, test = random.Random(seed), RefusalTest()
    for _ in range(500):
        test.add(20, chance.random() < share)
    alarms = [test.add(30, chance.random() < share + 0.5) for _ in range(40)]
    assert any(alarms)
    assert test.background(30) < share + 0.1


@settings(max_examples=40, deadline=None)
@given(knee=st.floats(4.0, 40.0), seed=st.integers(0, 10_000), sigma=st.sampled_from([0.02, 0.1, 0.3]))
def test_the_knee_is_found_where_latency_begins_to_grow(knee: float, seed: int, sigma: float) -> None:
    chance, curve = random.Random(seed), LatencyCurve()
    for _ in range(1_500):
        level = chance.randint(1, 64)
        curve.add(level, LATENCY * max(1.0, level / knee) * math.exp(chance.gauss(0.0, sigma)), 10)
    estimate = curve.knee()
    assert estimate is not None
    assert knee / 1.25 <= estimate.level <= knee * 1.25


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), sigma=st.floats(0.0, 1.5), slope=st.floats(0.0, 1.0))
def test_without_a_queue_there_is_no_knee(seed: int, sigma: float, slope: float) -> None:
    """Latency varies, also with the length of an answer, but not with the number in flight."""
    chance, curve = random.Random(seed), LatencyCurve()
    for _ in range(1_500):
        tokens = int(math.exp(chance.gauss(5.0, 1.0)))
        curve.add(chance.randint(1, 64), LATENCY * tokens**slope * math.exp(chance.gauss(0.0, sigma)), tokens)
    assert curve.knee() is None


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_longer_answers_at_higher_levels_do_not_count_as_a_queue(seed: int) -> None:
    chance, curve = random.Random(seed), LatencyCurve()
    for _ in range(1_500):
        level = chance.randint(1, 64)
        tokens = int(20 * level * chance.uniform(0.5, 2.0))
        curve.add(level, 0.01 * (40 + tokens) * math.exp(chance.gauss(0.0, 0.1)), tokens)
    assert curve.knee() is None
