"""The scheduler, in virtual time, with the real engine, the real limits and the simulator."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.errors import RateLimited
from abreast.execute.engine.local import LocalEngine
from abreast.execute.job import Job
from abreast.execute.listener import Listener
from abreast.model import Answer, Case, Failure, Outcome, Request, Variant
from abreast.plan.keys import variant_digest
from abreast.plan.plan import Plan
from abreast.spec.cases import load_cases
from abreast.spec.schema import Limits
from abreast.targets import Target, build
from virtual import Memory, Rig, run


class Watch(Listener):
    """Counts jobs in flight, and keeps the maximum."""

    def __init__(self) -> None:
        self.flying: Counter[Any] = Counter()
        self.most: Counter[Any] = Counter()
        self.finished_jobs: list[tuple[Job, Outcome]] = []
        self.starts: list[Job] = []
        self.events: list[str] = []

    def started(self, job: Job, in_flight: int) -> None:
        self.starts.append(job)
        others = [
            key for key, number in self.flying.items() if key[0] == "variant" and key[1] != job.variant and number
        ]
        self.most["other variants"] = max(self.most["other variants"], len(others))
        running_blocks = {key[1] for key, number in self.flying.items() if key[0] == "block" and number}
        for key in ("all", ("variant", job.variant), ("block", job.block)):
            self.flying[key] += 1
            self.most[key if key == "all" else key[0]] = max(
                self.most[key if key == "all" else key[0]], self.flying[key]
            )
        self.most["blocks"] = max(self.most["blocks"], len(running_blocks | {job.block}))

    def _landed(self, job: Job) -> None:
        for key in ("all", ("variant", job.variant), ("block", job.block)):
            self.flying[key] -= 1

    def retried(self, job: Job, failure: Failure, delay: float) -> None:
        self._landed(job)

    def finished(self, job: Job, outcome: Outcome) -> None:
        self._landed(job)
        self.finished_jobs.append((job, outcome))

    def event(self, kind: str, **detail: Any) -> None:
        self.events.append(kind)


def plan_of(cases: int, variants: Sequence[dict[str, Any]], repeats: int, seed: int = 0) -> tuple[Plan, list[Target]]:
    table = load_cases([Case(f"c{n}", f"q{n}", "yes") for n in range(cases)], Path())
    contenders = [Variant(f"v{n}", "simulated", params) for n, params in enumerate(variants)]
    shared: dict[str, Any] = {}
    targets = [build(variant, seed, shared) for variant in contenders]
    digests = [variant_digest(v, t) for v, t in zip(contenders, targets, strict=True)]
    return Plan(table, contenders, digests, repeats, seed), targets


async def execute(
    plan: Plan, targets: list[Target], limits: Limits, stop_after: int | None = None
) -> tuple[Watch, float]:
    watch = Watch()
    rig = Rig(plan, targets, limits, watch, Memory())
    if stop_after is not None:
        asyncio.get_running_loop().call_later(stop_after, rig.state.stop, "test")
    return watch, await rig.run()


def go(plan: Plan, built: list[Target], stop_after: int | None = None, **limits: Any) -> tuple[Watch, float]:
    try:
        result: tuple[Watch, float] = run(execute(plan, built, Limits(**limits), stop_after))
        return result
    finally:
        plan.cases.close()


TWO = [{"accuracy": 0.6, "latency": 1.0}, {"accuracy": 0.8, "latency": 1.0}]


@pytest.mark.parametrize(
    ("limits", "most", "blocks", "seconds"),
    [
        ({}, 1, 1, 40.0),
        ({"parallel": "variants"}, 2, 1, 20.0),
        ({"parallel": 5}, 5, 5, 8.0),
        ({"trial_parallelism": 4}, 4, 4, 10.0),
        ({"parallel": "variants", "trial_parallelism": 4}, 8, 4, 5.0),
        ({"parallel": 3, "trial_parallelism": 4}, 3, 4, 14.0),
        ({"parallel": 0}, 1, 1, 40.0),
        ({"parallel": -3}, 1, 1, 40.0),
        ({"parallel": 1000}, 40, 20, 1.0),
        ({"parallel": 100, "per_variant": 2}, 4, 4, 10.0),
    ],
)
def test_parallelism_has_its_documented_meaning(limits: dict[str, Any], most: int, blocks: int, seconds: float) -> None:
    plan, targets = plan_of(20, TWO, 1)
    watch, elapsed = go(plan, targets, **limits)
    assert watch.most["all"] == most
    assert watch.most["blocks"] <= blocks
    assert elapsed == pytest.approx(seconds, abs=0.01)
    assert len(watch.finished_jobs) == 40


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    cases=st.integers(1, 6),
    repeats=st.integers(1, 40),
    variants=st.integers(1, 4),
    runs=st.sampled_from([1, 2, 5]),
    done=st.sets(st.integers(0, 500)),
    seed=st.integers(0, 5),
)
def test_variants_that_take_turns_are_never_in_flight_together(
    cases: int, repeats: int, variants: int, runs: int, done: set[int], seed: int
) -> None:
    params = [{"accuracy": 0.5, "latency": 1.0, "errors": {"network": 0.1}} for _ in range(variants)]
    plan, targets = plan_of(cases, params, repeats, seed)
    plan.done[[position for position in done if position < len(plan)]] = True
    missing = plan.missing()
    watch, elapsed = go(plan, targets, parallel=100, per_variant=runs, turns=True, breaker=0, retries=9)
    finished = [(job.block // repeats, job.variant) for job, _ in watch.finished_jobs]
    assert len(finished) == missing
    turns = [turn for at, turn in enumerate(finished) if not at or finished[at - 1] != turn]
    assert len(turns) == len(set(turns)), "each comes once, and all of it together"
    assert [case for case, _ in turns] == sorted(case for case, _ in turns)
    assert watch.most["all"] <= runs
    assert watch.most["other variants"] == 0
    if missing and not any(job.attempt > 1 for job, _ in watch.finished_jobs):
        assert elapsed == pytest.approx(sum(math.ceil(finished.count(turn) / runs) for turn in turns), abs=0.01)


def test_each_case_has_its_own_order_of_turns() -> None:
    plan, targets = plan_of(40, TWO, 2)
    watch, _ = go(plan, targets, turns=True)
    first = [job.variant for at, (job, _) in enumerate(watch.finished_jobs) if at % 4 == 0]
    assert 8 < sum(first) < 32


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    cases=st.integers(1, 12),
    repeats=st.integers(1, 3),
    variants=st.integers(1, 4),
    parallel=st.sampled_from([None, 1, 2, 7, 100, "variants", "auto"]),
    blocks=st.sampled_from([None, 1, 3]),
    per_variant=st.sampled_from([None, 1, 2]),
    errors=st.sampled_from([{}, {"rate_limit": 0.3}, {"network": 0.5, "crash": 0.2}, {"auth": 0.3}]),
    seed=st.integers(0, 1000),
)
def test_every_trial_ends_once_no_limit_is_exceeded_and_results_do_not_depend_on_parallelism(
    cases: int,
    repeats: int,
    variants: int,
    parallel: Any,
    blocks: int | None,
    per_variant: int | None,
    errors: dict[str, float],
    seed: int,
) -> None:
    params = [
        {"accuracy": 0.5, "latency": {"low": 0.1, "high": 2.0}, "errors": errors, "n": n} for n in range(variants)
    ]
    plan, targets = plan_of(cases, params, repeats, seed)
    watch, _ = go(plan, targets, parallel=parallel, trial_parallelism=blocks, per_variant=per_variant, breaker=0)
    assert sorted(job.trial.position for job, _ in watch.finished_jobs) == list(range(len(plan)))
    if isinstance(parallel, int):
        assert watch.most["all"] <= parallel
    if blocks is not None:
        assert watch.most["blocks"] <= blocks
        assert watch.most["block"] <= (1 if parallel is None else variants)
    if per_variant is not None:
        assert watch.most["variant"] <= per_variant
    assert all(number == 0 for number in watch.flying.values())
    sequential, _ = go(*plan_of(cases, params, repeats, seed), breaker=0)
    assert _summary(watch) == _summary(sequential)


def _summary(watch: Watch) -> list[tuple[int, str, str | None, str | None, int]]:
    return sorted(
        (
            job.trial.position,
            outcome.status,
            outcome.answer.text if outcome.answer else None,
            outcome.failure.kind if outcome.failure else None,
            job.attempt,
        )
        for job, outcome in watch.finished_jobs
    )


def test_the_variants_of_a_block_start_next_to_each_other_in_random_order() -> None:
    plan, targets = plan_of(200, TWO, 2)
    watch, _ = go(plan, targets)
    blocks = [job.block for job in watch.starts]
    assert blocks == sorted(blocks)
    first = Counter(job.variant for job in watch.starts[::2])
    assert 150 < first[0] < 250, "neither variant always goes first"
    cases = [job.case for job in watch.starts[::4]]
    assert cases != sorted(cases), "cases are shuffled"
    assert all(watch.starts[i].case == watch.starts[i + 3].case for i in range(0, 800, 4)), "repeats stay together"


def test_a_trial_in_back_off_holds_no_slot() -> None:
    plan, targets = plan_of(30, [{"latency": 1.0, "errors": {"rate_limit": 0.3}, "retry_after": 1000.0}], 1)
    watch, _ = go(plan, targets, parallel=1, retries=50)
    waits = [job for job, _ in watch.finished_jobs if job.attempt > 1]
    assert waits, "the simulator must have refused some"
    first_try = watch.starts[:30]
    assert len({job.trial.position for job in first_try}) == 30, "the others went on while the first waited"


def test_a_stalled_variant_delays_no_other() -> None:
    plan, targets = plan_of(50, [{"latency": 0.1}, {"latency": 500.0}], 1)
    watch, _ = go(plan, targets, parallel=100, per_variant=2)
    quick = [outcome for job, outcome in watch.finished_jobs[:50]]
    assert len(quick) == 50
    assert {job.variant for job, _ in watch.finished_jobs[:40]} == {0}


def test_no_variant_runs_ahead_of_the_stored_prefix_by_more_than_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abreast.execute.sources.trials.WINDOW", 60)
    plan, targets = plan_of(500, [{"latency": 0.1}, {"latency": 50.0}], 1)
    watch, _ = go(plan, targets, parallel=4, per_variant=2)
    stored_slow, lead = 0, 0
    for job in watch.starts:
        if job.variant == 1:
            stored_slow += 1
        lead = max(lead, job.block - stored_slow)
    assert 40 < lead <= 60


def test_one_slow_trial_does_not_hold_up_the_others() -> None:
    plan, targets = plan_of(2000, [{"latency": {"low": 0.01, "high": 0.02}}], 1)
    slow = targets[0]
    original = slow.answer

    async def answer(trial: Any, *rest: Any) -> Any:
        if trial.position == plan.dispatch(0)[0]:
            await asyncio.sleep(6.0)
        return await original(trial, *rest)

    slow.answer = answer  # type: ignore[method-assign]
    _, elapsed = go(plan, targets, parallel=8)
    assert elapsed < 6.5, "the other 1,999 take about four seconds beside it"


def test_infrastructure_errors_are_retried_and_failures_of_the_variant_are_not() -> None:
    plan, targets = plan_of(60, [{"errors": {"network": 0.4, "crash": 0.2}}], 1)
    watch, _ = go(plan, targets, parallel=10)
    by_kind = {
        kind: [job.attempt for job, o in watch.finished_jobs if o.failure and o.failure.kind == kind]
        for kind in ("network", "crash")
    }
    assert by_kind["network"] == [] or set(by_kind["network"]) == {4}, "given up after three retries"
    assert any(job.attempt > 1 and outcome.status == "ok" for job, outcome in watch.finished_jobs)
    alone, _ = go(*plan_of(60, [{"errors": {"crash": 0.3}}], 1), parallel=10)
    assert {job.attempt for job, _ in alone.finished_jobs} == {1}


def test_authentication_errors_are_never_retried() -> None:
    plan, targets = plan_of(10, [{"errors": {"auth": 1.0}}], 1)
    watch, _ = go(plan, targets, parallel=10, breaker=0)
    assert {job.attempt for job, _ in watch.finished_jobs} == {1}


def test_after_a_stop_nothing_starts_and_what_is_in_flight_finishes() -> None:
    plan, targets = plan_of(100, [{"latency": 10.0}], 1)
    watch, elapsed = go(plan, targets, parallel=7, stop_after=15)
    assert len(watch.starts) == len(watch.finished_jobs) == 14
    assert elapsed == pytest.approx(20.0)
    assert {outcome.status for _, outcome in watch.finished_jobs} == {"ok"}


def outcomes_of(
    target: Target, during: Callable[[LocalEngine], None], timeout: float = 10.0
) -> tuple[list[str], float]:
    """The outcome of a job and its time, if `during` is called right after it was submitted."""

    async def main() -> tuple[list[str], float]:
        plan, _ = plan_of(1, [{}], 1)
        over: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        engine = LocalEngine([target], [lambda _length: timeout], lambda _job, outcome: over.set_result(outcome))
        engine.submit(Job(plan.trial(0), 0, 0, 0, 0))
        during(engine)
        outcome = await over
        ending = [outcome.status, outcome.failure.kind if outcome.failure else ""]
        at = asyncio.get_running_loop().time()
        await engine.close()
        plan.cases.close()
        return ending, at

    ending: tuple[list[str], float] = run(main())
    return ending


class Stubborn(Target):
    """A target that ignores its cancellation."""

    name, version, sees = "stubborn", "1", "input"

    def request(self, trial: Any) -> Request:
        return Request("prompt", "prompt", {})

    async def answer(self, *_: Any) -> Answer:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1000)

    async def close(self) -> None: ...


def test_a_job_cancelled_before_it_begins_has_an_outcome() -> None:
    target = plan_of(1, [{"latency": 1.0}], 1)[1][0]
    assert outcomes_of(target, lambda engine: engine.cancel()) == (["cancelled", "cancelled"], 0.0)


def test_a_target_that_ignores_its_cancellation_is_abandoned() -> None:
    status, at = outcomes_of(Stubborn(), lambda _: None)
    assert status == ["error", "timeout"]
    assert 10.0 < at <= 25.0

    def cancel_later(engine: LocalEngine) -> None:
        asyncio.get_running_loop().call_later(2.0, engine.cancel)

    status, at = outcomes_of(Stubborn(), cancel_later, timeout=1000.0)
    assert status == ["cancelled", "cancelled"]
    assert 2.0 < at <= 15.0


class Slow(Memory):
    """A slow store that records the largest number of trials a kill would have lost."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._unsafe = 0
        self.worst = 0

    def started(self) -> None:
        self._unsafe += 1
        self.worst = max(self.worst, self._unsafe)

    def outcome(self, job: Job, outcome: Outcome) -> None:
        asyncio.get_running_loop().call_later(self._seconds, self._safe, job)

    def _safe(self, job: Job) -> None:
        self._unsafe -= 1
        self.acknowledgements.add([job])


