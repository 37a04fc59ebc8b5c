"""Progress of a run: a live line in a terminal, plain lines elsewhere, or a line per event with --verbose."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import BadInput
from abreast.execute.failures import shows_service_is_up
from abreast.execute.listener import Listener
from abreast.output import error_console, is_live_terminal, say
from abreast.report.words.concurrency import describe_change
from abreast.text import dump_json, many

if TYPE_CHECKING:
    from abreast.execute.job import Job
    from abreast.model import Failure, Outcome
    from abreast.progress.notebook import NotebookProgress
    from abreast.progress.terminal import LiveProgress


LONG_PAUSE_S = 10.0  # shorter pauses are not reported
PLAIN_EVERY_S = 5.0
WAITING_S = 10.0  # time without a first answer before that is reported
RATE_OVER_S = 10.0
HELD_BACK = {"memory_short": "memory", "processes_cut": "cores"}  # events of the governor, with the scarce resource
RELEASED = ("memory_enough", "processes_raise")


class Counts(Listener):
    """Counts for every display."""

    def __init__(
        self, planned: int, done_before: int, targets: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.planned = planned
        self.done = done_before
        self.executed = 0
        self.cost = 0.0
        self.errors: Counter[str] = Counter()
        self.retries = 0
        self.in_flight: Counter[str] = Counter()
        self.at_judges = 0
        self.down: set[str] = set()  # names of targets in an outage, or of the store
        self.judge_cost = 0.0
        self.is_paused = False  # paused by a control
        self.held_back = ""  # why fewer trials run than requested
        self._targets = targets
        self._clock = clock
        self._began = clock()
        self._has_answer = False
        self._recent: deque[tuple[float, int]] = deque([(self._began, 0)])

    def started(self, job: Job, in_flight: int) -> None:
        self.in_flight[self._targets[job.variant]] += 1

    def retried(self, job: Job, failure: Failure, delay: float) -> None:
        self.in_flight[self._targets[job.variant]] -= 1
        self.retries += 1

    def finished(self, job: Job, outcome: Outcome) -> None:
        self.in_flight[self._targets[job.variant]] -= 1
        if outcome.status == "error" and outcome.failure is not None:
            self.errors[outcome.failure.kind] += 1
        self._has_answer = self._has_answer or outcome.failure is None or shows_service_is_up(outcome.failure)
        if outcome.answer is not None and outcome.answer.cost_usd is not None:
            self.cost += outcome.answer.cost_usd

    def stored(self, jobs: Sequence[Job]) -> None:
        self.done += len(jobs)
        self.executed += len(jobs)
        now = self._clock()
        if now - self._recent[-1][0] >= 0.1:
            self._recent.append((now, self.executed))
            while len(self._recent) > 2 and now - self._recent[0][0] > RATE_OVER_S:
                self._recent.popleft()

    def judging(self, waiting: int, outcome: Outcome | None = None) -> None:
        self.at_judges = waiting
        if outcome is not None and outcome.answer is not None:
            self.judge_cost += outcome.answer.cost_usd or 0.0

    def event(self, kind: str, **detail: Any) -> None:
        if kind == "decided":
            self.planned -= detail["saved"]
        elif kind in HELD_BACK:
            requested = "" if detail["requested"] is None else f"of {detail['requested']} requested, "
            self.held_back = f"({requested}limited by {HELD_BACK[kind]})"
        elif kind in RELEASED:
            self.held_back = ""
        elif kind == "requeued":
            self.done -= detail["trials"]
            self.errors -= Counter(detail["errors"])
        elif kind == "control":
            self.is_paused = detail["is_paused"]
        elif kind == "outage":
            self.down.add(detail["target"])
        elif kind == "outage_over":
            self.down.discard(detail["target"])
        elif kind == "store_lost":
            self.down.add("store")
        elif kind == "store_back":
            self.down.discard("store")

    def rate(self) -> float:
        begin, executed = self._recent[0]
        elapsed = self._clock() - begin
        return (self.executed - executed) / elapsed if elapsed > 0 else 0.0

    def waiting_s(self) -> float:
        """Seconds since the run began without an answer; 0 once there is one or nothing is left to do."""
        return 0.0 if self._has_answer or self.done >= self.planned else self._clock() - self._began

    def sentence(self, width: int | None = None) -> str:
        """`22/24  3.1/s  in flight 2  errors 0  $0.02 of about $0.03  0:00:01 left`; no wider than `width`."""
        parts = self._parts()
        if width is None:
            return _joined(parts)
        from rich.cells import cell_len

        while len(parts) > 1 and cell_len(_joined(parts)) > width:
            del parts[next(name for name in _DISPENSABLE if name in parts)]
        return _joined(parts)

    def _parts(self) -> dict[str, str]:
        rate, remaining = self.rate(), self.planned - self.done
        by_target = [f"{number} {name}" for name, number in sorted(self.in_flight.items()) if number]
        parts = {"done": f"{self.done:,}/{self.planned:,}", "rate": f"{rate:,.1f}/s"}
        if self.waiting_s() >= WAITING_S:
            parts["waiting"] = f"waiting for the first answer, {self.waiting_s():.0f} s"
        parts["in flight"] = f"in flight {self.in_flight.total()}"
        if self.held_back:
            parts["held back"] = self.held_back
        if len(set(self._targets)) > 1 and by_target:
            parts["by target"] = f"({', '.join(by_target)})"
        if self.is_paused:
            parts["paused"] = "paused"
        if self.down:
            parts["down"] = f"paused: {', '.join(sorted(self.down))}"
        parts["errors"] = f"errors {self.errors.total():,}"
        if self.errors:
            parts["kinds"] = f"({', '.join(f'{number} {kind}' for kind, number in sorted(self.errors.items()))})"
        if self.retries:
            parts["retries"] = f"retries {self.retries:,}"
        if self.cost:
            parts["cost"] = f"${self.cost:,.2f}"
            parts["total"] = f"of about ${self.cost * (self.executed + remaining) / max(1, self.executed):,.2f}"
        if self.at_judges:
            parts["judging"] = f"judging {self.at_judges:,}"
        if self.judge_cost:
            parts["judge cost"] = f"judges ${self.judge_cost:,.2f}"
        if rate > 0 and remaining:
            parts["left"] = f"{_duration(remaining / rate)} left"
        return parts


def _joined(parts: dict[str, str]) -> str:
    """The parts separated by two spaces, or one before an explanation."""
    return "".join(f"{' ' if name in _EXPLAINING else '  '}{text}" for name, text in parts.items()).lstrip()


_EXPLAINING = ("held back", "by target", "kinds", "total")

# Parts to omit in a narrow terminal, in this order; the count of done trials always stays.
_DISPENSABLE = (
    *("by target", "kinds", "held back", "total", "retries", "rate", "in flight"),
    *("judge cost", "cost", "judging", "left", "errors", "waiting", "down", "paused"),
)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


class PlainProgress(Counts):
    """A line every few seconds, for logs."""

    def __init__(
        self, planned: int, done_before: int, targets: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(planned, done_before, targets, clock)
        self._last = self._began
        self._next_waiting_s = WAITING_S

    def stored(self, jobs: Sequence[Job]) -> None:
        super().stored(jobs)
        if self._clock() - self._last >= PLAIN_EVERY_S:
            self._last = self._clock()
            say("  " + self.sentence())

    def tick(self) -> None:
        waiting = self.waiting_s()
        if waiting >= self._next_waiting_s:
            self._next_waiting_s = 2 * waiting  # report a long wait less and less often
            say("  " + self.sentence())

    def event(self, kind: str, **detail: Any) -> None:
        super().event(kind, **detail)
        if note := notice(kind, detail):
            say(note)

    def close(self) -> None:
        say("  " + self.sentence())


def notice(kind: str, detail: dict[str, Any]) -> str:
    """Return the line for an event that is reported at once; empty for others."""
    if kind in HELD_BACK and "message" in detail:
        return f"note: {detail['message']}"
    if kind == "warning":
        return f"warning: {detail['message']}"
    if kind == "scoring":
        return "note: all trials are done; their answers are being scored"
    if kind == "store_failed":
        return f"error: {detail['message']}; no more trials are started"
    if kind == "store_lost":
        return f"paused: {detail['message']}; results wait in memory until they can be stored"
    if kind == "store_back":
        return f"continues: the store can be reached again after {detail['seconds']:.0f} s"
    if kind == "quota" and detail["waits"]:
        at = time.strftime("%H:%M", time.localtime(time.time() + detail["seconds"]))
        window = f"{detail['most']} in {detail['window_s'] / 3600:g} h"
        return f"paused: the quota ({window}) is used up; continues at {at}, or press Ctrl-C and run `abreast resume`"
    if kind == "announced" and detail["seconds"] >= LONG_PAUSE_S:
        reason = f"{detail['target']} reports that its {detail['used_up']} are used up"
        return f"paused: {reason}; continues in {detail['seconds']:.0f} s"
    if kind == "node_lost":
        again = (
            f"; {many(detail['in_flight'], 'trial')} in flight will be executed again" if detail["in_flight"] else ""
        )
        return f"node {detail['node']} is lost: {detail['reason']}{again}"
    if kind == "node_joined" and detail["late"]:
        return f"node {detail['node']} joined"
    if kind == "control":
        return f"{detail['by']}: {detail['outcome']}"
    if kind == "outage":
        return _outage(detail)
    if kind == "outage_over":
        return f"{detail['target']}: answers again after {detail['seconds']:.0f} s"
    if kind == "decided":
        return str(detail["message"]) + ("; finishing the cases that were begun" if detail["in_flight"] else "")
    if kind != "interrupted":
        return ""
    if not detail["in_flight"]:
        return "stopping"
    trials = many(detail["in_flight"], "trial")
    if not detail["grace_s"]:
        return f"stopping: cancelling {trials} in flight"
    return f"stopping: {trials} in flight, waiting up to {detail['grace_s']:.0f} s (Ctrl-C again to cancel)"


def _outage(detail: dict[str, Any]) -> str:
    """`openai: network: Connection refused; paused since 14:02:07, one probe every 10 s, giving up at 14:04:09`."""
    now = time.time()
    since, end = (
        time.strftime("%H:%M:%S", time.localtime(moment))
        for moment in (now - detail["seconds"], now + detail["gives_up_s"])
    )
    interval = max(detail["probe_every_s"], detail["next_probe_s"])
    return f"{detail['error']}; paused since {since}, one probe every {interval:.0f} s, giving up at {end}"


class Verbose(Listener):
    """A line for each start, retry and end of a trial, and for each event of the scheduler."""

    def started(self, job: Job, in_flight: int) -> None:
        attempt = f" (attempt {job.attempt})" if job.attempt > 1 else ""
        say(f"start  {trial_name(job)}{attempt}")

    def retried(self, job: Job, failure: Failure, delay: float) -> None:
        say(f"retry  {trial_name(job)}: {failure.kind}, retry in {delay:.1f} s")

    def finished(self, job: Job, outcome: Outcome) -> None:
        why = f": {outcome.failure.kind}: {' '.join(outcome.failure.message.split())}" if outcome.failure else ""
        say(f"end    {trial_name(job)}: {outcome.status}{why} ({outcome.service_s:.2f} s)")

    def event(self, kind: str, **detail: Any) -> None:
        words = describe_change(kind, detail)
        words = words or ", ".join(f"{key} {value}" for key, value in detail.items() if value is not None)
        say(notice(kind, detail) or f"event  {kind}: {' '.join(words.split())}")


def trial_name(job: Job) -> str:
    """`case-17 treatment repeat 2`."""
    repeat = f" repeat {job.trial.repeat}" if job.trial.repeat else ""
    return f"{job.trial.case.id} {job.trial.variant.name}{repeat}"


class JudgingProgress(Listener):
    """A line every few seconds while stored answers are judged."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._calls = 0

    def judging(self, waiting: int, outcome: Outcome | None = None) -> None:
        self._calls += outcome is not None
        if time.monotonic() - self._last >= PLAIN_EVERY_S:
            self._last = time.monotonic()
            say(f"  judging: {self._calls:,} calls made, {waiting:,} answers left")

    def event(self, kind: str, **detail: Any) -> None:
        if note := notice(kind, detail):
            say(note)


