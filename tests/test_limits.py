"""Every limit, on a virtual clock and in real runs."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.errors import RateLimited, classify
from abreast.execute.engine.governor import FIRST, Cores, Memory, Resources, Stagger
from abreast.execute.engine.local import LocalEngine
from abreast.execute.engine.machine import Machine, MachineReading
from abreast.execute.estimate import Estimates, PriorUse
from abreast.execute.failures import Retry
from abreast.execute.job import Job
from abreast.execute.limits import registry
from abreast.execute.limits.announced import Announced
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit, LimitContext
from abreast.execute.limits.budget import Budget
from abreast.execute.limits.quota import Quota
from abreast.execute.limits.rate import RequestRate, TokenRate
from abreast.execute.limits.registry import ActiveLimits
from abreast.execute.listener import Listener
from abreast.execute.scheduler import Scheduler
from abreast.execute.sources.warmup import WarmUps
from abreast.execute.state import Acknowledgements, RunState
from abreast.model import (
    Allowance,
    Answer,
    Case,
    Failure,
    Outcome,
    RateLimits,
    Request,
    Trial,
    Usage,
    Variant,
)
from abreast.progress.displays import Counts
from abreast.rate_headers import rate_limits, retry_after
from abreast.spec.schema import Limits, quota_window, size_in_bytes
from abreast.store.user_state.quota_ledger import FileLedger
from abreast.targets.base import Place, Target
from abreast.targets.processes.process_usage import ProcessSample, ProcessSampler
from conftest import Folder
from test_scheduler import go, plan_of
from virtual import run

ALL = frozenset(range(10))


def job(position: int = 0, variant: int = 0) -> Job:
    return Job(Trial(position, Case(f"c{position}", "x" * 400), Variant("v"), 0), variant, position, 0, position)


def ok(cost: float | None = None, tokens: int | None = None) -> Outcome:
    return Outcome("ok", Answer("yes", cost_usd=cost, usage=Usage(tokens, 0 if tokens else None)))


def test_programs_that_take_long_to_start_start_one_after_the_other() -> None:
    limit, now, starts = Stagger([0.8, 0.0], cores=2.0), 0.0, []
    while len(starts) < 5:
        now += limit.wait(job(), now)
        limit.take(job(), now)
        starts.append(now)
        assert limit.wait(job(variant=1), now) == 0.0  # the first job starts at once
    assert starts == pytest.approx([0.0, 0.4, 0.8, 1.2, 1.6])


# -- rates ---------------------------------------------------------------------------------------------------------


def starts_of(limit: RequestRate, until: float, pauses: random.Random | None = None) -> list[float]:
    """Start times of jobs that are always ready, except for occasional pauses."""
    now, starts = 0.0, []
    while now < until:
        wait = limit.wait(job(), now)
        if wait > 0:
            now += wait
        else:
            limit.take(job(), now)
            starts.append(now)
        if pauses is not None and pauses.random() < 0.01:
            now += pauses.uniform(0, 20)
    return starts


@settings(max_examples=30, deadline=None, derandomize=True)
@given(most=st.integers(1, 900), period=st.sampled_from([1.0, 10.0, 60.0]), seed=st.none() | st.integers(0, 100))
def test_a_request_rate_is_never_exceeded_in_any_window(most: int, period: float, seed: int | None) -> None:
    limit = RequestRate(most, period, ALL)
    starts = starts_of(limit, 4 * period, random.Random(seed) if seed is not None else None)
    window: deque[float] = deque()
    for start in starts:
        window.append(start)
        while window[0] <= start - period + 1e-9:
            window.popleft()
        assert len(window) <= most


def test_a_request_rate_is_used_fully() -> None:
    starts = starts_of(RequestRate(600, 60.0, ALL), 600.0)
    assert len(starts) >= 0.98 * 6000
    gaps = [after - before for before, after in pairwise(starts[700:])]
    assert max(gaps) < 2.0, "spread, not in bursts of a minute"


def test_a_token_rate_counts_estimates_before_answers_and_usage_after() -> None:
    limit = TokenRate(1000, 60.0, ALL, lambda _job: 400.0)
    for position in range(2):
        assert limit.wait(job(position), 0.0) == 0.0
        limit.take(job(position), 0.0)
    assert limit.wait(job(2), 1.0) == pytest.approx(59.0)
    limit.settle(job(0), ok(tokens=100), 2.0)
    assert limit.wait(job(2), 2.0) == 0.0, "it took less than was thought"
    limit.take(job(2), 2.0)
    assert limit.wait(job(3), 60.5) == 0.0, "a minute later the window is free"
    huge = TokenRate(10, 60.0, ALL, lambda _job: 400.0)
    assert huge.wait(job(), 0.0) == 0.0, "a job larger than the limit starts alone"


def test_rates_hold_in_a_run() -> None:
    plan, targets = plan_of(100, [{"latency": 0.01}], 1)
    watch, elapsed = go(plan, targets, parallel=50, requests_per_second=10)
    assert 9.0 <= elapsed < 10.5
    assert len(watch.finished_jobs) == 100


# -- what providers announce ---------------------------------------------------------------------------------------


def test_rate_headers_of_both_styles_are_read() -> None:
    at = 1_700_000_000.0
    anthropic = {
        "Anthropic-RateLimit-Requests-Limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:40.500Z",
        "anthropic-ratelimit-tokens-limit": "80000",
        "anthropic-ratelimit-tokens-remaining": "70000",
        "anthropic-ratelimit-tokens-reset": "2023-11-14T22:13:30Z",
        "anthropic-ratelimit-output-tokens-remaining": "16000",
        "retry-after": "7",
    }
    limits = rate_limits(anthropic, at)
    assert limits == RateLimits(Allowance(50, 49, 20.5), Allowance(None, 16000, None)), "the scarcest of the tokens"
    assert retry_after(anthropic) == 7.0
    del anthropic["anthropic-ratelimit-output-tokens-remaining"]
    tokens = rate_limits(anthropic, at)
    assert tokens is not None
    assert tokens.tokens == Allowance(80000, 70000, 11.0), "a whole second may be its end"
    openai = {
        "x-ratelimit-limit-requests": "60",
        b"X-RateLimit-Remaining-Requests": b"59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": 150000,
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-tokens": "6m0s",
        "retry-after-ms": "20",
    }
    assert rate_limits(openai) == RateLimits(Allowance(60, 59, 1.0), Allowance(150000, 149984, 360.0))
    assert rate_limits(list(openai.items())) == rate_limits(openai), "as pairs"
    assert retry_after(openai) == pytest.approx(0.02)
    assert rate_limits({"content-type": "text/plain"}) is None
    assert rate_limits(None) is None


_NAMES = st.sampled_from(
    [
        *(f"anthropic-ratelimit-{kind}-{part}" for kind in ("requests", "tokens") for part in ("limit", "remaining")),
        *(f"x-ratelimit-{part}-{kind}" for kind in ("requests", "tokens") for part in ("limit", "remaining", "reset")),
        *("anthropic-ratelimit-requests-reset", "Retry-After", "retry-after-ms", "x-other"),
    ]
)
_VALUES = (
    st.text(max_size=30)
    | st.integers().map(str)
    | st.floats().map(str)
    | st.datetimes().map(lambda moment: moment.isoformat() + "Z")
    | st.from_regex(r"\A-?\d{0,30}(ms|s|m|h|d)?\d{0,3}(ms|s)?\Z")
    | st.none()
    | st.binary(max_size=8)
    | st.floats()
    | st.lists(st.integers(), max_size=2)
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    headers=st.dictionaries(_NAMES, _VALUES)
    | st.lists(st.tuples(_NAMES, _VALUES) | st.integers())
    | st.none()
    | st.integers()
    | st.text()
)
def test_arbitrary_headers_never_raise_and_never_give_negative_values(headers: Any) -> None:
    limits, wait = rate_limits(headers), retry_after(headers)
    allowances = [] if limits is None else [kind for kind in (limits.requests, limits.tokens) if kind is not None]
    for value in [wait, *(value for kind in allowances for value in (kind.limit, kind.remaining, kind.reset_s))]:
        assert value is None or 0 <= value < float("inf")
    error = RateLimited("slow down", headers=headers)
    assert classify(error).rate == limits
    assert error.retry_after is None or 0 <= error.retry_after <= 3600


def test_the_response_behind_an_error_of_an_sdk_is_read_too() -> None:
    class Response:
        status_code = 429
        headers: ClassVar = {"Retry-After": "3", "x-ratelimit-remaining-requests": "0"}

    class TooMany(Exception):
        response = Response()

    failure = classify(TooMany("429"))
    assert (failure.kind, failure.retry_after) == ("rate_limit", 3.0)
    assert failure.rate == RateLimits(Allowance(remaining=0.0))


@pytest.mark.parametrize("parallel", [8, 60, "auto"])
@pytest.mark.parametrize("latency", [0.2, 2.0])
def test_an_announced_rate_is_used_fully_without_refusals(parallel: Any, latency: float) -> None:
    allows = {"requests": 120, "seconds": 60, "headers": "openai"}
    plan, targets = plan_of(500, [{"latency": latency, "allows": allows}] * 2, 1)
    watch, elapsed = go(plan, targets, parallel=parallel, retries=0)
    assert len(watch.finished_jobs) == 1000
    assert {outcome.status for _, outcome in watch.finished_jobs} == {"ok"}, "nothing was refused"
    full_windows = 8 * 60.0  # the ninth begins then
    assert elapsed <= full_windows / 0.95 + 40 * latency / (1 if parallel == "auto" else parallel / 8)
    assert watch.events.count("announced") >= 7


class Bucket(Target):
    """A server whose allowance refills steadily; a request counts when it arrives."""

    name, version, sees = "bucket", "1", "input"

    def __init__(self, most: float, period_s: float, tokens_each: int = 0) -> None:
        self.most, self.rate, self.per_request = most, most / period_s, tokens_each or 1
        self.kind = "tokens" if tokens_each else "requests"
        self.level, self.at, self.refused = most, 0.0, 0

    def request(self, trial: Trial) -> Request:
        return Request("q" * 4 * self.per_request, None, {})

    async def answer(self, trial: Trial, request: Request, attempt: int, workers: Any) -> Answer:
        now = asyncio.get_running_loop().time()
        self.level, self.at = min(self.most, self.level + (now - self.at) * self.rate), now
        if self.level < self.per_request:
            self.refused += 1
            raise RateLimited("too many", headers=self.headers())
        self.level -= self.per_request
        headers = self.headers()
        await asyncio.sleep(0.5)
        return Answer("yes", usage=Usage(self.per_request, 0), rate=rate_limits(headers))

    def headers(self) -> dict[str, str]:
        full = (self.most - self.level) / self.rate
        headers = {"limit": str(self.most), "remaining": str(int(self.level)), "reset": f"{full:.3f}s"}
        return {f"x-ratelimit-{name}-{self.kind}": value for name, value in headers.items()}

    async def close(self) -> None: ...


@pytest.mark.parametrize("tokens_each", [0, 50])
def test_a_steadily_refilling_allowance_is_used_fully(tokens_each: int) -> None:
    plan, _ = plan_of(2000, [{}], 1)
    server = Bucket(100.0 * (tokens_each or 1), 60.0, tokens_each)
    watch, elapsed = go(plan, [server], parallel=20)
    assert len(watch.finished_jobs) == 2000
    assert server.refused == 0
    assert elapsed <= (2000 - 100) / 100 * 60 / 0.95


def test_retry_after_pauses_all_variants_of_the_target() -> None:
    events: list[dict[str, Any]] = []
    limit = Announced(["a", "b"], lambda _job: 1.0, lambda kind, **detail: events.append(detail))
    for position in (0, 1):
        assert limit.wait(job(position), 0.0) == 0.0
        limit.take(job(position), 0.0)
    refusal = RateLimited("slow down", headers={"retry-after": "5", "x-ratelimit-limit-requests": "2"})
    limit.settle(job(1), Outcome("error", failure=classify(refusal)), 1.0)
    assert limit.wait(job(2), 1.0) == pytest.approx(5.05)
    assert limit.wait(job(2, variant=1), 1.0) == 0.0, "another target has its own"
    limit.settle(job(0), ok(), 2.0)
    assert events == [{"target": "a", "used_up": "requests", "limit": 2.0, "seconds": 5.05}]
    for position in (2, 3):
        assert limit.wait(job(position), 6.1) == 0.0
        limit.take(job(position), 6.1)
    assert limit.wait(job(4), 6.1) == UNTIL_AN_EVENT, "two are all it takes; what they say is waited for"
    limit.settle(job(2), ok(), 7.0)
    limit.settle(job(3), ok(), 7.0)
    assert limit.wait(job(4), 7.0) == 0.0, "one that announces nothing any more is let be"


@pytest.mark.parametrize("manner", ["openai", "anthropic"])
def test_announced_rates_are_respected_in_a_run(folder: Folder, manner: str) -> None:
    folder.cases(25)
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\nvariants: {a: {target: simulated, latency: 0.01, "
        f"allows: {{requests: 10, seconds: 0.5, headers: {manner}}}}}}}\nlimits: {{parallel: 5}}\n",
    )
    assert folder.abreast("run", "spec.yaml").code == 0
    assert folder.sql("select max(attempts) a, count(*) n from predictions") == [{"a": 1, "n": 25}]
    events = [row["detail"] for row in folder.abreast("show", "--events", "--json").json if row["kind"] == "announced"]
    assert [(event["target"], event["used_up"], event["limit"]) for event in events] == [
        ("simulated", "requests", 10)
    ] * 2


def test_a_function_can_pass_on_rate_headers(folder: Folder) -> None:
    folder.cases(6)
    folder.write(
        "mine.py",
        """
        from abreast import Answer
        from abreast.errors import RateLimited
        from abreast.rate_headers import rate_limits

        calls = []

        def predict(case):
            calls.append(case.id)
            headers = {"x-ratelimit-limit-requests": "3", "x-ratelimit-reset-requests": "300ms"}
            if len(calls) == 2:
                raise RateLimited("slow down", headers={**headers, "retry-after-ms": "200"})
            return Answer("yes", rate=rate_limits({**headers, "x-ratelimit-remaining-requests": str(-len(calls) % 3)}))
        """,
    )
    folder.write("spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: 'python:mine:predict'}}\n")
    assert folder.abreast("run", "spec.yaml").code == 0
    attempts = folder.sql("select error_kind, waited_s >= 0.2 as waited from attempts")
    assert attempts == [{"error_kind": "rate_limit", "waited": 1}]
    assert "announced" in folder.abreast("show", "--events").out


# -- quota ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "window"),
    [("200/5h", (200, 18000.0)), ("max-20x", (200, 18000.0)), ("max-5x", (50, 18000.0)), ("3/2m", (3, 120.0))],
)
def test_quotas_are_read(text: str, window: tuple[int, float]) -> None:
    assert quota_window(text) == window


@pytest.mark.parametrize("text", ["", "200", "0/5h", "5h", "x/5h", "200/5y", "-1/h"])
def test_an_invalid_quota_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        quota_window(text)


def test_a_quota_window_slides_and_is_shared_by_all_users_of_the_ledger(tmp_path: Path) -> None:
    clock = [1000.0]
    ledgers = [FileLedger(tmp_path / "quota.db", lambda: clock[0]) for _ in range(2)]
    quotas = [Quota(3, 100.0, "account", ALL, ledger, True, lambda *_a, **_k: None) for ledger in ledgers]
    other = Quota(3, 100.0, "another account", ALL, ledgers[0], True, lambda *_a, **_k: None)
    for turn, at in enumerate((0.0, 10.0, 20.0)):
        clock[0] = 1000.0 + at
        quota = quotas[turn % 2]
        assert quota.wait(job(), at) == 0.0
        quota.take(job(), at)
    clock[0] = 1030.0
    assert quotas[0].wait(job(), 30.0) == pytest.approx(70.0)
    assert quotas[1].wait(job(), 30.0) == pytest.approx(70.0), "the other process knows what is left"
    assert other.wait(job(), 30.0) == 0.0
    clock[0] = 1100.5
    assert quotas[0].wait(job(), 100.5) == 0.0
    assert quotas[1].wait(job(), 100.5) > 0, "the one ticket is held"
    quotas[0].close()
    assert quotas[1].wait(job(), 111.0) == 0.0 or ledgers[1].used("account", 100.0) == 2, "and given back unused"
    for ledger in ledgers:
        ledger.close()


def test_a_used_up_quota_stops_the_run_with_exit_code_3_and_blocks_a_later_run(
    folder: Folder, monkeypatch: Any
) -> None:
    monkeypatch.setenv("ABREAST_STATE", str(folder.path / "state"))
    folder.cases(20)
    spec = "cases: cases.jsonl\nvariants: {a: {target: simulated}}\nscorers: [exact]\nlimits: {quota: 12/1h}\n"
    folder.write("spec.yaml", spec)
    done = folder.abreast("run", "spec.yaml", "--on-quota", "stop")
    assert done.code == 3
    assert "quota of 12 in 1 h is used up" in done.err
    assert "12 of 20 done and stored, 8 not run" in done.err
    second = folder.abreast("run", "spec.yaml", "--on-quota", "stop", "--fresh", "--store", "other.db")
    assert second.code == 3
    assert "0 of 20 done" in second.err


# -- adding one ----------------------------------------------------------------------------------------------------


class EveryOtherSecond(Limit):
    """A new limit: one class, and a function that builds it from the settings of a spec."""

    def __init__(self, variants: range) -> None:
        self.variants = variants

    def wait(self, job: Job, now: float) -> float:
        return 0.0 if int(now) % 2 == 0 else 1.0


def test_a_limit_is_one_file_and_one_line_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(context: LimitContext) -> list[Limit]:
        return [EveryOtherSecond(context.trials)] if context.limits.per_variant == 1 else []

    monkeypatch.setattr(registry, "FACTORIES", [*registry.FACTORIES, build])
    for per_variant, seconds in ((1, {0}), (2, {0, 1})):
        plan, targets = plan_of(6, [{"latency": 1.0}], 1)
        watch, _ = go(plan, targets, parallel=2, per_variant=per_variant)
        assert {int(job.dispatched_at) % 2 for job in watch.starts} == seconds


# -- budget --------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    cap=st.floats(0.01, 5), costs=st.lists(st.floats(0.001, 0.2), min_size=30, max_size=80), flying=st.integers(1, 9)
)
def test_spending_exceeds_the_cap_at_most_by_the_error_of_the_estimates(
    cap: float, costs: list[float], flying: int
) -> None:
    estimates = Estimates(1)
    budget = Budget(
        cap, "usd", ALL, estimates.cost, lambda outcome: outcome.answer.cost_usd if outcome.answer else None
    )
    in_flight: list[tuple[Job, float]] = []
    excess = 0.0
    for position, cost in enumerate(costs):
        while in_flight and (len(in_flight) >= flying or budget.wait(job(position), 0.0) > 0):
            done, paid = in_flight.pop(0)
            for limit in (estimates, budget):
                limit.settle(done, ok(paid), 0.0)
        if budget.wait(job(position), 0.0) > 0:
            break
        expected = estimates.cost(job(position)) or 0.0
        budget.take(job(position), 0.0)
        excess += max(0.0, cost - expected)
        assert budget.spent + budget.reserved <= cap + excess + 1e-9
        in_flight.append((job(position), cost))
    for done, paid in in_flight:
        budget.settle(done, ok(paid), 0.0)
    assert budget.spent <= cap + excess + 1e-9


def test_while_costs_are_unknown_one_trial_runs_alone() -> None:
    estimates = Estimates(1)
    budget = Budget(
        1.0, "usd", ALL, estimates.cost, lambda outcome: outcome.answer.cost_usd if outcome.answer else None
    )
    assert budget.wait(job(0), 0.0) == 0.0
    budget.take(job(0), 0.0)
    assert budget.wait(job(1), 0.0) == UNTIL_AN_EVENT
    for limit in (estimates, budget):
        limit.settle(job(0), ok(0.4), 0.0)
    assert budget.wait(job(1), 0.0) == 0.0
    budget.take(job(1), 0.0)
    assert budget.wait(job(2), 0.0) == UNTIL_AN_EVENT, "0.4 spent, 0.4 reserved: another might pass 1.0"


def test_earlier_spending_counts_when_a_run_is_resumed() -> None:
    estimates = Estimates(1, [PriorUse(10, 0.9, 0, 0.0)])
    budget = Budget(0.95, "usd", ALL, estimates.cost, lambda _outcome: None, spent=0.9)
    assert budget.wait(job(), 0.0) == UNTIL_AN_EVENT
    assert budget.exhausted(job(), 0.0)


def test_a_budget_stops_the_run_with_exit_code_3_and_resume_continues_with_a_larger_one(folder: Folder) -> None:
    folder.cases(40)
    folder.write(
        "spec.yaml",
        """
        cases: cases.jsonl
        variants: {a: {target: simulated, cost_usd: 0.01}, b: {target: simulated, cost_usd: 0.03}}
        scorers: [exact]
        limits: {parallel: 8, budget_usd: 0.5}
        """,
    )
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 3
    assert "budget $0.50 reached" in done.err
    assert "abreast resume" in done.err
    assert folder.sql("select sum(cost_usd) <= 0.5 as held, sum(cost_usd) > 0.4 as used from predictions") == [
        {"held": 1, "used": 1}
    ]
    assert folder.abreast("resume").code == 3, "the same budget is still used up"
    assert folder.abreast("resume", "--budget", "5").code == 0
    assert folder.sql("select count(*) n from predictions") == [{"n": 80}]


# -- breaker -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [[], ["--parallel", "20"], ["--parallel", "auto"]])
def test_a_dead_target_stops_the_run_in_every_mode(folder: Folder, flags: list[str]) -> None:
    folder.cases(100)
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\ntarget: simulated\nvariants: {a: {errors: {auth: 1.0}, latency: 0.01}}\n",
    )
    done = folder.abreast("run", "spec.yaml", *flags)
    assert done.code == 3
    in_flight = 20 if flags else 1
    assert f"simulated: auth: simulated auth; the first {3 * in_flight} attempts failed" in done.err
    assert "log in or set the API key, then try again, then run `abreast resume" in done.err
    assert folder.sql("select count(*) n from predictions") == [{"n": 3 * in_flight}]


def test_failures_of_the_variant_never_trip_the_breaker(folder: Folder) -> None:
    folder.cases(30)
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\nvariants: {a: {target: simulated, errors: {crash: 0.9}}}\nscorers: [exact]\n",
    )
    assert folder.abreast("run", "spec.yaml", "--allow-failing").code in (0, 1)
    assert folder.sql("select count(*) n from predictions") == [{"n": 30}]


# -- retries and timeouts ------------------------------------------------------------------------------------------


def test_back_off_is_exponential_with_full_jitter_and_honours_retry_after() -> None:
    retry = Retry(10, random.Random(1))
    error = Failure("rate_limit", "infrastructure", "slow")
    for attempt, longest in ((1, 0.5), (2, 1.0), (5, 8.0), (9, 60.0)):
        delays = [retry.delay(error, attempt) for _ in range(300)]
        assert all(delay is not None and 0 <= delay <= longest for delay in delays)
        assert max(delay or 0 for delay in delays) > 0.9 * longest
        assert min(delay or 0 for delay in delays) < 0.1 * longest
    refusal = Failure("rate_limit", "infrastructure", "slow", retry_after=7.0)
    assert all(7.0 <= (retry.delay(refusal, 1) or 0) <= 7.7 for _ in range(50))
    assert retry.delay(error, 11) is None
    assert retry.delay(classify(ValueError("mine")), 1) is None


def test_failed_attempts_are_in_the_store(folder: Folder) -> None:
    folder.cases(20)
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\nvariants: {a: {target: simulated, errors: {network: 0.2}}}\nscorers: [exact]\n"
        "limits: {parallel: 20, retries: 10}\n",
    )
    assert folder.abreast("run", "spec.yaml").code == 0
    counts = folder.sql(
        "select (select count(*) from attempts) failed, (select sum(attempts) - count(*) from trials) again, "
        "(select count(*) from trials where backoff_s > 0) waited"
    )[0]
    assert counts["failed"] == counts["again"] > 0
    assert counts["waited"] > 0


def test_a_run_can_have_a_time_limit(folder: Folder) -> None:
    folder.cases(200)
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\nvariants: {a: {target: simulated, latency: 0.05}}\nscorers: [exact]\n"
        "limits: {run_timeout: 0.4}\n",
    )
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 3
    assert "run_timeout of 0.4 s reached" in done.err
    assert 0 < folder.sql("select count(*) n from predictions")[0]["n"] < 200


# -- the machine ---------------------------------------------------------------------------------------------------


GB = 10**9


class Governed:
    """A governor of one variant with simulated measurements, and the trials that it admits."""

    def __init__(self, worker_kind: Place, memory: int, requested: int = 40, cores: float = 4.0, **limits: Any) -> None:
        self.total, self.used, self.cpu_s, self.computing, self.idle = memory, 0, 0.0, 0, 0
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.limit = Resources(
            [worker_kind],
            self.reading(),
            memory=Memory([worker_kind], limits.get("memory_per_trial")),
            cores=Cores(cores, limits.get("free_cores", 1.0)),
            free_memory=limits.get("free_memory", GB),
            requested=requested,
            on_change=lambda kind, **detail: self.events.append((kind, detail)),
        )
        self.requested, self.started, self.in_flight = requested, 0, deque[int]()

    def reading(self) -> MachineReading:
        own = ProcessSample(self.used, self.cpu_s, self.computing, self.idle)
        return MachineReading(self.total - self.used, 0.0, own)

    def fill(self, now: float) -> int:
        """Start every trial that may start; return the number in flight."""
        while len(self.in_flight) < self.requested and self.limit.wait(job(self.started), now) == 0.0:
            self.limit.take(job(self.started), now)
            self.in_flight.append(self.started)
            self.started += 1
        return len(self.in_flight)

    def end(self, now: float, **data: Any) -> None:
        """End the oldest trial."""
        answer = Answer("yes", data=data)
        self.limit.settle(job(self.in_flight.popleft()), Outcome("ok", answer), now)

    def sample(self, now: float) -> None:
        self.limit.sample(self.reading(), now)

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events]


@pytest.mark.parametrize("worker_kind", ["thread", "process"])
def test_large_trials_never_exhaust_memory_and_all_of_them_run(worker_kind: Place) -> None:
    governed = Governed(worker_kind, 24 * GB)
    begun: dict[int, float] = {}
    now, finished, most = 0.0, 0, 0
    while finished < 40:
        governed.requested = min(40, len(governed.in_flight) + 40 - governed.started)
        most = max(most, governed.fill(now))
        for position in governed.in_flight:
            begun.setdefault(position, now)
        now += 0.25
        ages = [now - begun[position] for position in governed.in_flight]
        governed.used = sum(int(min(1.0, age / 2.0) * GB) for age in ages)  # each grows for two seconds
        assert governed.used < 23 * GB
        governed.idle = sum(age >= 2.0 for age in ages) if worker_kind == "process" else 0
        governed.sample(now)
        if governed.in_flight and ages[0] >= 3.0:
            governed.end(now, **({"peak_memory_mb": 1000.0} if worker_kind == "process" else {}))
            finished += 1
    assert most >= 12, "and the memory there is, is used"
    assert "memory_short" in governed.kinds()


def test_all_requested_trials_run_once_the_first_are_observed_waiting() -> None:
    governed = Governed("process", 24 * GB, requested=32)
    assert governed.fill(0.0) == FIRST
    running = []
    for look in range(1, 4):
        governed.idle = len(governed.in_flight)
        governed.sample(0.025 * look)
        running.append(governed.fill(0.025 * look))
    assert running == [16, 32, 32]
    assert governed.events == [], "it took no second"


def test_trials_of_unknown_size_that_still_grow_let_no_others_start() -> None:
    governed = Governed("process", 24 * GB, requested=32)
    governed.fill(0.0)
    for second in range(1, 4):
        governed.used += GB
        governed.computing, governed.idle = FIRST, 0
        governed.sample(float(second))
        assert governed.fill(float(second)) == FIRST
    (kind, detail) = governed.events[0]
    assert kind == "memory_short"
    assert detail["message"] == (
        "8 of 32 requested trials in flight: the memory per trial is not known yet; "
        "to change this, set limits: memory_per_trial"
    )


def test_a_declared_size_is_used() -> None:
    governed = Governed("thread", 10 * GB, free_memory=GB, memory_per_trial=2 * GB)
    assert governed.fill(0.0) == 4


def test_the_size_that_trials_report_decides_how_many_fit() -> None:
    governed = Governed("process", 10 * GB, free_memory=GB)
    governed.fill(0.0)
    governed.end(1.0, peak_memory_mb=1500.0)
    while len(governed.in_flight) > 1:
        governed.end(1.0, peak_memory_mb=100.0)
    assert governed.fill(1.0) == 6


def compute(governed: Governed, seconds: int, busy_cores: float, share: float = 1.0) -> list[int]:
    """Let trials compute for a share of their time; return the number in flight by second."""
    running = []
    for second in range(1, seconds + 1):
        governed.computing = round(share * len(governed.in_flight))
        governed.idle = len(governed.in_flight) - governed.computing
        governed.cpu_s += min(busy_cores, float(governed.computing))
        governed.sample(float(second))
        governed.end(float(second), peak_memory_mb=1.0)
        running.append(governed.fill(float(second)))
    return running


def test_trials_that_compute_leave_a_core_free() -> None:
    governed = Governed("process", 100 * GB, requested=8, cores=4.0)
    governed.fill(0.0)
    assert compute(governed, 20, busy_cores=4.0)[-1] == 3
    assert governed.kinds() == ["processes_cut"]
    assert governed.events[0][1]["message"].endswith("to change this, set limits: {free_cores: 0} or parallel")
    free = Governed("process", 100 * GB, requested=8, cores=4.0, free_cores=0.0)
    free.fill(0.0)
    assert compute(free, 20, busy_cores=4.0)[-1] == 4


def test_waiting_trials_are_never_limited_by_cores() -> None:
    governed = Governed("process", 100 * GB, requested=8, cores=2.0)
    governed.fill(0.0)
    assert set(compute(governed, 30, busy_cores=1.0, share=0.25)) == {8}, "they start and wait, as agents do"
    assert governed.events == []


def test_trials_are_limited_while_they_saturate_all_cores() -> None:
    governed = Governed("process", 100 * GB, requested=16, cores=2.0)
    governed.fill(0.0)
    crowded = compute(governed, 20, busy_cores=2.0, share=0.5)
    assert crowded[-1] < 16
    governed.computing, governed.idle = 0, crowded[-1]
    for second in range(21, 60):
        governed.sample(float(second))
        governed.fill(float(second))
    assert len(governed.in_flight) == 16
    assert governed.kinds() == ["processes_cut", "processes_raise"]


def test_the_progress_line_says_why_fewer_trials_run() -> None:
    governed = Governed("process", 100 * GB, requested=16, cores=2.0)
    counts = Counts(planned=100, done_before=0, targets=["command"])
    governed.fill(0.0)
    crowded = compute(governed, 20, busy_cores=2.0, share=0.5)
    for kind, detail in governed.events:
        counts.event(kind, **detail)
    assert "(of 16 requested, limited by cores)" in counts.sentence()
    governed.computing, governed.idle = 0, crowded[-1]
    for second in range(21, 60):
        governed.sample(float(second))
        governed.fill(float(second))
    for kind, detail in governed.events[1:]:
        counts.event(kind, **detail)
    assert "limited by" not in counts.sentence()


def test_the_machine_is_read_often_only_while_the_memory_of_a_trial_is_unknown() -> None:
    governed = Governed("process", 24 * GB)
    assert not governed.limit.is_learning, "nothing runs"
    governed.fill(0.0)
    assert governed.limit.is_learning
    governed.end(0.2, peak_memory_mb=1.0)
    assert not governed.limit.is_learning


def test_a_sample_includes_the_usage_of_child_processes() -> None:
    sampler = ProcessSampler()
    code = "import sys; block = bytearray(80_000_000); print(flush=True); sys.stdin.read()"
    shell = ["sh", "-c", f"{sys.executable} -c '{code}'; true"]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        usage = sampler.watch(process.pid)
        process.stdout.readline()
        sample = sampler.sample()
        sampler.forget(usage)
        process.stdin.close()
    assert usage.peak_memory is not None
    assert usage.peak_memory > 80_000_000
    assert sample.memory > usage.peak_memory
    assert sample.idle + sample.computing >= 1


def test_control_groups_of_both_kinds_are_respected(tmp_path: Path) -> None:
    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("proc/self/cgroup", "0::/user/job\n")
    write("sys/fs/cgroup/user/job/memory.max", "max\n")
    write("sys/fs/cgroup/user/memory.max", "2000000000\n")
    write("sys/fs/cgroup/user/job/memory.current", "500000000\n")
    write("sys/fs/cgroup/user/job/memory.stat", "anon 1\ninactive_file 100000000\n")
    write("sys/fs/cgroup/user/job/cpu.max", "150000 100000\n")
    write("proc/pressure/memory", "some avg10=12.50 avg60=0.00 avg300=0.00 total=0\nfull avg10=1.00\n")
    second = Machine(tmp_path)
    assert second.total_memory() == 2_000_000_000
    assert second.available_memory() == 1_600_000_000
    assert second.cores() == pytest.approx(min(1.5, float(len(os.sched_getaffinity(0)))))
    assert second.memory_pressure() == 12.5

    first_root = tmp_path / "v1"
    for name, text in {
        "proc/self/cgroup": "4:memory:/docker/x\n5:cpu,cpuacct:/docker/x\n",
        "sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "3000000000\n",
        "sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes": "1000000000\n",
        "sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us": "-1\n",
    }.items():
        path = first_root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    first = Machine(first_root)
    assert first.available_memory() == 2_000_000_000
    assert first.cores() >= 1


@pytest.mark.parametrize(("text", "size"), [("1GB", GB), ("1.5gb", 1_500_000_000), ("500 MB", 5 * 10**8), (7, 7)])
def test_sizes_are_read(text: Any, size: int) -> None:
    assert size_in_bytes(text) == size


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ("{quota: 5}", "such as 200/5h"),
        ("{quota: often}", "such as 200/5h"),
        ("{budget_usd: -1}", "a number above 0"),
        ("{memory_per_trial: big}", "a size such as 500MB"),
        ("{requests_per_minute: many}", "a number above 0"),
        ("{breaker: -1}", "a whole number from 0"),
        ("{targets: {simulatd: {parallel: 3}}}", 'did you mean "simulated"'),
        ("{targets: {openai: {parallel: 3}}}", "(known: simulated)"),
        ("{targets: {simulated: {paralel: 3}}}", 'unknown key "paralel"'),
    ],
)
def test_invalid_limits_are_refused_with_an_explanation(folder: Folder, limits: str, message: str) -> None:
    folder.cases(3)
    folder.write(
        "spec.yaml", f"cases: cases.jsonl\ntarget: simulated\nvariants: {{a: {{}}, b: {{}}}}\nlimits: {limits}\n"
    )
    done = folder.abreast("run", "spec.yaml")
    assert done.code in (2, 4)
    assert message in done.err
    assert not (folder.path / "results.db").exists()


def test_a_limit_of_one_target_does_not_affect_other_targets() -> None:
    plan, targets = plan_of(20, [{"latency": 1.0}], 1)
    watch, elapsed = go(plan, targets, parallel=20, targets={"simulated": {"parallel": 4}})
    assert watch.most["all"] == 4
    assert elapsed == pytest.approx(5.0, abs=0.01)


def test_events_of_limits_are_shown(folder: Folder) -> None:
    folder.cases(60)
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\nvariants: {a: {target: simulated, capacity: 5, latency: 0.01}}\nscorers: [exact]\n"
        "limits: {parallel: auto, retries: 50}\n",
    )
    assert folder.abreast("run", "spec.yaml").code == 0
    events = folder.abreast("show", "--events", "--json").json
    cut = next(event for event in events if event["kind"] == "cut")
    assert cut["detail"]["before"] > cut["detail"]["after"]
    assert "cut" in folder.abreast("show", "--events").out


def test_a_target_can_have_its_own_timeout(folder: Folder) -> None:
    folder.write(
        "mine.py",
        """
        import asyncio
        async def quick(case):
            await asyncio.sleep(0.4)
            return "yes"
        async def slow(case):
            await asyncio.sleep(0.4)
            return "yes"
        """,
    )
    folder.cases(2)
    folder.write(
        "spec.yaml",
        """
        cases: cases.jsonl
        variants: {a: {target: "python:mine:quick"}, b: {target: "python:mine:slow"}}
        limits: {timeout: 30, targets: {"python:mine:quick": {timeout: 0.1}}}
        """,
    )
    assert folder.abreast("run", "spec.yaml").code == 3, "a target that never answered may be down"
    rows = folder.sql("select distinct variant, status, error_kind, error from predictions order by variant")
    assert rows == [
        {"variant": "a", "status": "error", "error_kind": "timeout", "error": "no answer within 0.1 s"},
        {"variant": "b", "status": "ok", "error_kind": None, "error": None},
    ]


# -- subscriptions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "warned"),
    [
        ("{quota: max-5x, parallel: 8}", "8 trials of simulated in flight: subscription plans (max-5x) throttle"),
        ("{quota: max-20x, parallel: auto}", "any number of trials of simulated"),
        ("{quota: max-20x, parallel: {min: 1, start: 2, max: 6}}", "6 trials of simulated"),
        ("{quota: max-20x, parallel: variants, trial_parallelism: 3}", "6 trials of simulated"),
        ("{parallel: 8, targets: {simulated: {quota: max-5x}}}", "8 trials of simulated"),
        ("{quota: max-5x, parallel: 4}", ""),
        ("{quota: max-5x}", ""),
        ("{quota: max-5x, parallel: {min: 1, start: 2, max: 4}}", ""),
        ("{quota: max-5x, parallel: 8, per_variant: 2}", ""),
        ("{parallel: 8, targets: {simulated: {quota: max-5x, parallel: 3}}}", ""),
        ("{quota: 200/5h, parallel: 8}", ""),
    ],
)
def test_more_in_flight_than_a_subscription_allows_is_a_warning(folder: Folder, limits: str, warned: str) -> None:
    folder.cases(20)
    folder.write(
        "spec.yaml", f"cases: cases.jsonl\ntarget: simulated\nvariants: {{a: {{}}, b: {{}}}}\nlimits: {limits}\n"
    )
    done = folder.abreast("check", "spec.yaml")
    assert done.code == 0
    assert ("! subscription: " + warned in done.err) if warned else "subscription" not in done.err
    if warned:
        assert "--parallel 4" in done.err


# -- warm-up -------------------------------------------------------------------------------------------------------

MINE = """
import pathlib
from abreast import Answer
from abreast.errors import Transient, Unauthenticated

