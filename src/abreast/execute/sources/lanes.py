"""Lanes: the jobs that wait for their start, and which of them starts next.

There is a lane for each variant or judge, in plan order. Only the first job of a lane may start, so that a stalled
target never delays another. Lanes under the same shared limits form a group: if such a limit makes one of its jobs
wait, the others need no check. Heaps keep the first jobs in plan order, so a start takes O(log n) for n lanes.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

from abreast.execute.job import Job
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit, by_variant
from abreast.model import Outcome

Head = tuple[tuple[int, int], int]
"""The order of the first job in a lane, and the lane. Outdated once that lane begins with another job."""


class Lanes:
    """Waiting jobs by lane. `begin` a round, then take the `first` job that may start until there is none."""

    def __init__(self, variants: range, limits: Iterable[Limit]) -> None:
        self._variants = variants
        self._first_variant = variants.start
        self._lanes: list[deque[Job]] = [deque() for _ in variants]
        self._group(limits)
        self._tops: list[tuple[Head, int]] = []  # a heap of the groups still to be checked in this round
        self._blocked: list[tuple[Head, int]] = []  # lanes that have to wait until the next round
        self._slowest: int | None = None  # the first block that has to wait in this round
        self._now = 0.0
        self.earliest = UNTIL_AN_EVENT  # seconds until a job that had to wait in this round might start
        self._enough = 0
        self._short: set[int] = set()  # lanes with too few jobs, and more to come
        self._complete: set[int] = set()  # lanes that get no further jobs

    def _group(self, limits: Iterable[Limit]) -> None:
        variants = self._variants
        waiting = [limit for limit in limits if type(limit).wait is not Limit.wait]
        shared = [limit for limit in waiting if limit.is_shared]
        self._common = [limit for limit in shared if all(map(limit.applies_to, variants))]
        in_groups = [limit for limit in shared if limit not in self._common]
        self._single = by_variant((limit for limit in waiting if not limit.is_shared), variants)
        groups: dict[tuple[Limit, ...], int] = {}
        self._group_of = [
            groups.setdefault(tuple(limit for limit in in_groups if limit.applies_to(variant)), len(groups))
            for variant in variants
        ]
        self._group_limits = list(groups)
        self._heads: list[list[Head]] = [[] for _ in groups]  # one heap per group

    def use_limits(self, limits: Iterable[Limit]) -> None:
        """Continue under other limits, from the next round."""
        self._group(limits)
        self.keep(lambda _job: True)

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[Job]:
        for lane in self._lanes:
            yield from lane

    def size(self, index: int) -> int:
        return len(self._lanes[index])

    @property
    def heads(self) -> list[Job]:
        """The first job of each lane."""
        return [lane[0] for lane in self._lanes if lane]

    # -- filling ---------------------------------------------------------------------------------------------------

    def append(self, job: Job) -> None:
        """Add a job that comes after all others in its lane."""
        index = job.variant - self._first_variant
        lane = self._lanes[index]
        lane.append(job)
        if len(lane) == 1:
            self._add_head(index)
        if len(lane) >= self._enough:
            self._short.discard(index)

    def append_left(self, job: Job) -> None:
        """Add a job that starts before all others in its lane."""
        index = job.variant - self._first_variant
        self._lanes[index].appendleft(job)
        self._add_head(index)

    def insert(self, job: Job) -> None:
        """Add a job at its place in the plan's order."""
        index = job.variant - self._first_variant
        lane = self._lanes[index]
        place = sum(other.order < job.order for other in lane)
        lane.insert(place, job)
        if place == 0:
            self._add_head(index)

    def keep(self, is_kept: Callable[[Job], bool]) -> None:
        """Remove all other jobs."""
        self._lanes = [deque(filter(is_kept, lane)) for lane in self._lanes]
        self._blocked.clear()
        self._heads = [[] for _ in self._heads]
        for index, lane in enumerate(self._lanes):
            if lane:
                self._add_head(index)
        self._find_short()

    def is_short(self, enough: int) -> bool:
        """Whether an incomplete lane has fewer jobs than `enough`."""
        if enough != self._enough:
            self._enough = enough
            self._find_short()
        return bool(self._short)

    def complete(self, variant: int) -> None:
        """Record that no further jobs of this variant will come."""
        self._complete.add(variant - self._first_variant)
        self._short.discard(variant - self._first_variant)

    def _find_short(self) -> None:
        lanes = enumerate(self._lanes)
        self._short = {index for index, lane in lanes if len(lane) < self._enough} - self._complete

    def _add_head(self, index: int) -> None:
        number = self._group_of[index]
        heads, head = self._heads[number], (self._lanes[index][0].order, index)
        if not heads:
            heapq.heappush(self._tops, (head, number))
        heapq.heappush(heads, head)

    # -- choosing --------------------------------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Begin a round, in which jobs start and none ends: a lane that has to wait is not checked again."""
        for head, number in self._blocked:
            heapq.heappush(self._heads[number], head)
        self._blocked.clear()
        self._now, self.earliest, self._slowest = now, UNTIL_AN_EVENT, None
        self._tops = [(heads[0], number) for number, heads in enumerate(self._heads) if heads]
        heapq.heapify(self._tops)

    def first(self, lead: float = UNTIL_AN_EVENT) -> Job | None:
        """The first job in plan order that may start now, at most `lead` blocks ahead of the slowest lane."""
        while self._tops:
            head, number = heapq.heappop(self._tops)
            job = self._head_of(number)
            if job is None:
                continue
            heads = self._heads[number]
            if heads[0] != head:
                heapq.heappush(self._tops, (heads[0], number))
                continue
            slowest = job.block if self._slowest is None else self._slowest
            if job.block > slowest + lead or self._has_to_wait(self._common, job):
                self._tops.clear()
                return None
            if self._has_to_wait(self._group_limits[number], job):
                self._slowest = slowest
            elif self._has_to_wait(self._single[job.variant - self._first_variant], job):
                self._slowest = slowest
                self._blocked.append((heapq.heappop(heads), number))
                if heads:
                    heapq.heappush(self._tops, (heads[0], number))
            else:
                return job
        return None

    def take(self, job: Job) -> None:
        """Remove the job that `first` returned."""
        index = job.variant - self._first_variant
        lane, number = self._lanes[index], self._group_of[index]
        lane.popleft()
        heads = self._heads[number]
        if lane:
            heapq.heapreplace(heads, (lane[0].order, index))
        else:
            heapq.heappop(heads)
        if heads:
            heapq.heappush(self._tops, (heads[0], number))
        if len(lane) < self._enough and index not in self._complete:
            self._short.add(index)

    def upcoming(self, number: int) -> list[Job]:
        """Up to `number` jobs of each lane, in plan order."""
        jobs = [job for lane in self._lanes for job in itertools.islice(lane, number)]
        jobs.sort(key=lambda job: job.order)
        return jobs

    def _head_of(self, number: int) -> Job | None:
        """The first job of a group in plan order."""
        heads = self._heads[number]
        while heads:
            order, index = heads[0]
            lane = self._lanes[index]
            if lane and lane[0].order == order:
                return lane[0]
            heapq.heappop(heads)
        return None

    def _has_to_wait(self, limits: Iterable[Limit], job: Job) -> bool:
        longest = 0.0
        for limit in limits:
            wait = limit.wait(job, self._now)
            if wait > longest:
                longest = wait
        if longest and longest < self.earliest:
            self.earliest = longest
        return longest > 0.0


