"""The breaker: how a run handles a service that is down, in virtual time and through the command line."""

from __future__ import annotations

import asyncio
import math
import random
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.errors import Crashed, McpFailed, RateLimited, Transient, TrialError, Unauthenticated
from abreast.execute.job import Job
from abreast.execute.limits.breaker import PATIENCE_S
from abreast.model import Answer, Outcome, Request, Trial
from abreast.spec.schema import Limits
from abreast.targets.base import Workers
from conftest import Folder
from test_durability import ended as wait_for
from test_durability import has_happened, until
from test_scheduler import Watch, plan_of
from virtual import Memory, Rig, run

NEVER = (math.inf, math.inf)
ALWAYS = (0.0, math.inf)


@dataclass
class Service:
    """A service that answers in `latency_s`; while it is down, attempts fail after `fails_in_s`."""

    down: tuple[float, float] = NEVER
    error: Callable[[], TrialError] = lambda: Transient("connection refused")
    latency_s: float = 1.0
    fails_in_s: float = 0.01
    name: str = "service"
    broken: frozenset[int] = frozenset()  # positions of trials that always fail
    seed: int = 0

    def is_down(self) -> bool:
        begin, end = self.down
        return begin <= asyncio.get_running_loop().time() < end

    async def answer(self, trial: Trial, request: Request, attempt: int, workers: Workers) -> Answer:
        jitter = 0.5 + random.Random(f"{self.seed} {trial.position} {attempt}").random()
        if self.is_down() or trial.position in self.broken:
            await asyncio.sleep(self.fails_in_s * jitter)
            raise self.error()
        await asyncio.sleep(self.latency_s * jitter)
        if self.is_down():  # the connection is lost
            raise self.error()
        return Answer("yes")


@dataclass
class Ended:
    """The outcome of an execution."""

    watch: Watch
    seconds: float
    stopped: str | None
    message: str
    fix: str
    rows: list[tuple[Job, Outcome]] = field(default_factory=list)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def attempts(self) -> int:
        return len(self.watch.starts)

    @property
    def most_in_flight(self) -> int:
        return self.watch.most["all"]

    def statuses(self) -> Counter[tuple[str, str | None]]:
        return Counter((o.status, o.failure.blame if o.failure else None) for _, o in self.rows)

    def detail(self, kind: str) -> dict[str, Any]:
        (detail,) = (detail for name, detail in self.events if name == kind)
        return detail


class Rows(Memory):
    def __init__(self) -> None:
        self.rows: list[tuple[Job, Outcome]] = []

    def outcome(self, job: Job, outcome: Outcome) -> None:
        self.rows.append((job, outcome))
        super().outcome(job, outcome)


def execute(
    *services: Service, trials: int = 100, timeout: float = 1000.0, stop_after: float | None = None, **limits: Any
) -> Ended:
    """Execute this many trials of a variant per service."""
    plan, targets = plan_of(trials, [{} for _ in services], 1)
    for service, target in zip(services, targets, strict=True):
        target.name = service.name
        target.answer = service.answer  # type: ignore[method-assign]

    async def main() -> Ended:
        loop, watch, rows = asyncio.get_running_loop(), Watch(), Rows()
        events: list[tuple[str, dict[str, Any]]] = []
        emit = lambda kind, **detail: events.append((kind, detail))  # noqa: E731
        rig = Rig(plan, targets, Limits(**limits), watch, rows, timeout=timeout, emit=emit)
        if stop_after is not None:
            loop.call_later(stop_after, rig.state.stop, "interrupted")
        seconds = await rig.run()
        return Ended(watch, seconds, rig.state.stopped, rig.state.why, rig.state.fix, rows.rows, events)

    try:
        ended: Ended = run(main())
        return ended
    finally:
        plan.cases.close()


# -- a service that never answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [1, 8, 64])
@pytest.mark.parametrize("error", [Transient, McpFailed, Unauthenticated])
def test_a_service_that_never_answers_stops_the_run_after_three_attempts_for_each_in_flight(
    parallel: int, error: type[TrialError]
) -> None:
    ended = execute(Service(ALWAYS, lambda: error("no")), trials=4_000, parallel=parallel)
    assert ended.stopped == "breaker"
    assert ended.attempts == 3 * parallel
    assert ended.message == f"service: {error.kind}: no; the first {3 * parallel} attempts failed"


