"""Lanes choose the same job as a scan of all lanes, whatever the limits are."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.execute.job import Job
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit
from abreast.execute.limits.concurrency import Blocks, InFlight, PerVariant
from abreast.execute.limits.rate import RequestRate
from abreast.execute.sources.lanes import Lanes
from abreast.model import Case, Outcome, Trial, Variant


def make_job(variant: int, block: int, slot: int) -> Job:
    return Job(Trial(block, Case(f"c{block}", "q"), Variant(f"v{variant}"), 0), variant, block, slot, block)


def applying(limits: list[Limit], job: Job) -> list[Limit]:
    return [limit for limit in limits if limit.applies_to(job.variant)]


class Scan:
    """The reference: check every limit for the first job of every lane and take the first in plan order."""

    def __init__(self, number: int, limits: list[Limit]) -> None:
        self.lanes: list[deque[Job]] = [deque() for _ in range(number)]
        self.limits = limits

    def first(self, now: float, lead: float) -> tuple[Job | None, float]:
        heads = sorted((lane[0] for lane in self.lanes if lane), key=lambda job: job.order)
        waits = [max(limit.wait(job, now) for limit in applying(self.limits, job)) for job in heads]
        last = heads[0].block + lead if heads else 0
        allowed = [job for job, wait in zip(heads, waits, strict=True) if wait == 0.0 and job.block <= last]
        blocked = [wait for job, wait in zip(heads, waits, strict=True) if wait > 0.0 and job.block <= last]
        return (allowed[0] if allowed else None), min(blocked, default=UNTIL_AN_EVENT)


def limits_of(draw: Any, number: int) -> list[Limit]:
    half = frozenset(range(0, number, 2))
    choices: list[Limit] = [
        InFlight(draw(st.integers(1, 3)), half),
        InFlight(draw(st.integers(1, 3)), frozenset(range(number)) - half),
        PerVariant(draw(st.integers(1, 2)), range(number)),
        Blocks(draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        RequestRate(draw(st.integers(1, 4)), 1.0, half),
    ]
    chosen = [limit for limit in choices if draw(st.booleans())]
    return [InFlight(draw(st.integers(1, 6))), *chosen]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_round_starts_the_same_jobs_in_the_same_order_as_a_scan_of_all_lanes(data: st.DataObject) -> None:
    number = data.draw(st.integers(1, 7))
    limits = limits_of(data.draw, number)
    lead = data.draw(st.sampled_from([UNTIL_AN_EVENT, 0, 1, 3]))
    lanes, scan = Lanes(range(number), limits), Scan(number, limits)
    rng = random.Random(data.draw(st.integers(0, 1_000)))
    in_flight: list[Job] = []
    now, block = 0.0, 0

    for _ in range(data.draw(st.integers(1, 12))):
        for _ in range(rng.randrange(3)):
            for slot, variant in enumerate(rng.sample(range(number), rng.randint(1, number))):
                job = make_job(variant, block, slot)
                lanes.append(job)
                scan.lanes[variant].append(job)
            block += 1
        for job in rng.sample(in_flight, rng.randint(0, len(in_flight))):
            in_flight.remove(job)
            for limit in applying(limits, job):
                limit.settle(job, Outcome("ok"), now)
                limit.release(job, now)
            if rng.random() < 0.3:  # it is tried again
                lanes.append_left(job)
                scan.lanes[job.variant].appendleft(job)
        lanes.begin(now)
        while True:
            expected, earliest = scan.first(now, lead)
            chosen = lanes.first(lead)
            assert chosen is expected
            if chosen is None:
                assert lanes.earliest <= earliest
                break
            lanes.take(chosen)
            scan.lanes[chosen.variant].popleft()
            for limit in applying(limits, chosen):
                limit.take(chosen, now)
            in_flight.append(chosen)
        now += rng.choice((0.0, 0.1, 0.5, 1.1))


class Counting(InFlight):
    """A limit that counts the calls of `wait`."""

    calls = 0

    def wait(self, job: Job, now: float) -> float:
        self.calls += 1
        return super().wait(job, now)


def test_a_limit_shared_by_all_lanes_is_checked_once_however_many_wait() -> None:
    limit = Counting(1)
    lanes = Lanes(range(1_000), [limit])
    for variant in range(1_000):
        lanes.append(make_job(variant, 0, variant))
    lanes.begin(0.0)
    first = lanes.first()
    assert first is not None
    assert first.variant == 0
    lanes.take(first)
    limit.take(first, 0.0)
    assert lanes.first() is None
    assert limit.calls == 2


def test_one_waiting_lane_of_a_group_is_checked_for_all_of_them() -> None:
    class CountingSome(InFlight):
        calls = 0

        def wait(self, job: Job, now: float) -> float:
            self.calls += 1
            return super().wait(job, now)

    stalled, free = CountingSome(0, frozenset(range(500))), InFlight(10)
    lanes = Lanes(range(1_000), [stalled, free])
    for variant in range(1_000):
        lanes.append(make_job(variant, 0, variant))
    lanes.begin(0.0)
    first = lanes.first()
    assert first is not None
    assert first.variant == 500
    assert stalled.calls == 1


def test_lanes_are_short_until_each_has_enough_or_is_complete() -> None:
    lanes = Lanes(range(3), [])
    assert lanes.is_short(2)
    for block in range(2):
        for variant in range(2):
            lanes.append(make_job(variant, block, variant))
    assert lanes.is_short(2)
    lanes.complete(2)
    assert not lanes.is_short(2)
    lanes.begin(0.0)
    first = lanes.first()
    assert first is not None
    lanes.take(first)
    assert lanes.is_short(2)
    lanes.complete(first.variant)
    assert not lanes.is_short(2)
    assert lanes.is_short(3)
