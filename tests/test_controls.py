"""Controls of a run that is being executed: pause, resume, stop, retry, and other limits."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.errors import StoreError
from abreast.execute.controls import ControlAnswer
from abreast.execute.engine.virtual import Behaviour, VirtualEngine
from abreast.execute.job import Job
from abreast.execute.listener import Listener
from abreast.experiment.control import control_run
from abreast.model import Answer, Failure, Outcome, Usage
from abreast.spec.schema import Limits
from abreast.store import open_store
from abreast.store.runs.controls import Control
from conftest import Folder
from test_scheduler import plan_of
from test_view_cases import RunWriter
from virtual import Memory, Rig, run

# -- in virtual time ---------------------------------------------------------------------------------------------------

Request = tuple[float, str, Any]
"""When, the action, and its value."""


@dataclass
class Log(Listener):
    """When trials started and ended, and how many were in flight after each start."""

    starts: list[tuple[float, int]] = field(default_factory=list)
    ends: list[tuple[int, str]] = field(default_factory=list)
    events: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    answers: list[ControlAnswer] = field(default_factory=list)
    why: str | None = None
    executed: int = 0
    elapsed: float = 0.0

    def started(self, job: Job, in_flight: int) -> None:
        self.starts.append((asyncio.get_running_loop().time(), in_flight))

    def finished(self, job: Job, outcome: Outcome) -> None:
        self.ends.append((job.trial.position, outcome.status))

    def event(self, kind: str, **detail: Any) -> None:
        self.events.append((kind, detail))

    def between(self, begin: float, end: float) -> list[int]:
        """How many were in flight after the starts within this time."""
        return [in_flight for at, in_flight in self.starts if begin < at < end]


def second(job: Job) -> tuple[float, Outcome]:
    return 1.0, Outcome("ok", Answer("yes", cost_usd=0.1, usage=Usage(10, 0)), service_s=1.0)


def execute(
    requests: Sequence[Request] = (), cases: int = 20, variants: int = 2, behave: Behaviour = second, **limits: Any
) -> Log:
    plan, targets = plan_of(cases, [{}] * variants, 1)
    log = Log()

    async def controlled() -> None:
        loop = asyncio.get_running_loop()
        engine = lambda complete: VirtualEngine(behave, complete)  # noqa: E731
        rig = Rig(plan, targets, Limits(**limits), log, Memory(), engine=engine)
        for number, (at, action, value) in enumerate(requests):
            control = Control(number, 0.0, "ann@one", action, value, None, None)
            loop.call_at(at, lambda control=control: log.answers.append(rig.controller.apply(control)))  # type: ignore[misc]
        log.elapsed = await rig.run()
        log.answers += [rig.controller.apply(Control(99, 0.0, "ann@one", "pause", None, None, None))]
        log.why, log.executed = rig.state.why, rig.trials.executed

    try:
        run(controlled())
    finally:
        plan.cases.close()
    return log


def test_a_pause_lets_trials_in_flight_finish_and_starts_none() -> None:
    log = execute([(1.5, "pause", None), (10.0, "resume", None), (10.1, "resume", None)], parallel=4)
    assert len(log.between(0, 1.5)) == 4
    assert log.between(1.5, 10.0) == []
    assert len(log.ends) == 40
    assert log.elapsed == pytest.approx(10.0 + 8.0)
    assert [answer.outcome for answer in log.answers[:3]] == ["paused; 4 trials in flight", "resumed", "not paused"]


def test_every_control_becomes_an_event_that_says_who_and_when() -> None:
    log = execute([(1.5, "pause", None), (2.5, "set", {"parallel": "x"}), (3.5, "resume", None)], parallel=4)
    controls = [detail for kind, detail in log.events if kind == "control"]
    assert [detail["action"] for detail in controls] == ["pause", "set", "resume", "pause"]
    assert {detail["by"] for detail in controls} == {"ann@one"}
    assert [detail["is_applied"] for detail in controls] == [True, False, True, False]


def test_a_control_after_the_last_trial_is_refused() -> None:
    log = execute(parallel=4)
    assert log.answers == [ControlAnswer("not applied: nothing remains to be executed", False)]


CHANGES: list[tuple[dict[str, Any], dict[str, Any], int]] = [
    ({"parallel": 2}, {"parallel": 8}, 8),
    ({"parallel": 8}, {"parallel": 2}, 2),
    ({}, {"parallel": 5}, 5),
    ({"parallel": 4}, {"parallel.simulated": 3}, 3),
    ({"parallel": "auto"}, {"parallel": 3}, 3),
    ({"parallel": "variants"}, {"parallel": 3}, 3),
    ({"parallel": 8}, {"parallel": "variants"}, 2),
    ({"parallel": "variants"}, {"trial_parallelism": 4}, 8),
    ({"parallel": 8}, {"per_variant": 1}, 2),
    ({"parallel": 3}, {"parallel": {"min": 6, "start": 6, "max": 6}}, 6),
    ({"targets": {"simulated": {"parallel": 2}}}, {"parallel.simulated": 6}, 6),
]


@pytest.mark.parametrize(("before", "after", "most"), CHANGES)
def test_changed_concurrency_holds_as_soon_as_fewer_are_in_flight(
    before: dict[str, Any], after: dict[str, Any], most: int
) -> None:
    log = execute([(2.5, "set", after)], cases=60, **before)
    assert log.answers[0].is_applied
    assert max(log.between(4.6, 9.4)) == most
    assert sorted(position for position, _ in log.ends) == list(range(120))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    changes=st.lists(
        st.tuples(
            st.floats(0.1, 12.0),
            st.one_of(
                st.sampled_from(["pause", "resume", "retry"]).map(lambda action: (action, None)),
                st.builds(
                    lambda name, value: ("set", {name: value}),
                    st.sampled_from(["parallel", "parallel.simulated"]),
                    st.sampled_from([1, 3, 9, "auto", "variants"]),
                ),
                st.builds(lambda value: ("set", {"per_variant": value}), st.sampled_from([1, 4, None])),
                st.builds(lambda value: ("set", {"requests_per_second": value}), st.sampled_from([5, 50, None])),
                st.builds(lambda value: ("set", {"tokens_per_minute": value}), st.sampled_from([5_000, None])),
                st.builds(lambda value: ("set", {"budget_usd": value}), st.sampled_from([50, None])),
            ),
        ),
        max_size=8,
    ),
    parallel=st.sampled_from([None, 2, 7, "auto", "variants"]),
)
def test_whatever_changes_every_trial_ends_once(
    changes: list[tuple[float, tuple[str, Any]]], parallel: int | str | None
) -> None:
    requests = [(at, *request) for at, request in sorted(changes, key=lambda change: change[0])]
    last = [(20.0, "set", {"parallel": 4, "parallel.simulated": 4}), (20.0, "resume", None)]
    log = execute([*requests, *last], cases=30, parallel=parallel, breaker=0)
    assert all(answer.is_applied or log.elapsed <= at for answer, (at, *_) in zip(log.answers, requests, strict=False))
    assert sorted(position for position, _ in log.ends) == list(range(60))
    assert max(log.between(21.1, 1e9), default=0) <= 4


def test_a_rate_can_be_set_raised_and_removed() -> None:
    requests = [
        (2.5, "set", {"requests_per_second": 2}),
        (12.5, "set", {"requests_per_second.simulated": 10}),
        (20.5, "set", {"requests_per_second.simulated": None}),
    ]
    log = execute(requests, cases=300, parallel=50)
    assert len(log.between(0.0, 2.4)) == 100
    assert 15 <= len(log.between(3.0, 12.5)) <= 20
    assert 70 <= len(log.between(13.0, 20.5)) <= 81
    assert len(log.between(20.4, 22.4)) >= 100


def test_a_new_budget_counts_what_was_spent_before() -> None:
    log = execute([(4.5, "set", {"budget_usd": 1.0})], parallel=2)
    assert len(log.ends) == 10
    assert log.why is not None
    assert log.why.startswith("budget $1.00 reached: $1.00 spent")


def test_a_raised_budget_continues_a_paused_run() -> None:
    log = execute([(2.5, "pause", None), (20.0, "set", {"budget_usd": 1.55}), (20.5, "resume", None)], budget_usd=0.4)
    assert len(log.ends) == 15


def test_stop_waits_for_trials_in_flight_and_a_second_stop_cancels_them() -> None:
    once = execute([(1.5, "stop", None), (1.6, "set", {"parallel": 8})], parallel=4)
    assert [status for _, status in once.ends] == ["ok"] * 8
    assert once.why == "stopped by ann@one"
    assert once.answers[0] == ControlAnswer("stopping; 4 trials in flight, stop again to cancel", True)
    assert once.answers[1].outcome.startswith("not applied: the run is stopping")
    twice = execute([(1.5, "stop", None), (1.6, "stop", None)], parallel=4)
    assert [status for _, status in twice.ends] == ["ok"] * 4 + ["cancelled"] * 4
    assert twice.elapsed == pytest.approx(1.6)


def test_a_stop_ends_a_paused_run() -> None:
    log = execute([(1.5, "pause", None), (5.0, "stop", None)], parallel=4)
    assert len(log.ends) == 8
    assert log.elapsed == pytest.approx(5.0)


def down_until(moment: float) -> Behaviour:
    def behave(job: Job) -> tuple[float, Outcome]:
        if asyncio.get_running_loop().time() < moment and job.variant == 0:
            return 1.0, Outcome("error", failure=Failure("network", "infrastructure", "refused"), service_s=1.0)
        return second(job)

    return behave


def test_retry_executes_what_infrastructure_ended() -> None:
    requests = [(0.5, "retry", None), (6.5, "retry", None), (6.6, "retry", None)]
    log = execute(requests, behave=down_until(5.0), parallel=2, retries=0, breaker=0)
    outcomes = ["no trial was given up", "executing 5 failed trials again", "no trial was given up"]
    assert [answer.outcome for answer in log.answers[:3]] == outcomes
    assert len(log.ends) == 45
    assert dict(log.ends) == dict.fromkeys(range(40), "ok")
    assert log.executed == 40
    assert ("requeued", {"trials": 5, "errors": {"network": 5}}) in log.events


def test_retry_is_refused_where_it_would_change_the_order_of_the_run() -> None:
    log = execute([(1.5, "retry", None)], parallel=2, turns=True)
    assert log.answers[0].outcome.startswith("retry: with limits.turns the turn of the failed trials is over")


def test_the_time_limit_of_a_run_can_be_extended() -> None:
    log = execute([(1.5, "set", {"run_timeout": 7.5})], parallel=2)
    assert len(log.ends) == 16
    assert log.why == "run_timeout of 7.5 s reached"


REFUSED = {
    '{"parallel": "x"}': "set: limits.parallel must be a whole number, auto, variants, or "
    '{min: 1, start: 20, max: 64}, got "x"',
    '{"budget_usd": -1}': "set: limits.budget_usd must be a number above 0, got -1",
    '{"paralel": 1}': 'set: unknown key "paralel" in limits (did you mean "parallel"?)',
    '{"parallel.openai": 1}': 'set: no target "openai"',
    '{"parallel.": 1}': 'set: no target ""',
    '{"parallel": 9, "timeout": 5}': "set: timeout cannot change during a run",
    "{}": "set: missing setting",
    "7": "set: missing setting",
}


@pytest.mark.parametrize("value", REFUSED)
def test_a_bad_setting_is_refused_as_in_a_spec_and_changes_nothing(value: str) -> None:
    log = execute([(1.5, "set", json.loads(value)), (1.6, "jump", None)], parallel=2)
    assert log.answers[0].outcome.startswith(REFUSED[value])
    assert log.answers[1].outcome.startswith("unknown control 'jump'")
    assert not log.answers[0].is_applied
    assert max(log.between(0.0, 99.0)) == 2
    assert len(log.ends) == 40


# -- between processes -------------------------------------------------------------------------------------------------

SLOW = """\
cases: cases.jsonl
repeats: 40
variants:
  plain: {target: simulated, accuracy: 0.6, latency: 0.1}
  better: {target: simulated, accuracy: 0.9, latency: 0.1}