def most_that_a_kill_repeats(latency: float, parallel: Any, store_takes: float) -> int:
    """The largest number of trials that were started but not yet stored, in a run of 60."""

    async def main() -> int:
        plan, targets = plan_of(60, [{"latency": latency}], 1)
        memory = Slow(store_takes)

        class Starts(Listener):
            def started(self, job: Job, in_flight: int) -> None:
                memory.started()

        await Rig(plan, targets, Limits(parallel=parallel), Starts(), memory).run()
        plan.cases.close()
        return memory.worst

    rows_lost: int = run(main())
    return rows_lost


@pytest.mark.parametrize("store_takes", [0.002, 0.5, 100.0])
@pytest.mark.parametrize("parallel", [1, 4, 20])
def test_a_kill_repeats_no_more_than_what_was_in_flight(parallel: int, store_takes: float) -> None:
    assert most_that_a_kill_repeats(1.0, parallel, store_takes) == parallel


def test_with_trials_shorter_than_a_commit_a_kill_repeats_at_most_twice_as_many() -> None:
    assert most_that_a_kill_repeats(0.0, 8, 0.5) <= 16
    assert most_that_a_kill_repeats(0.01, 20, 0.5) <= 40


def test_adaptive_concurrency_counts_unstored_answers() -> None:
    assert most_that_a_kill_repeats(1.0, {"min": 1, "start": 5, "max": 10}, 0.5) == 10