@settings(max_examples=50, deadline=None)
@given(
    limits=st.sampled_from(
        [{"parallel": 1}, {"parallel": 7}, {"parallel": 64}, {"parallel": "auto"}, {"trial_parallelism": 5}]
    ),
    error=st.sampled_from([Transient, McpFailed, Unauthenticated]),
    factor=st.integers(1, 5),
    retries=st.integers(0, 6),
    trials=st.integers(1, 300),
    fails_in_s=st.sampled_from([0.0, 0.01, 3.0]),
    seed=st.integers(0, 99),
)
def test_before_the_first_answer_attempts_are_never_more_than_the_factor_times_those_in_flight(
    limits: dict[str, Any],
    error: type[TrialError],
    factor: int,
    retries: int,
    trials: int,
    fails_in_s: float,
    seed: int,
) -> None:
    service = Service(ALWAYS, lambda: error("no"), fails_in_s=fails_in_s, seed=seed)
    ended = execute(service, trials=trials, breaker=factor, retries=retries, **limits)
    assert ended.attempts <= factor * ended.most_in_flight
    if ended.attempts < factor * ended.most_in_flight:
        assert (ended.stopped, len(ended.rows)) == (None, trials), "there was nothing more to attempt"


def test_a_breaker_of_0_never_trips() -> None:
    ended = execute(Service(ALWAYS), trials=20, parallel=4, breaker=0, retries=1)
    assert (ended.stopped, ended.attempts) == (None, 40)
    assert ended.statuses() == {("error", "infrastructure"): 20}


def test_an_answer_among_failures_keeps_the_run_going() -> None:
    """Two of three trials fail at first; failures of the variant count as answers."""
    service = Service((0.0, 2.0), lambda: Crashed("mine"))
    ended = execute(service, trials=30, parallel=2, allow_failing=True)
    assert ended.stopped is None
    assert not [kind for kind, _ in ended.events if kind == "outage"]


# -- timeouts ------------------------------------------------------------------------------------------------------


def test_timeouts_of_a_service_that_never_answered_are_infrastructure_and_stop_the_run() -> None:
    ended = execute(Service(latency_s=math.inf), trials=400, timeout=600.0, parallel=8)
    assert (ended.stopped, ended.attempts) == ("breaker", 24)
    assert ended.statuses() == {("error", "infrastructure"): 24}
    assert ended.seconds == pytest.approx(1800.0, abs=1.0), "and not 400 × 600 s / 8"
    assert "limits.breaker: 0" in ended.fix
    assert "raise limits.timeout" in ended.fix


def test_few_timeouts_of_a_service_that_never_answered_are_infrastructure_too() -> None:
    ended = execute(Service(latency_s=math.inf), trials=2, timeout=5.0, parallel=2)
    assert ended.stopped is None
    assert ended.statuses() == {("error", "infrastructure"): 2}


def test_timeouts_are_the_fault_of_the_variant_if_the_service_answers_before_or_after() -> None:
    """Latencies differ by trial: some are above the timeout."""
    ended = execute(Service(latency_s=1.0), trials=40, timeout=1.0, parallel=3)
    assert ended.stopped is None
    assert set(ended.statuses()) == {("ok", None), ("error", "variant")}
    assert ended.attempts == 40, "a timeout is not retried"


# -- outages -------------------------------------------------------------------------------------------------------


def test_a_short_outage_fails_no_trial_and_sends_one_probe_at_a_time() -> None:
    ended = execute(Service((10.0, 44.0)), trials=400, parallel=8)
    assert ended.stopped is None
    assert ended.statuses() == {("ok", None): 400}
    assert ended.attempts - 400 <= 24 + 7 + 7, (
        "until it opened, those in flight then, and probes after 1, 2, 4, 8, 10, ... s"
    )
    assert ended.detail("outage")["target"] == "service"
    assert "connection refused" in ended.detail("outage")["error"]
    assert 30 < ended.detail("outage_over")["seconds"] < 50


@settings(max_examples=50, deadline=None)
@given(
    limits=st.sampled_from([{"parallel": 1}, {"parallel": 7}, {"parallel": 64}, {"parallel": "auto"}]),
    begin=st.floats(3.0, 30.0),
    lasts=st.floats(0.1, PATIENCE_S - 5),
    factor=st.integers(1, 5),
    retries=st.integers(1, 5),
    trials=st.integers(1, 300),
    fails_in_s=st.sampled_from([0.0, 0.01, 2.0]),
    seed=st.integers(0, 99),
)
def test_an_outage_of_less_than_two_minutes_fails_no_trial(
    limits: dict[str, Any],
    begin: float,
    lasts: float,
    factor: int,
    retries: int,
    trials: int,
    fails_in_s: float,
    seed: int,
) -> None:
    service = Service((begin, begin + lasts), fails_in_s=fails_in_s, seed=seed)
    ended = execute(service, trials=trials, breaker=factor, retries=retries, **limits)
    assert ended.stopped is None, ended.message
    assert ended.statuses() == {("ok", None): trials}


