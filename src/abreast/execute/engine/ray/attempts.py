"""The driver's attempts in flight: waiting for a runner, or leased to one."""

from __future__ import annotations

import itertools
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from abreast.execute.engine.base import Complete
from abreast.execute.engine.ray.leases import MOST_DEATHS, Leases
from abreast.execute.engine.ray.messages import AttemptResult, Start
from abreast.execute.job import Job
from abreast.model import Failure, Outcome
from abreast.redaction import redact, redact_outcome

if TYPE_CHECKING:
    from abreast.execute.engine.ray.node_runner import NodeRunner
    from abreast.execute.engine.ray.warmups import WarmUpGroup


@dataclass(slots=True, eq=False)
class PendingAttempt:
    """An attempt in flight."""

    job: Job
    carried: Any = None  # the workspace state that it continues from
    group: WarmUpGroup | None = None  # if it is one of a warm-up on several nodes


class Attempts:
    """Attempts by ticket. Completes each exactly once, whatever happens to its runner."""

    def __init__(self, complete: Complete) -> None:
        self.leases: Leases[NodeRunner] = Leases()
        self.backlog: deque[int] = deque()  # tickets without a runner
        self._complete = complete
        self._attempts: dict[int, PendingAttempt] = {}
        self._tickets = itertools.count(1)

    def __getitem__(self, ticket: int) -> PendingAttempt:
        return self._attempts[ticket]

    def queue(self, attempt: PendingAttempt) -> None:
        """Add an attempt to the backlog."""
        self.backlog.append(self._add(attempt))

    def take_backlog(self) -> deque[int]:
        """Remove and return the tickets without a runner."""
        backlog, self.backlog = self.backlog, deque()
        return backlog

    def send(self, ticket: int, runner: NodeRunner) -> None:
        runner.put(ticket, self.leases.grant(ticket, runner))

    def send_new(self, attempt: PendingAttempt, runner: NodeRunner) -> None:
        self.send(self._add(attempt), runner)

    def _add(self, attempt: PendingAttempt) -> int:
        ticket = next(self._tickets)
        self._attempts[ticket] = attempt
        return ticket

    def start_of(self, ticket: int, lease: int, runner: NodeRunner) -> Start:
        """Return the message that starts an attempt on a runner."""
        attempt = self._attempts[ticket]
        job, trial = attempt.job, attempt.job.trial
        has_case = job.case in runner.cases
        if job.case >= 0 and not has_case:
            runner.cases.add(job.case, True)
        return Start(
            ticket,
            lease,
            type(job),
            runner.variants[job.variant],
            trial.position,
            trial.repeat,
            trial.occurrence,
            job.attempt,
            job.case,
            None if has_case else trial.case,
            attempt.carried,
        )

    def take(self, runner: NodeRunner, result: AttemptResult, offset: float) -> None:
        """Complete an attempt unless its lease has ended; `offset` converts the times to the driver's clock."""
        if not self.leases.complete(result.ticket, result.lease):
            return
        attempt, outcome = self._attempts.pop(result.ticket), result.outcome
        outcome.started_at += offset
        outcome.finished_at += offset
        if outcome.status == "ok":
            runner.observe(outcome.service_s)
        job = attempt.job
        job.prompt = redact(result.prompt)
        if attempt.group is not None:
            attempt.group.end(outcome)
            return
        job.timing.queue_s += result.queue_s
        if result.first_started_at is not None:
            job.timing.first_started_at = result.first_started_at + offset
        self._complete(job, redact_outcome(outcome))

    def end_leases(self, runner: NodeRunner, reason: str, failure: Failure | None) -> int:
        """Return the attempts of a lost runner to the backlog, or fail them with `failure`; return how many it had."""
        to_retry, to_fail = self.leases.end(runner)
        for ticket in to_retry:
            group = self._attempts[ticket].group
            if group is not None:
                self.withdraw(ticket)
                group.end(None)
            elif failure is not None:
                self.fail(self.withdraw(ticket), Outcome("error", failure=failure))
            else:
                self.backlog.append(ticket)
        for ticket in to_fail:
            message = f"{MOST_DEATHS} nodes were lost while executing it, the last one because {reason}"
            fix = "check the memory of the nodes; if the function can crash Python, set executor: process"
            lost = Failure("resources", "infrastructure", message, fix=fix)
            self.fail(self.withdraw(ticket), Outcome("error", failure=lost))
        return len(to_retry) + len(to_fail)

    def withdraw(self, ticket: int) -> PendingAttempt:
        """Forget an attempt that no runner has."""
        self.leases.drop(ticket)
        return self._attempts.pop(ticket)

    def fail(self, attempt: PendingAttempt, outcome: Outcome) -> None:
        """Complete an attempt that no runner has."""
        now = time.time()
        outcome.started_at = outcome.finished_at = now
        if attempt.job.attempt == 1:
            attempt.job.timing.first_started_at = now
        self._complete(attempt.job, redact_outcome(outcome))