class Server(Target):
    """A target with a changing capacity that refuses requests beyond it, at once or later."""

    name, version, sees = "server", "1", "input"

    def __init__(self, capacity: Callable[[float], int], refuses_after: float) -> None:
        self._capacity = capacity
        self._refuses_after = refuses_after
        self._busy = 0
        self._chance = random.Random(1)
        self.refused = 0

    def request(self, trial: Any) -> Request:
        return Request("prompt", "prompt", {})

    async def answer(self, *_: Any) -> Answer:
        if self._busy >= self._capacity(asyncio.get_running_loop().time()):
            self.refused += 1
            await asyncio.sleep(self._refuses_after)
            raise RateLimited("no")
        self._busy += 1
        try:
            await asyncio.sleep(0.2 * self._chance.uniform(0.98, 1.02))
        finally:
            self._busy -= 1
        return Answer("yes")

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    ("capacity", "bounds", "refuses_after", "ideal", "refused"),
    [
        (lambda _: 20, "auto", 0.001, 10.0, 50),
        (lambda _: 50, {"min": 1, "max": 100}, 0.001, 4.0, 50),
        (lambda now: 10 if 4 <= now < 8 else 20, "auto", 0.001, 12.0, 50),
        (lambda _: 5, "auto", 0.001, 40.0, 50),
        (lambda _: 20, "auto", 0.2, 10.0, 80),  # refusals as slow as answers: it overshoots once
    ],
    ids=["20", "50 of 100 allowed", "a dip", "5", "slow refusals"],
)
def test_auto_finds_an_unknown_capacity_and_stays_near_it(
    capacity: Callable[[float], int], bounds: Any, refuses_after: float, ideal: float, refused: int
) -> None:
    plan, _ = plan_of(1000, [{}], 1)
    server = Server(capacity, refuses_after)
    watch, elapsed = go(plan, [server], parallel=bounds, retries=50)
    assert {outcome.status for _, outcome in watch.finished_jobs} == {"ok"}
    assert ideal / elapsed > 0.9
    assert server.refused < refused


def test_one_episode_of_refusals_cuts_concurrency_once() -> None:
    plan, _ = plan_of(100, [{}], 1)
    watch, _ = go(plan, [Server(lambda _: 5, 0.001)], parallel={"min": 1, "start": 60, "max": 60}, retries=50)
    assert watch.events[:1] == ["cut"]
    assert watch.events.count("cut") <= 3, "the first, and one for each try of one more"
