"""The breaker: a service that does not answer pauses the run, and then stops it.

It counts attempts that failed because of infrastructure since the service last answered. A service is down after
`limits.breaker` times as many as were in flight. If it has never answered, the run stops at once. If it has, this is an
outage: the breaker sends one probe at a time until one is answered or two minutes are over. Refusals (HTTP 429 and 529)
never stop a run at once: the service is up, but busy.

An outage uses up no retries. Nor is a trial given up while a service that answered earlier has given no answer
since the trial first failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from abreast.execute.failures import NEVER_RETRIED, shows_service_is_up, suggested_fix
from abreast.execute.job import Job
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit, LimitContext, Stage
from abreast.model import Blame, Failure, Outcome

PATIENCE_S = 120.0  # longest outage of a service that has answered before
FIRST_PROBE_S, LONGEST_PROBE_S = 1.0, 10.0  # between two probes; doubles from one to the next
OTHERS_FIRST_S = 1.0  # delay of a trial that failed as a probe, so that the next probe is another trial
LONGEST_MESSAGE = 300  # characters
REFUSAL = "rate_limit"
FEWEST_REFUSALS = 10  # refusals before a service counts as down: some providers refuse a share of all requests


@dataclass(slots=True)
class Outage:
    """An outage of a service that answered earlier."""

    gives_up_at: float
    next_probe_at: float
    interval_s: float = FIRST_PROBE_S
    probe: Job | None = None  # the probe in flight

    def wait(self, now: float) -> float:
        return UNTIL_AN_EVENT if self.probe is not None else max(0.0, self.next_probe_at - now)

    def schedule_probe(self, retry_after: float, now: float) -> None:
        """Plan the next probe; the last one is due when time runs out, unless the service asked to wait longer."""
        self.interval_s = min(LONGEST_PROBE_S, 2 * self.interval_s)
        soon = now + self.interval_s
        self.next_probe_at = max(now + retry_after, min(soon, self.gives_up_at) if self.gives_up_at > now else soon)


@dataclass(slots=True)
class Service:
    """Whether a service has answered, and the failures since its last answer."""

    name: str  # name of its target
    factor: int  # limits.breaker
    has_answered: bool = False  # whether it answered in this execution
    answered_before: bool = False  # whether it answered in an earlier execution of this run
    in_flight: set[Job] = field(default_factory=set)
    peak: int = 0  # most in flight
    failures: Counter[Job] = field(default_factory=Counter)  # failed attempts
    attempts: int = 0  # failed attempts in total; once it has answered, at most `factor` per job
    since: float = 0.0  # when the first of these attempts failed
    earlier: set[Job] = field(default_factory=set)  # in flight since before `since`
    leftover: set[Job] = field(default_factory=set)  # in flight since before it answered again
    last: Failure | None = None
    is_typed: bool = False  # at least one failure is certainly not the variant's fault
    outage: Outage | None = None

    @property
    def refuses(self) -> bool:
        return self.last is not None and self.last.kind == REFUSAL

    @property
    def is_conclusive(self) -> bool:
        """Whether the failures can mean that it is down.

        Untyped exceptions of a user's function have to come from several trials: one trial may just be broken.
        """
        return self.is_typed or len(self.failures) >= self.factor

    def may_start(self) -> bool:
        """Whether one more attempt is allowed before the first answer."""
        if self.has_answered or not self.factor or self.refuses or not self.is_conclusive:
            return True
        in_flight = len(self.in_flight) + 1
        return self.attempts + in_flight <= self.factor * max(self.peak, in_flight)

    def add_failure(self, job: Job, failure: Failure, now: float) -> None:
        if self.last is not None and self.refuses != (failure.kind == REFUSAL) and self.outage is None:
            self.forget_failures()
        if not self.failures:
            self.since, self.earlier = now, set(self.in_flight)
        self.failures[job] += 1
        self.attempts += not self.has_answered or self.failures[job] <= self.factor  # one trial is not enough
        self.last = failure
        self.is_typed = self.is_typed or not failure.presumed

    def forget_failures(self) -> None:
        self.failures.clear()
        self.earlier.clear()
        self.attempts, self.peak, self.last, self.is_typed = 0, max(1, len(self.in_flight)), None, False

    def is_down(self) -> bool:
        enough = max(self.factor * self.peak, FEWEST_REFUSALS * self.refuses)
        return self.is_conclusive and self.attempts >= enough

    @property
    def is_busy(self) -> bool:
        """Whether it refuses requests, but may still answer those it accepted before."""
        return self.refuses and bool(self.earlier)

    def describe(self) -> str:
        """`openai: network: Connection refused`."""
        assert self.last is not None
        message = " ".join(self.last.message.split()).removeprefix(f"{self.name}: ")[:LONGEST_MESSAGE]
        return f"{self.name}: {self.last.kind}: {message}"


def build(context: LimitContext) -> Iterator[Limit]:
    services: dict[str, Service] = {}
    for index, target in enumerate(context.targets):
        new = Service(target.name, context.limits.of(target.name).breaker)
        service = services.setdefault(context.pool(target), new)
        service.answered_before = service.answered_before or index in context.answered
    yield Breaker(
        [services[context.pool(target)] for target in context.targets],
        retries=context.limits.retries,
        stop=context.stop,
        emit=context.emit,
        waits_long=context.waits_for_quota,
    )


class Breaker(Limit):
    """Watches every attempt at every service."""

    def __init__(
        self,
        services: Sequence[Service],
        retries: int,
        stop: Callable[[str, str, str], None],
        emit: Callable[..., Any],
        waits_long: bool = True,
    ) -> None:
        """`services` are by variant; variants may share one. With `waits_long`, wait as long as a service asks for."""
        self._services, self._retries, self._waits_long = services, retries, waits_long
        self._stop, self._emit = stop, emit

    def change(self, new: Self) -> None:
        self._retries = new._retries
        for service, changed in zip(self._services, new._services, strict=True):
            service.factor = changed.factor

    def wait(self, job: Job, now: float) -> float:
        service = self._services[job.variant]
        if service.outage is not None:
            return service.outage.wait(now)
        return 0.0 if service.has_answered or service.may_start() else UNTIL_AN_EVENT

    def take(self, job: Job, now: float) -> None:
        service = self._services[job.variant]
        service.in_flight.add(job)
        service.peak = max(service.peak, len(service.in_flight))
        if service.outage is not None:
            service.outage.probe = job

    def settle(self, job: Job, outcome: Outcome, now: float) -> None:
        service = self._services[job.variant]
        service.in_flight.discard(job)
        is_earlier, is_leftover = job in service.earlier, job in service.leftover
        service.earlier.discard(job)
        service.leftover.discard(job)
        is_probe = service.outage is not None and service.outage.probe is job
        if service.outage is not None and is_probe:
            service.outage.probe = None
        failure = outcome.failure
        if outcome.status not in ("ok", "error") or not service.factor:
            return  # irrelevant to the state of the service
        if outcome.status == "ok" or failure is None or shows_service_is_up(failure):
            service.has_answered = True
            if service.refuses or not is_earlier:
                self._close(service, now)
        elif failure.blame == "variant" and service.has_answered and service.outage is None:
            return  # too slow in this attempt
        elif is_leftover:
            job.excused += 1
        elif not job.is_warmup:
            service.add_failure(job, failure, now)
            self._respond(service, job, is_probe, now)

    def _respond(self, service: Service, job: Job, is_probe: bool, now: float) -> None:
        """Open an outage, probe again, or give up after a failure."""
        failure = service.last
        assert failure is not None
        if service.outage is not None:
            job.excused = job.attempt
            if is_probe:
                self._probe_failed(service, service.outage, job, now)
        elif service.is_down():
            if failure.kind in NEVER_RETRIED or not (service.has_answered or service.refuses):
                many = f"{service.attempts:,} attempts" if service.attempts > 1 else "attempt"
                self._give_up(service, f"the {'last' if service.has_answered else 'first'} {many} failed")
            else:
                self._open(service, now)
        elif self._deserves_retry(service, job, now):
            job.excused += 1

    def _deserves_retry(self, service: Service, job: Job, now: float) -> bool:
        """Whether a trial goes on without retries left, because its service has given no answer in the meantime."""
        return (
            service.has_answered
            and service.is_conclusive
            and service.failures[job] >= 2
            and job.attempt - job.excused > self._retries
            and (now - service.since < PATIENCE_S or service.is_busy)
        )

    def _open(self, service: Service, now: float) -> None:
        assert service.last is not None
        for job in service.failures:
            job.excused = job.attempt
        wait = max(FIRST_PROBE_S, service.last.retry_after or 0.0)
        service.outage = Outage(gives_up_at=now + max(PATIENCE_S, wait), next_probe_at=now + wait)
        if wait > PATIENCE_S and not self._waits_long:
            self._give_up(service, f"it asks to wait {wait:.0f} s")
            return
        self._emit(
            "outage",
            target=service.name,
            error=service.describe(),
            seconds=round(now - service.since, 3),
            next_probe_s=round(wait, 3),
            probe_every_s=LONGEST_PROBE_S,
            gives_up_s=round(service.outage.gives_up_at - now, 3),
        )

    def _probe_failed(self, service: Service, outage: Outage, probe: Job, now: float) -> None:
        failure = service.last
        assert failure is not None
        retry_after = failure.retry_after or 0.0
        is_over = probe.dispatched_at >= outage.gives_up_at and not service.is_busy
        if failure.kind in NEVER_RETRIED or is_over:
            self._give_up(service, f"no answer for {now - service.since:.0f} s")
        elif retry_after > PATIENCE_S and not self._waits_long:
            self._give_up(service, f"it asks to wait {retry_after:.0f} s")
        else:
            outage.schedule_probe(retry_after, now)

    def _close(self, service: Service, now: float) -> None:
        if service.outage is not None:
            self._emit("outage_over", target=service.name, seconds=round(now - service.since, 3))
            service.outage = None
            service.leftover |= service.in_flight
        elif service.failures:
            service.leftover |= service.in_flight & service.failures.keys()
        service.forget_failures()

    def _give_up(self, service: Service, reason: str) -> None:
        assert service.last is not None
        self._stop("breaker", f"{service.describe()}; {reason}", suggested_fix(service.last))

    def least_delay(self, job: Job, now: float) -> float:
        outage = self._services[job.variant].outage
        return 0.0 if outage is None else max(0.0, outage.next_probe_at - now) + OTHERS_FIRST_S

    def blame(self, job: Job, failure: Failure, stage: Stage) -> Blame | None:
        service = self._services[job.variant]
        if not service.factor or not service.failures:
            return "variant"
        if stage == "running":
            return None
        is_up = service.has_answered or service.answered_before
        if stage == "at rest" and service.outage is None and (failure.presumed or is_up):
            return "variant"
        return "infrastructure"
