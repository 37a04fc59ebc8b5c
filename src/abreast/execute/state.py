"""State shared by the parts of one execution: ended attempts, stored trials, and whether to stop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from abreast.errors import StoreError
from abreast.execute.job import Job
from abreast.execute.listener import Listener
from abreast.model import Outcome

INTERRUPTED = "interrupted"


class Acknowledgements:
    """Passes reports from the writer's thread to the loop: stored rows, or a failed store."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.stored: deque[Sequence[Job]] = deque()
        self.failures: asyncio.Queue[StoreError] = asyncio.Queue()  # a store can fail more than once
        self.outages: asyncio.Queue[StoreError | None] = asyncio.Queue()  # None: over
        self.has_failed = False
        self.changed = asyncio.Event()

    def committed(self, jobs: Sequence[Job]) -> None:
        self._loop.call_soon_threadsafe(self.add, jobs)

    def failed(self, error: StoreError) -> None:
        self._loop.call_soon_threadsafe(self._add_failure, error)

    def interrupted(self, error: StoreError | None) -> None:
        self._loop.call_soon_threadsafe(self.outages.put_nowait, error)

    def _add_failure(self, error: StoreError) -> None:
        self.has_failed = True
        self.failures.put_nowait(error)

    def add(self, jobs: Sequence[Job]) -> None:
        """Record, on the loop, that these jobs are stored."""
        self.stored.append(jobs)
        self.changed.set()


class RunState:
    """State shared by the parts of an execution. All calls are on the loop."""

    def __init__(self, acknowledgements: Acknowledgements, listener: Listener) -> None:
        self._listener = listener
        self.acknowledgements = acknowledgements
        self.completed: deque[tuple[Job, Outcome]] = deque()  # attempts that have ended
        self.changed = acknowledgements.changed
        self.wake = self.changed.set  # makes the scheduler check the limits again
        self.in_flight = 0
        self.most_in_flight = 0
        self.is_paused = False  # nothing starts; trials in flight continue
        self.stopped: str | None = None  # kind of the reason
        self.why = ""
        self.fix = ""

    def stop(self, kind: str, message: str = "", fix: str = "") -> None:
        """Start nothing more; trials in flight may finish. The first reason counts."""
        if self.stopped is None:
            self.stopped, self.why, self.fix = kind, message or kind, fix
            self._listener.event("stop", reason=kind, message=message, in_flight=self.in_flight)
        self.changed.set()

    def complete(self, job: Job, outcome: Outcome) -> None:
        self.completed.append((job, outcome))
        self.changed.set()
