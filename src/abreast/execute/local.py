"""The local engine: asyncio tasks in the driver, with threads and processes for what blocks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from abreast.errors import Crashed, Skipped, classify
from abreast.execute.job import Job
from abreast.execute.workers import Workers
from abreast.model import Answer, Failure, Outcome, Usage
from abreast.targets import Target


class LocalEngine:
    """Runs every job as a task; its outcome comes back whatever happens."""

    def __init__(self, targets: Sequence[Target], timeout: Callable[[int], float]) -> None:
        self._targets = targets
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._workers = Workers(self._loop)
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, job: Job, finished: Callable[[Job, Outcome], None]) -> None:
        task = self._loop.create_task(self._attempt(job, finished))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        for target in self._targets:
            await target.close()
        self._workers.close()

    async def _attempt(self, job: Job, finished: Callable[[Job, Outcome], None]) -> None:
        started_at, start = time.time(), time.perf_counter()
        if job.attempt == 1:
            job.timing.first_started_at = started_at
        outcome = await self._outcome(job)
        outcome.started_at = started_at
        outcome.service_s = time.perf_counter() - start
        outcome.finished_at = started_at + outcome.service_s
        finished(job, outcome)

    async def _outcome(self, job: Job) -> Outcome:
        target = self._targets[job.variant]
        limit: asyncio.Timeout | None = None
        seconds = 0.0
        try:
            request = target.request(job.trial)
            job.prompt = request.prompt
            seconds = self._timeout(len(request.prompt))
            async with asyncio.timeout(seconds) as limit:
                answer = await target.answer(job.trial, request, job.attempt, self._workers)
            return Outcome("ok", checked(answer))
        except asyncio.CancelledError:
            return Outcome("cancelled", failure=Failure("cancelled", "unknown", "cancelled while in flight"))
        except TimeoutError as error:
            if limit is not None and limit.expired():
                return Outcome("error", failure=Failure("timeout", "variant", f"no answer within {seconds:g} s"))
            return Outcome("error", failure=classify(error))
        except Skipped as reason:
            return Outcome("skipped", failure=Failure("skipped", "unknown", str(reason)))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a target raises is its outcome
            return Outcome("error", failure=classify(error))


def checked(answer: object) -> Answer:
    """An answer that can be stored and scored: a target may be a user's, and so may what it returns."""
    if not isinstance(answer, Answer):
        raise Crashed(f"the target returned {type(answer).__name__}, not an Answer")
    parts: list[tuple[str, object, type | tuple[type, ...]]] = [
        ("text", answer.text, str),
        ("data", answer.data, Mapping),
        ("usage", answer.usage, Usage),
        ("cost_usd", answer.cost_usd, (int, float, type(None))),
        ("model", answer.model, (str, type(None))),
        ("raw_response", answer.raw_response, (str, type(None))),
    ]
    for name, value, kind in parts:
        if not isinstance(value, kind):
            raise Crashed(f"the answer's {name} is a {type(value).__name__}: {value!r}"[:500])
    return answer