class Source:
    """Jobs of one kind. It fills their lanes and handles their outcomes; the scheduler calls all methods."""

    job_type: ClassVar[type[Job]]
    decides_blame: ClassVar[bool] = False  # final failures may wait until their blame is decided
    lead: float = UNTIL_AN_EVENT  # blocks that one lane may be ahead of the others

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes

    def use_limits(self, limits: Sequence[Limit]) -> None:
        """Continue under other limits."""
        self.lanes.use_limits(limits)

    @property
    def is_done(self) -> bool:
        """Whether all its jobs are stored and no others will follow."""
        raise NotImplementedError

    def is_held_back(self) -> bool:
        """Whether nothing may start, whatever the limits allow."""
        return False

    def refill(self, now: float) -> None:
        """Add jobs to lanes that are short of them."""

    def upcoming(self) -> list[Job]:
        """Return the jobs that will start next, if it is worth preparing them."""
        return []

    def skip(self, job: Job) -> bool:
        """Leave out a job that can never start; return False if the run has to stop instead."""
        return False

    def started(self, job: Job, in_flight: int) -> None:
        """An attempt was sent."""

    def retried(self, job: Job, outcome: Outcome, delay: float) -> None:
        """An attempt has failed; there is another one after a delay."""

    def concluded(self, job: Job, outcome: Outcome, now: float) -> None:
        """A job has its final outcome, except for the blame."""

    def store(self, job: Job, outcome: Outcome) -> None:
        """Store the final outcome, and acknowledge the job once it is safe."""
        raise NotImplementedError

    def stored(self, jobs: Sequence[Job], now: float) -> None:
        """The outcomes of these jobs are safe."""