def test_a_service_that_stays_down_stops_the_run_after_two_minutes() -> None:
    ended = execute(Service((10.0, math.inf)), trials=4_000, parallel=8)
    assert ended.stopped == "breaker"
    assert PATIENCE_S + 10 <= ended.seconds < PATIENCE_S + 15
    assert ended.message.startswith("service: network: connection refused; no answer for 12")
    assert ended.statuses()["error", "infrastructure"] <= 1, "the last probe"
    answered = ended.statuses()["ok", None]
    assert ended.attempts - answered < 60


def test_a_key_refused_during_a_run_stops_it_at_once() -> None:
    ended = execute(Service((10.0, math.inf), lambda: Unauthenticated("expired")), trials=4_000, parallel=8)
    assert ended.message == "service: auth: expired; the last 24 attempts failed"
    assert ended.seconds < 12


def test_an_outage_does_not_delay_other_services() -> None:
    baseline = execute(Service(name="up"), trials=200, parallel=100, per_variant=4)
    both = execute(Service(name="up"), Service((10.0, 60.0), name="down"), trials=200, parallel=100, per_variant=4)
    assert both.stopped is None
    last = max(job.dispatched_at for job, _ in both.rows if job.variant == 0)
    assert last < baseline.seconds + 2


def test_a_stop_during_a_pause_ends_the_run_at_once() -> None:
    ended = execute(Service((10.0, 60.0)), trials=400, parallel=8, stop_after=30.0)
    assert ended.stopped == "interrupted"
    assert ended.seconds == pytest.approx(30.0, abs=0.1)
    assert set(ended.statuses()) == {("ok", None)}, "trials that wait have no row: resume executes them"


@pytest.mark.parametrize("parallel", [1, 4])
def test_trials_that_always_fail_do_not_pause_the_others_for_long(parallel: int) -> None:
    broken = frozenset({3, 20, 21, 22, 40})
    calm = execute(Service(), trials=200, parallel=parallel)
    ended = execute(Service(broken=broken), trials=200, parallel=parallel)
    assert ended.stopped is None
    assert ended.statuses() == {("ok", None): 195, ("error", "infrastructure"): 5}
    assert ended.seconds < calm.seconds + 40


def test_slow_answers_in_flight_do_not_count_as_an_outage() -> None:
    """One trial fails at once, repeatedly, while the others take minutes."""
    ended = execute(Service(latency_s=300.0, broken=frozenset({5})), trials=64, parallel=8)
    assert not [kind for kind, _ in ended.events if kind == "outage"]
    assert ended.statuses() == {("ok", None): 63, ("error", "infrastructure"): 1}


# -- refusals ------------------------------------------------------------------------------------------------------


def refused(retry_after: float | None = None) -> Callable[[], TrialError]:
    return lambda: RateLimited("slow down", retry_after=retry_after)


@pytest.mark.parametrize(("parallel", "most"), [(1, 10), (8, 31)])
def test_after_waiting_for_a_service_that_refuses_everything_less_parallelism_is_suggested(
    parallel: int, most: int
) -> None:
    ended = execute(Service(ALWAYS, refused()), trials=4_000, parallel=parallel)
    assert ended.stopped == "breaker"
    assert PATIENCE_S <= ended.seconds < PATIENCE_S + 10
    assert ended.attempts <= most + 20, "until it paused, and one probe every ten seconds"
    assert "reduce --parallel" in ended.fix


def test_temporary_refusals_fail_no_trial() -> None:
    ended = execute(Service((10.0, 100.0), refused()), trials=300, parallel=8)
    assert ended.stopped is None
    assert ended.statuses() == {("ok", None): 300}


def test_a_long_wait_requested_by_the_service_is_respected() -> None:
    ended = execute(Service((10.0, 3_000.0), refused(3_600.0)), trials=300, parallel=8)
    assert ended.stopped is None
    assert ended.statuses() == {("ok", None): 300}
    assert ended.seconds > 3_600
    assert ended.attempts - 300 <= 31, "no probe before that"


