"""The governor of the machine: no more at once than its memory and cores take, measured rather than guessed.

Trials that only wait (async functions, APIs) cost next to nothing. Those in threads and processes start a few at first;
once one has ended it is known what one takes, and as many start as fit. One may always run, or nothing would finish.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from abreast.execute.job import Job
from abreast.execute.limits import UNTIL_AN_EVENT, Limit
from abreast.execute.machine import Machine
from abreast.model import Outcome
from abreast.targets.base import Place

SAMPLE_S = 1.0
FRESH_S = 0.1  # how old a reading of the memory may be
GUESS: dict[Place, int] = {"loop": 0, "thread": 50_000_000, "process": 200_000_000}  # bytes a trial, before any ended
UNKNOWN = 8  # trials in flight of a variant of which none has ended
PRESSED = 10.0  # per cent of the time in which something waits for memory


class Resources(Limit):
    """Admission by measured memory, and for processes by measured CPU."""

    def __init__(
        self,
        machine: Machine,
        places: Sequence[Place],
        free_cores: float,
        free_memory: int | None,
        memory_per_trial: int | None,
        on_change: Callable[..., Any],
    ) -> None:
        self._machine = machine
        self._places = places
        self._on_change = on_change
        self._fixed = memory_per_trial is not None
        self._each = [float(memory_per_trial or GUESS[place]) for place in places]
        self._known = [self._fixed or place == "loop" for place in places]
        self._floor = free_memory if free_memory is not None else max(256_000_000, machine.total_memory() // 20)
        self._flying = [0] * len(places)
        self._with_children = "process" in places
        self._base = machine.own_memory(self._with_children)
        self._available, self._grown, self._read_at = float(machine.available_memory()), 0.0, float("-inf")
        cores = machine.cores()
        self._allowed_busy = max(1.0, cores - free_cores) / cores
        self.processes = max(1, int(cores))  # at most so many trials in processes
        self._full = False
        self._short = False

    def wait(self, job: Job, now: float) -> float:
        flying, variant = sum(self._flying), job.variant
        if not flying:
            return 0.0
        if not self._known[variant] and self._flying[variant] >= UNKNOWN:
            return UNTIL_AN_EVENT
        if self._places[variant] == "process" and self._in_processes() >= self.processes:
            self._full = True
            return UNTIL_AN_EVENT
        return 0.0 if self._fits(variant, now) else UNTIL_AN_EVENT

    def _in_processes(self) -> int:
        return sum(number for number, place in zip(self._flying, self._places, strict=True) if place == "process")

    def _fits(self, variant: int, now: float) -> bool:
        """Whether one more fits when all in flight have grown to what such a trial takes."""
        self._read(now)
        promised = sum(each * number for each, number in zip(self._each, self._flying, strict=True))
        left = self._available - max(0.0, promised - self._grown) - self._each[variant]
        fits = left >= self._floor
        if fits == self._short:
            self._short = not fits
            kind = "memory_short" if self._short else "memory_enough"
            self._on_change(
                kind, in_flight=sum(self._flying), available_mb=int(self._available / 1e6),
                per_trial_mb=int(self._each[variant] / 1e6),
            )  # fmt: skip
        return fits

    def _read(self, now: float) -> None:
        if now - self._read_at < FRESH_S:
            return
        self._read_at = now
        self._available = float(self._machine.available_memory())
        self._grown = float(max(0, self._machine.own_memory(self._with_children) - self._base))
        heavy = sum(number for number, place in zip(self._flying, self._places, strict=True) if place != "loop")
        if heavy and not self._fixed:
            share = self._grown / heavy
            for variant, number in enumerate(self._flying):
                if number and self._places[variant] != "loop":
                    self._each[variant] = max(share, self._each[variant]) if self._known[variant] else share

    def take(self, job: Job, now: float) -> None:
        self._flying[job.variant] += 1

    def settle(self, job: Job, outcome: Outcome, now: float) -> None:
        variant, before = job.variant, self._grown
        if self._places[variant] != "loop" and not self._fixed:
            self._read_at = float("-inf")
            self._read(now)
            # What went back when it ended is what it held, while others may only have begun to grow.
            self._each[variant] = max(self._each[variant], before - self._grown)
        self._flying[variant] -= 1
        self._known[variant] = self._known[variant] or outcome.status in ("ok", "error")

    def sample(self, now: float) -> None:
        """Once a second: fewer processes when cores or memory are short, more when there is room."""
        self._read(now)
        busy, running = self._machine.busy(), self._in_processes()
        if running > 1 and (self._available < self._floor or self._machine.memory_pressure() > PRESSED):
            self._set(running - 1, "memory", available_mb=int(self._available / 1e6))
        elif running > 1 and busy > self._allowed_busy + 0.05:
            self._set(running - 1, "cores", busy=round(busy, 2))
        elif self._full and busy < self._allowed_busy - 0.1:
            idle = busy < self._allowed_busy / 2  # they mostly wait, as agents do for their models
            self._set(
                self.processes + max(1, self.processes if idle else self.processes // 2), "room", busy=round(busy, 2)
            )
        self._full = False

    def _set(self, processes: int, why: str, **detail: Any) -> None:
        if processes != self.processes:
            kind = "processes_cut" if processes < self.processes else "processes_raise"
            self._on_change(kind, why=why, before=self.processes, after=processes, **detail)
            self.processes = processes
