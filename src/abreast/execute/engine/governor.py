"""The governor of a machine: run as many trials as requested, unless memory or cores are short.

Trials that only wait, such as for an API, never wait for cores, however busy other programs keep them. All decisions
rest on readings of the machine that a thread takes once a second, and sooner after the first start of a variant. One
trial may always run, or nothing would finish.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

from abreast.execute.engine.machine import Machine, MachineReading
from abreast.execute.job import Job
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit
from abreast.model import Outcome
from abreast.spec.schema import Limits, size_in_bytes
from abreast.targets.base import Place
from abreast.text import many

SAMPLE_S = 1.0  # between two readings
FIRST_SAMPLE_S, EARLY_SAMPLE_S = 0.025, 0.1  # in the first seconds of a variant: initial and longest interval
EARLY_S = 5.0
GUESS: dict[Place, int] = {"loop": 0, "thread": 50_000_000, "process": 200_000_000}  # bytes, before any trial ended
FIRST = 8  # trials in flight before any of them is idle or has ended
PRESSED = 10.0  # per cent of the time in which some process waits for memory
COMPUTING = 2 / 3  # of a trial's time; those that compute less are mostly waiting
SATURATED = 0.9  # of all cores
ROOM = 0.75  # of all cores; if trials use less, more may run
HALF_LIFE_S = 5.0  # of readings of cores
EVIDENCE_S = 10.0  # of readings, before trials that have not ended count as computing
MARGIN = 1.25  # on the average of trials, some of which may still grow
NOTICE_S = 1.0  # shorter waits are not reported


def governor(limits: Limits, places: Sequence[Place], requested: int | None, emit: Callable[..., Any]) -> Resources:
    """Build the governor of this machine. `places` are by variant."""
    machine = Machine()
    free = max(256_000_000, machine.total_memory() // 20)
    declared = None if limits.memory_per_trial is None else size_in_bytes(limits.memory_per_trial)
    return Resources(
        places,
        machine.read(),
        memory=Memory(places, declared),
        cores=Cores(machine.cores(), limits.free_cores),
        free_memory=free if limits.free_memory is None else size_in_bytes(limits.free_memory),
        requested=requested,
        on_change=emit,
    )


Reason = Literal["memory", "unknown", "cores"]
_EVENTS: dict[Reason, tuple[str, str]] = {
    "memory": ("memory_short", "memory_enough"),
    "unknown": ("memory_short", "memory_enough"),
    "cores": ("processes_cut", "processes_raise"),
}


class Memory:
    """Memory that trials need, by variant: declared, reported by trials that ended, or their share of the total."""

    def __init__(self, places: Sequence[Place], declared: int | None) -> None:
        self._places, self._declared = places, declared
        self._reported = [0.0] * len(places)
        self._shares = [0.0] * len(places)
        self._has_ended = [False] * len(places)
        self._is_known = [declared is not None or place == "loop" for place in places]

    def is_known(self, variant: int) -> bool:
        return self._is_known[variant]

    def of(self, variant: int) -> float:
        """Estimate the bytes of a trial of this variant."""
        if self._declared is not None:
            return float(self._declared)
        if self._reported[variant]:
            return self._reported[variant]
        guess = 0 if self._is_known[variant] else GUESS[self._places[variant]]
        return max(guess, MARGIN * self._shares[variant])

    def share(self, variant: int, size: float) -> None:
        """Note the average of the trials in flight."""
        self._shares[variant] = max(self._shares[variant], size)

    def report(self, variant: int, outcome: Outcome) -> None:
        """Note the peak memory that a trial reports."""
        peak = None if outcome.answer is None else outcome.answer.data.get("peak_memory_mb")
        if isinstance(peak, int | float):
            self._reported[variant] = max(self._reported[variant], 1e6 * peak)
            self._is_known[variant] = True
        self._has_ended[variant] = self._has_ended[variant] or outcome.status in ("ok", "error")

    def confirm(self) -> None:
        """After a reading, trust the shares of variants with a finished trial."""
        for variant, has_ended in enumerate(self._has_ended):
            self._is_known[variant] = self._is_known[variant] or has_ended


class Cores:
    """How many trials may run in processes, by the CPU time that running ones use."""

    def __init__(self, cores: float, free: float) -> None:
        self._cores, self._allowed = cores, max(1.0, cores - free)
        self._cpu_s: float | None = None
        self._computing = self._running = self._used = self._seconds = 0.0  # sums that decay over time
        self._observed_s = 0.0
        self.most: int | None = None  # None: as many as requested
        self.has_evidence = False  # a trial has ended, or there are enough readings

    @property
    def used(self) -> float:
        """Cores that the trials used in the last seconds."""
        return self._used / self._seconds if self._seconds else 0.0

    def sample(self, reading: MachineReading, running: int, elapsed: float) -> None:
        fading = 0.5 ** (elapsed / HALF_LIFE_S)
        before, self._cpu_s = self._cpu_s, reading.own.cpu_s
        self._used = fading * self._used + (0.0 if before is None else max(0.0, self._cpu_s - before))
        self._seconds = fading * self._seconds + elapsed
        self._computing = fading * self._computing + min(reading.own.computing, running) * elapsed
        self._running = fading * self._running + running * elapsed
        self._observed_s += elapsed if running else 0.0
        self.has_evidence = self.has_evidence or self._observed_s >= EVIDENCE_S
        share = self._computing / self._running if self._running else 0.0
        if self.has_evidence and share >= COMPUTING:
            self.most = max(1, int(self._allowed / share))
        elif running > 1 and self.used >= SATURATED * self._cores:
            self.most = running - 1
        elif self.most is not None and running >= self.most and self.used < ROOM * self._cores:
            self.most *= 2


class Resources(Limit):
    """Admits trials by measured memory, and processes also by measured CPU time."""

    holds_warmups = False

    def __init__(
        self,
        places: Sequence[Place],
        reading: MachineReading,
        memory: Memory,
        cores: Cores,
        free_memory: int,
        requested: int | None,
        on_change: Callable[..., Any],
    ) -> None:
        """`reading` is from before the first trial. `requested` trials may be in flight, None if that is adaptive."""
        self._places, self._memory, self._cores = places, memory, cores
        self._reading, self._base = reading, reading.own.memory
        self._free_memory, self._requested, self._on_change = free_memory, requested, on_change
        self._in_flight = [0] * len(places)
        self._started = 0  # since the last reading
        self._first = FIRST
        self._sampled_at: float | None = None
        self._wait_reason: tuple[Reason, int] | None = None  # of a job since the last reading, and its variant
        self._waiting_since: float | None = None
        self._reported: Reason | None = None  # by an event
        self._explained: set[Reason] = set()
        self.is_starting = asyncio.Event()  # a variant has its first trial in flight, so a reading is due

    async def watch(self, wake: Callable[[], None]) -> None:
        """Take readings of the machine in a thread: once a second, and sooner after the first start of a variant."""
        loop = asyncio.get_running_loop()
        machine, pause, early_until = Machine(), SAMPLE_S, 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.is_starting.wait(), pause)
                self.is_starting.clear()
                pause, early_until = FIRST_SAMPLE_S, loop.time() + EARLY_S
                await asyncio.sleep(pause)
            self.sample(await asyncio.to_thread(machine.read), loop.time())
            wake()
            is_early = self.is_learning and loop.time() < early_until
            pause = min(EARLY_SAMPLE_S if is_early else SAMPLE_S, 2 * pause)

    # -- admission -------------------------------------------------------------------------------------------------

    def wait(self, job: Job, now: float) -> float:
        reason = self._reason(job.variant) if any(self._in_flight) else None
        if reason is None:
            return 0.0
        self._wait_reason = reason, job.variant
        return UNTIL_AN_EVENT

    def _reason(self, variant: int) -> Reason | None:
        if not self._memory.is_known(variant) and self._unknown >= self._first:
            return "unknown"
        most = self._cores.most
        if most is not None and self._places[variant] == "process" and self._processes >= most:
            return "cores"
        return None if self._fits(variant) else "memory"

    @property
    def _processes(self) -> int:
        return sum(number for number, place in zip(self._in_flight, self._places, strict=True) if place == "process")

    @property
    def _unknown(self) -> int:
        return sum(number for variant, number in enumerate(self._in_flight) if not self._memory.is_known(variant))

    @property
    def is_learning(self) -> bool:
        """Whether trials of unknown memory are in flight."""
        return self._unknown > 0

    @property
    def _grown(self) -> int:
        return max(0, self._reading.own.memory - self._base)

    def _fits(self, variant: int) -> bool:
        """Whether one more fits once all in flight have grown to the estimated size."""
        if self._reading.memory_pressure > PRESSED:
            return False
        size = self._memory.of(variant)
        promised = sum(self._memory.of(other) * number for other, number in enumerate(self._in_flight))
        started = min(self._started, sum(self._in_flight)) * size  # since the reading
        return self._reading.available - max(promised - self._grown, started) - size >= self._free_memory

    def take(self, job: Job, now: float) -> None:
        if not self._memory.is_known(job.variant) and not self._in_flight[job.variant]:
            self.is_starting.set()
        self._in_flight[job.variant] += 1
        self._started += 1

    def settle(self, job: Job, outcome: Outcome, now: float) -> None:
        self._in_flight[job.variant] -= 1
        self._memory.report(job.variant, outcome)
        if self._places[job.variant] == "process" and outcome.status in ("ok", "error"):
            self._cores.has_evidence = True

    # -- readings --------------------------------------------------------------------------------------------------

    def sample(self, reading: MachineReading, now: float) -> None:
        elapsed = 0.0 if self._sampled_at is None else now - self._sampled_at
        self._reading, self._sampled_at = reading, now
        heavy = sum(number for number, place in zip(self._in_flight, self._places, strict=True) if place != "loop")
        for variant, number in enumerate(self._in_flight):
            if number and self._places[variant] != "loop":
                self._memory.share(variant, self._grown / heavy)
        self._memory.confirm()
        self._first = max(FIRST, 2 * min(reading.own.idle, self._processes))  # threads cannot be seen idling
        self._started = 0
        self._cores.sample(reading, self._processes, elapsed)
        self._report_waits(now)

    def _report_waits(self, now: float) -> None:
        """Report when fewer trials than requested run, and when that is over."""
        waiting, self._wait_reason = self._wait_reason, None
        in_flight = sum(self._in_flight)
        if waiting is None or (self._requested is not None and in_flight >= self._requested):
            self._waiting_since = None
            if self._reported is not None:
                self._on_change(_EVENTS[self._reported][1], in_flight=in_flight)
                self._reported = None
            return
        reason, variant = waiting
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since < NOTICE_S or reason == self._reported:
            return
        self._reported = reason
        why, setting, figures = self._explanation(reason, variant)
        detail = {"why": why, "in_flight": in_flight, "requested": self._requested, **figures}
        if reason not in self._explained:
            self._explained.add(reason)
            trials = (
                f"{in_flight} of {self._requested} requested trials" if self._requested else many(in_flight, "trial")
            )
            detail["message"] = f"{trials} in flight: {why}; to change this, set limits: {setting}"
        self._on_change(_EVENTS[reason][0], **detail)

    def _explanation(self, reason: Reason, variant: int) -> tuple[str, str, dict[str, Any]]:
        """Why trials wait, which setting changes that, and the figures behind it."""
        if reason == "cores":
            used = round(self._cores.used, 1)
            return f"they use {used:g} cores", "{free_cores: 0} or parallel", {"cores": used}
        size, available = int(self._memory.of(variant) / 1e6), int(self._reading.available / 1e6)
        figures = {"available_mb": available, "per_trial_mb": size}
        if reason == "unknown":
            return "the memory per trial is not known yet", "memory_per_trial", figures
        free = int(self._free_memory / 1e6)
        why = f"memory is short ({available:,} MB available, {size:,} MB per trial, {free:,} MB to keep free)"
        return why, "memory_per_trial or free_memory", figures


class Stagger(Limit):
    """Spaces out starts of programs that need CPU time to start: started together, they slow each other down."""

    def __init__(self, start_cpu_s: Sequence[float], cores: float) -> None:
        """`start_cpu_s` is by variant: CPU seconds to start one."""
        self._gaps = [seconds / cores for seconds in start_cpu_s]
        self._free_at = float("-inf")

    def wait(self, job: Job, now: float) -> float:
        return max(0.0, self._free_at - now) if self._gaps[job.variant] else 0.0

    def take(self, job: Job, now: float) -> None:
        if self._gaps[job.variant]:
            self._free_at = now + self._gaps[job.variant]