@pytest.mark.parametrize("seconds", [0.5, 60.0, 900.0])
def test_a_server_that_serves_fewer_than_are_in_flight_is_kept_busy_and_fails_no_trial(seconds: float) -> None:
    """The server handles four requests at a time and refuses the rest."""
    busy = 0

    async def answer(*_: Any) -> Answer:
        nonlocal busy
        if busy >= 4:
            raise RateLimited("busy")
        busy += 1
        await asyncio.sleep(seconds)
        busy -= 1
        return Answer("yes")

    service = Service()
    service.answer = answer  # type: ignore[method-assign]
    ended = execute(service, trials=60, parallel=6)
    assert ended.stopped is None
    assert ended.statuses() == {("ok", None): 60}
    assert ended.seconds < 1.2 * 15 * seconds + 10
    assert ended.attempts < 60 + 40 * 15 + ended.seconds / 5, "refused are a few in each round, and probes"


# -- through the command line --------------------------------------------------------------------------------------


def test_a_closed_port_stops_the_run_after_three_attempts_for_each_in_flight(folder: Folder) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    folder.cases(400)
    variant = f"{{target: openai, model: any, base_url: '{address}'}}"
    folder.write("spec.yaml", f"cases: cases.jsonl\nvariants: {{a: {variant}}}\nscorers: [exact]\n")
    done = folder.abreast("run", "spec.yaml", "--parallel", "8", "--force")
    assert done.code == 3
    assert "the first 24 attempts failed" in done.err
    assert "then run `abreast resume" in done.err
    failed = "select (select count(*) from attempts) + (select count(*) from trials) n"
    assert folder.sql(failed) == [{"n": 24}]


SERVICE = """
from pathlib import Path
from abreast.errors import Transient

HERE = Path(__file__).parent


def predict(case):
    if (HERE / "down").exists() and len(list(HERE.glob("answered*"))) >= 5:
        raise Transient("no service")
    with (HERE / "calls").open("a") as file:
        file.write(case.id + "\\n")
    (HERE / f"answered-{case.id}").touch()
    return "yes"
"""


def start_in_outage(folder: Folder) -> subprocess.Popen[str]:
    """Start a run that has five answers and waits for the rest."""
    folder.cases(12)
    folder.write("service.py", SERVICE)
    folder.write("down", "")
    folder.write("spec.yaml", "{cases: cases.jsonl, variants: {a: {target: 'python:service:predict'}}}")
    process = folder.start("run", "spec.yaml", "--events", "events.jsonl")
    until(has_happened(folder, "outage"), "the outage is noticed", process)
    return process


def assert_resume_completes(folder: Folder) -> None:
    (folder.path / "down").unlink()
    assert folder.abreast("resume").code == 0
    calls = (folder.path / "calls").read_text().split()
    assert len(calls) == len(set(calls)) == 12, "no answer is asked for twice"
    assert folder.sql("select status, count(*) n from predictions group by 1") == [{"status": "ok", "n": 12}]


def test_a_run_goes_on_when_its_service_answers_again(folder: Folder) -> None:
    process = start_in_outage(folder)
    (folder.path / "down").unlink()
    done = wait_for(process)
    assert done.code == 0, done.err
    assert "python:service:predict: network: no service; paused since" in done.err
    assert "python:service:predict: answers again after" in done.err
    assert has_happened(folder, "outage_over")()
    assert folder.sql("select status, count(*) n from predictions group by 1") == [{"status": "ok", "n": 12}]


def test_nothing_is_lost_or_asked_twice_if_the_run_is_killed_during_an_outage(folder: Folder) -> None:
    process = start_in_outage(folder)
    process.kill()
    process.communicate()
    assert_resume_completes(folder)


def test_ctrl_c_ends_a_run_during_an_outage(folder: Folder) -> None:
    process = start_in_outage(folder)
    process.send_signal(signal.SIGINT)
    assert wait_for(process).code == 130
    assert_resume_completes(folder)


def test_a_timeout_in_a_resumed_run_is_the_fault_of_the_variant_if_its_target_answered_before(folder: Folder) -> None:
    folder.cases(3)
    folder.write(
        "mine.py",
        """
        import asyncio
        from pathlib import Path
        from abreast.errors import Transient
        async def predict(case):
            if case.id == "c0" and not Path(__file__).with_name("slow").exists():
                raise Transient("not now")
            if case.id == "c0":
                await asyncio.sleep(60)
            return "yes"
        """,
    )
    spec = "cases: cases.jsonl\nvariants: {a: {target: 'python:mine:predict'}}\nlimits: {retries: 0, timeout: 0.2}\n"
    folder.write("spec.yaml", spec)
    assert folder.abreast("run", "spec.yaml").code == 3
    folder.write("slow", "")
    assert folder.abreast("resume").code == 0
    failures = "select error_kind, error_blame from predictions where status = 'error'"
    assert folder.sql(failures) == [{"error_kind": "timeout", "error_blame": "variant"}]