scorers: [exact]
limits: {parallel: 1}
"""


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "nothing happened for a minute"
        time.sleep(0.02)


@pytest.fixture
def slow(folder: Folder) -> Folder:
    """A folder with an experiment that takes minutes unless its limits change."""
    folder.cases(20)
    folder.write("slow.yaml", SLOW)
    return folder


def start(folder: Folder, store: str = "results.db") -> subprocess.Popen[str]:
    process = folder.start("run", "slow.yaml", "--store", store, "--yes", "--events", "events.jsonl")
    events = folder.path / "events.jsonl"
    wait_for(lambda: events.is_file() and "trial_stored" in events.read_text())
    return process


@pytest.fixture(params=["results.db", "results.duckdb", "postgres"])
def address(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("postgres") if request.param == "postgres" else request.param)


@pytest.mark.matrix(quick=1)
def test_a_run_is_controlled_from_another_process(slow: Folder, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABREAST_STORE", address)
    process = start(slow, address)
    ctl = lambda *words: slow.command("ctl", "latest", *words)  # noqa: E731
    paused = ctl("pause", "--json")
    assert paused.code == 0, paused.err
    assert paused.json[0]["is_applied"]
    assert paused.json[0]["outcome"].startswith("paused; ")
    changed = ctl("set", "parallel=50", "requests_per_second=10000")
    assert changed.out.endswith(": parallel: 1 → 50, requests_per_second: none → 10000\n")
    refused = ctl("set", "parallel=x")
    assert refused.code == 2
    assert "limits.parallel must be a whole number" in refused.err
    assert ctl("resume").code == 0
    output = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "parallel: 1 → 50" in output[1]
    late = ctl("pause")
    assert late.code == 2
    assert "is complete" in late.err
    assert "parallel: 1 → 50" in slow.abreast("report", "latest", "--format", "markdown").out
    events = slow.abreast("show", "--events", "--json").json
    assert [row["detail"]["action"] for row in events if row["kind"] == "control"] == ["pause", "set", "set", "resume"]


def test_a_stopped_run_is_resumed_with_the_limits_of_its_spec(slow: Folder) -> None:
    process = start(slow)
    assert slow.command("ctl", "latest", "set", "parallel=3").code == 0
    stopped = slow.command("ctl", "latest", "stop")
    assert stopped.code == 0
    output = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "stopped: stopped by " in output[0] + output[1]
    dead = slow.command("ctl", "latest", "resume")
    assert dead.code == 2
    assert "no process executes" in dead.err
    assert "abreast resume" in dead.err
    resumed = slow.start("resume")
    wait_for(lambda: slow.command("ctl", "latest", "set", "parallel=40", "--json").code == 0)
    resumed.communicate(timeout=120)
    assert resumed.returncode == 0
    controls = [control["detail"]["outcome"] for control in slow.abreast("show", "--events", "--json").json[:-1]
                if control["kind"] == "control"]  # fmt: skip
    assert "parallel: 1 → 3" in controls
    assert "parallel: 1 → 40" in controls


def test_two_controllers_at_once_both_get_an_answer(slow: Folder) -> None:
    process = start(slow)
    outcomes: list[str | None] = []

    def request(parallel: int) -> None:
        with open_store(slow.path / "results.db") as store:
            for _ in range(5):
                outcomes.append(control_run(store, "latest", "set", {"parallel": parallel}).outcome)

    threads = [threading.Thread(target=request, args=(parallel,)) for parallel in (30, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 10
    assert all(outcome is not None and outcome.endswith(("→ 30", "→ 40")) for outcome in outcomes)
    process.communicate(timeout=120)
    assert process.returncode == 0


def test_controls_that_arrive_while_the_run_ends_are_all_answered(slow: Folder) -> None:
    process = start(slow)
    with open_store(slow.path / "results.db") as store:
        control_run(store, "latest", "set", {"parallel": 200})
        with suppress(StoreError):  # the run is complete
            while True:
                store.request_control("latest", "retry", None, "ann@one")
        process.communicate(timeout=120)
        run_id = store.run("latest")["run_id"]
        assert store.pending_controls(run_id) == []
        for control in store.controls(run_id)[1:]:
            assert control.outcome is not None
            assert (control.applied_at is not None) == (control.outcome == "no trial was given up")
    assert process.returncode == 0


def test_a_resume_does_not_apply_what_was_requested_of_a_killed_driver(slow: Folder) -> None:
    process = start(slow)
    process.send_signal(signal.SIGSTOP)
    with open_store(slow.path / "results.db") as store:
        number = store.request_control("latest", "stop", None, "ann@one")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        with pytest.raises(StoreError, match="no process executes"):
            store.request_control("latest", "stop", None, "ann@one")
        resumed = slow.start("resume")
        wait_for(lambda: slow.command("ctl", "latest", "set", "parallel=40").code == 0)
        resumed.communicate(timeout=120)
        assert resumed.returncode == 0
        control = store.control(number)
    assert control is not None
    assert (control.outcome, control.applied_at) == ("not applied: its process died", None)


def test_a_controller_notices_that_the_driver_died(slow: Folder) -> None:
    process = start(slow)
    process.send_signal(signal.SIGSTOP)
    waiting = slow.start("ctl", "latest", "pause")
    with open_store(slow.path / "results.db") as store:
        run_id = store.run("latest")["run_id"]
        wait_for(lambda: store.pending_controls(run_id))
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    _, errors = waiting.communicate(timeout=60)
    assert waiting.returncode == 2
    assert "died" in errors
    assert "abreast resume" in errors


def test_a_request_without_an_answer_may_still_be_applied(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abreast.experiment.control.ANSWER_S", 0.0)
    with open_store(folder.path / "results.db") as store:
        run = RunWriter(store, "calm-1", ["one"], 1, 1)
        with pytest.raises(StoreError, match="no answer within 0 s from the process that executes calm-1") as error:
            control_run(store, "calm-1", "pause")
        assert error.value.fix.startswith("it may still apply the request; see `abreast show calm-1 --events")
        assert [request.action for request in store.pending_controls(run.lease.run_id)] == ["pause"]
        run.finish()


BAD_WORDS = {
    "": "required: RUN, ACTION\n",
    "latest pause": "see `abreast report",
    "latest jump": "invalid choice",
    "latest pause parallel=8": "pause takes no settings",
    "latest set": "set needs NAME=VALUE",
    "latest set parallel": '"parallel" is not a setting with a value',
    "latest set parallel={": "not valid YAML",
}


@pytest.mark.parametrize("words", BAD_WORDS)
def test_bad_words_are_explained(simulated: Folder, words: str) -> None:
    assert simulated.abreast("run", "experiment.yaml", "--quiet").code == 0
    done = simulated.abreast("ctl", *words.split())
    assert done.code == 2
    assert BAD_WORDS[words] in done.err