def predict(case, broken=""):
    path = pathlib.Path("calls.txt")
    path.write_text((path.read_text() if path.exists() else "") + case.id + "\\n")
    if broken == "auth":
        raise Unauthenticated("no key")
    if broken == "once" and len(path.read_text().split()) == 1:
        raise Transient("503")
    return Answer("yes", cost_usd=0.1)
"""


def warm_spec(folder: Folder, variants: str, limits: str = "{}") -> None:
    folder.write("mine.py", MINE)
    folder.write(
        "spec.yaml",
        f"cases: cases.jsonl\ntarget: python:mine:predict\nvariants: {variants}\nscorers: [exact]\nlimits: {limits}\n",
    )


def warmups(folder: Folder) -> list[dict[str, Any]]:
    rows = folder.abreast("show", "--events", "--json").json
    return [row["detail"] for row in rows if row["kind"] == "warmup"]


def test_a_warm_up_is_an_event_and_not_a_trial(folder: Folder) -> None:
    folder.cases(5)
    warm_spec(folder, "{a: {warmup: true}, b: {warmup: true, broken: ''}}")
    assert folder.abreast("run", "spec.yaml").code == 0
    calls = (folder.path / "calls.txt").read_text().split()
    assert (len(calls), calls[0]) == (11, "c0"), "one for the target, with the first case"
    [event] = warmups(folder)
    assert event["target"] == "python:mine:predict"
    assert (event["variant"], event["case"], event["status"], event["error"]) == ("a", "c0", "ok", None)
    assert event["cost_usd"] == 0.1
    assert event["seconds"] >= 0
    assert folder.sql("select count(*) n, min(position) p from trials") == [{"n": 10, "p": 0}]
    assert folder.sql("select count(*) n from scores") == [{"n": 10}]
    assert folder.abreast("run", "spec.yaml").code == 0
    assert len((folder.path / "calls.txt").read_text().split()) == 11, "nothing left to execute: nothing is warmed up"


def test_a_failed_warm_up_executes_nothing_and_resume_warms_up_again(folder: Folder) -> None:
    folder.cases(5)
    warm_spec(folder, "{a: {broken: auth, warmup: true}}")
    done = folder.abreast("run", "spec.yaml", "--json")
    assert done.code == 4
    assert "the warm-up of python:mine:predict failed: auth: no key; nothing was executed" in done.err
    assert "log in or set the API key" in done.err
    assert "abreast resume" in done.err
    assert not done.out
    assert folder.sql("select count(*) n from trials") == [{"n": 0}]
    assert warmups(folder)[0]["error"] == "auth: no key"
    assert folder.abreast("resume").code == 4
    assert len(warmups(folder)) == 2
    assert folder.abreast("runs", "--json").json[0]["status"] == "incomplete"
    assert folder.abreast("resume", "--force").code == 3, "forced to go on, the breaker ends it"
    assert folder.sql("select count(*) n from trials") == [{"n": 3}]


def test_a_transient_fault_does_not_fail_a_warm_up(folder: Folder) -> None:
    folder.cases(3)
    warm_spec(folder, "{a: {broken: once, warmup: true}}")
    assert folder.abreast("run", "spec.yaml").code == 0
    assert warmups(folder)[0]["attempts"] == 2
    assert folder.sql("select count(*) n from attempts") == [{"n": 0}]


def test_the_cost_of_warm_ups_counts_against_budget_and_quota(folder: Folder, monkeypatch: Any) -> None:
    monkeypatch.setenv("ABREAST_STATE", str(folder.path / "state"))
    folder.cases(20)
    warm_spec(folder, "{a: {warmup: true}}", "{budget_usd: 0.55}")
    assert folder.abreast("run", "spec.yaml").code == 3
    assert folder.sql("select count(*) n from trials") == [{"n": 4}], "four and the warm-up"
    assert folder.abreast("resume", "--budget", "0.75").code == 3
    assert folder.sql("select count(*) n from trials") == [{"n": 5}], "five and two warm-ups"
    folder.cases(5)
    warm_spec(folder, "{a: {warmup: true}}", "{quota: 4/1h}")
    assert folder.abreast("run", "spec.yaml", "--on-quota", "stop", "--store", "other.db").code == 3
    assert folder.sql("select count(*) n from trials", "other.db") == [{"n": 3}]
    second = folder.abreast("resume", "--on-quota", "stop", "--store", "other.db")
    assert second.code == 3, "a used-up quota is reported as such, not as a failed warm-up"
    assert "quota of 4 in 1 h is used up" in second.err


def test_warm_ups_of_several_targets_run_at_the_same_time_and_before_everything_else() -> None:
    plan, _ = plan_of(3, [{}, {}], 1)
    log: list[tuple[str, float]] = []

    class Cold(Bucket):
        warmup = True

        def __init__(self, name: str) -> None:
            super().__init__(1000.0, 60.0)
            self.name = name

        async def answer(self, trial: Trial, request: Request, attempt: int, workers: Any) -> Answer:
            log.append((self.name, asyncio.get_running_loop().time()))
            return await super().answer(trial, request, attempt, workers)

    async def warm() -> Any:
        loop = asyncio.get_running_loop()
        targets: list[Any] = [Cold("one"), Cold("two")]
        state = RunState(Acknowledgements(loop), Listener())
        engine = LocalEngine(targets, [lambda _length: 10.0] * 2, state.complete)
        events: list[str] = []
        emit = lambda kind, **_: events.append(kind)  # noqa: E731
        context = LimitContext(
            limits=Limits(),
            targets=targets,
            plan=plan,
            emit=emit,
            stop=state.stop,
            ledger=FileLedger,
            estimates=Estimates(len(targets)),
        )
        limits = list(ActiveLimits(context))
        source = WarmUps(plan=plan, targets=targets, limits=limits, state=state, emit=emit)
        retry = Retry(0)
        await Scheduler(sources=[source], engine=engine, limits=limits, retry=retry, state=state, clock=loop.time).run()
        assert state.stopped is None
        await engine.close()
        return events, loop.time()

    events, elapsed = run(warm())
    plan.cases.close()
    assert log == [("one", 0.0), ("two", 0.0)]
    assert events == ["warmup", "warmup"]
    assert elapsed == pytest.approx(0.5)


def test_a_failed_warm_up_counts_even_if_another_never_starts(folder: Folder) -> None:
    folder.write(
        "mine.py",
        """
        import asyncio
        from abreast.errors import Transient

        async def down(case):
            await asyncio.sleep(0.05)
            raise Transient("down")

        async def up(case):
            return case.input
        """,
    )
    folder.cases(3)
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\nvariants:\n  a: {target: python:mine:down, warmup: true}\n"
        "  b: {target: python:mine:up, warmup: true}\n"
        "limits: {parallel: 4, retries: 0, targets: {'python:mine:up': {quota: 1/5h}}}\n",
    )
    folder.write("first.yaml", "cases: cases.jsonl\nvariants: {b: {target: python:mine:up}}\nlimits: {quota: 1/5h}\n")
    assert folder.abreast("run", "first.yaml", "--limit", "1", "--store", "first.db").code == 0
    done = folder.abreast("run", "spec.yaml", "--on-quota", "stop")
    assert (done.code, "the warm-up of python:mine:down failed" in done.err) == (4, True), done.err
    assert folder.sql("select count(*) as n from trials") == [{"n": 0}]


def test_warmup_is_true_or_false(folder: Folder) -> None:
    folder.cases(3)
    warm_spec(folder, "{a: {warmup: often}}")
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 2
    assert 'variant "a": warmup must be true or false' in done.err


def test_a_call_that_a_timeout_cannot_end_is_one_warning(folder: Folder) -> None:
    folder.write("mine.py", "import time\ndef slow(case):\n    time.sleep(1)\n    return 'yes'\n")
    folder.cases(3)
    folder.write(
        "spec.yaml",
        "{cases: cases.jsonl, variants: {a: {target: 'python:mine:slow'}}, limits: {timeout: 0.1, parallel: 3}}",
    )
    done = folder.abreast("run", "spec.yaml")
    assert done.err.count("is still running in its thread; set executor: process") == 1


def test_reports_mention_turns_and_a_run_with_turns_never_stops_early(folder: Folder) -> None:
    folder.cases(5)
    spec = "cases: cases.jsonl\ntarget: simulated\nvariants: {a: {accuracy: 1}, b: {accuracy: 0}}\nscorers: [exact]\n"
    folder.write("spec.yaml", f"{spec}repeats: 3\nlimits: {{turns: true, parallel: 4}}\n")
    done = folder.abreast("run", "spec.yaml", "--verbose")
    assert done.code == 0, done.err
    warning = "not interleaved"
    assert warning in done.out
    assert all(warning in folder.abreast("report", "--format", form).out for form in ("markdown", "json"))
    starts = [line.split()[1:3] for line in done.err.splitlines() if line.startswith("start ")]
    turns = [turn for at, turn in enumerate(starts) if not at or starts[at - 1] != turn]
    assert len(starts) == 30
    assert len(turns) == 10
    refused = folder.abreast("run", "spec.yaml", "--until-decided", "--margin", "0.1")
    assert refused.code == 2
    assert "until_decided and limits.turns" in refused.err
