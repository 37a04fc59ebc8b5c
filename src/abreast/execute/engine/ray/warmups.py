"""Warm-ups that run on several nodes and complete as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from abreast.execute.engine.base import Complete
from abreast.execute.engine.ray.attempts import Attempts, PendingAttempt
from abreast.execute.engine.ray.node_runner import NodeRunner
from abreast.execute.job import Job
from abreast.model import Outcome
from abreast.redaction import redact_outcome


@dataclass(slots=True)
class WarmUpGroup:
    """The same warm-up on several runners. Its outcome is the worst of them, with the cost of all."""

    pending: int
    complete: Callable[[Outcome], None]
    lose: Callable[[], None]  # called instead if all runners were lost
    outcomes: list[Outcome] = field(default_factory=list)

    def end(self, outcome: Outcome | None) -> None:
        """Record the outcome of one runner; None if it was lost."""
        self.pending -= 1
        if outcome is not None:
            self.outcomes.append(outcome)
        if self.pending == 0:
            if self.outcomes:
                self.complete(worst(self.outcomes))
            else:
                self.lose()


class NodeWarmUps:
    """Sends warm-ups to runners, each of which has its own connections."""

    def __init__(self, attempts: Attempts, complete: Complete) -> None:
        self._attempts, self._complete = attempts, complete
        self.ended: list[Job] = []  # to repeat on nodes that join later

    def spread(self, job: Job, runners: Sequence[NodeRunner], lose: Callable[[], None]) -> None:
        """Warm up the initial runners."""

        def complete(outcome: Outcome) -> None:
            if job not in self.ended:
                self.ended.append(job)
            job.timing.first_started_at = outcome.started_at
            self._complete(job, redact_outcome(outcome))

        self.send(job, runners, complete, lose)

    def send(
        self,
        job: Job,
        runners: Sequence[NodeRunner],
        complete: Callable[[Outcome], None],
        lose: Callable[[], None],
    ) -> None:
        group = WarmUpGroup(len(runners), complete, lose)
        for runner in runners:
            self._attempts.send_new(PendingAttempt(job, group=group), runner)


def worst(outcomes: list[Outcome]) -> Outcome:
    """Return the worst outcome, with the summed cost of all and the duration of the slowest."""
    outcome = max(outcomes, key=_badness)
    costs = [item.answer.cost_usd for item in outcomes if item.answer is not None and item.answer.cost_usd is not None]
    answer = outcome.answer or next((item.answer for item in outcomes if item.answer is not None), None)
    if costs and answer is not None:
        answer = replace(answer, cost_usd=sum(costs))
    return replace(outcome, answer=answer, service_s=max(item.service_s for item in outcomes))


def _badness(outcome: Outcome) -> int:
    """Rank outcomes. Infrastructure failures are the worst, because they show that a service is down."""
    if outcome.status == "error":
        return 4 if outcome.failure is not None and outcome.failure.blame == "infrastructure" else 3
    return {"cancelled": 2, "skipped": 1, "ok": 0}[outcome.status]