class EventFile(Listener):
    """Writes all events to `--events FILE` as JSON lines, for programs that follow a run."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise BadInput(f"--events {path}: cannot write it ({error.strerror})") from None

    def started(self, job: Job, in_flight: int) -> None:
        self._write("trial_started", job, attempt=job.attempt, in_flight=in_flight)

    def retried(self, job: Job, failure: Failure, delay: float) -> None:
        self._write("trial_retried", job, error_kind=failure.kind, error=failure.message, delay_s=round(delay, 3))

    def finished(self, job: Job, outcome: Outcome) -> None:
        failure = outcome.failure
        self._write(
            "trial_finished",
            job,
            status=outcome.status,
            error_kind=failure.kind if failure else None,
            service_s=round(outcome.service_s, 6),
        )

    def stored(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._write("trial_stored", job)

    def judging(self, waiting: int, outcome: Outcome | None = None) -> None:
        if outcome is not None:
            self._line({"kind": "judged", "left": waiting, "status": outcome.status})

    def event(self, kind: str, **detail: Any) -> None:
        self._line({"kind": kind, **detail})

    def _write(self, kind: str, job: Job, **detail: Any) -> None:
        trial = job.trial
        where = {"case_id": trial.case.id, "variant": trial.variant.name, "repeat": trial.repeat}
        self._line({"kind": kind, **where, **detail})

    def _line(self, detail: dict[str, Any]) -> None:
        self._file.write(dump_json({"at": round(time.time(), 6), **detail}) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def progress(planned: int, done_before: int, targets: Sequence[str]) -> LiveProgress | PlainProgress | NotebookProgress:
    """Return the display for this process: below a notebook cell, in a terminal, or plain lines on standard error."""
    from abreast.progress.notebook import NotebookProgress, is_in_notebook

    if is_in_notebook():
        return NotebookProgress(planned, done_before, targets)
    if is_live_terminal():
        from abreast.progress.terminal import LiveProgress

        return LiveProgress(planned, done_before, targets, error_console())
    return PlainProgress(planned, done_before, targets)


REPORT = (
    "abreast.analyse.run",
    "abreast.report.formats.terminal",
    "abreast.report.page.html",
    "abreast.report.results",
)


class Preloader(Listener):
    """Imports modules in a thread that starts with the first trial, so that trials do not wait for them."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules
        self._has_started = False

    def started(self, job: Job, in_flight: int) -> None:
        if not self._has_started:
            self._has_started = True
            threading.Thread(target=self._load, name="abreast-imports").start()

    def _load(self) -> None:
        for module in self._modules:
            with suppress(ImportError):  # reported on use
                import_module(module)
