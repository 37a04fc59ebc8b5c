"""The contract of engines, tested on every member."""

from __future__ import annotations

import asyncio
import pickle
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from abreast.errors import BadInput, PluginError, RateLimited, Skipped
from abreast.execute.engine.base import Complete, Engine, EngineSetup, SimpleFactory, find_engine
from abreast.execute.engine.local import LocalEngine
from abreast.execute.engine.virtual import VirtualEngine
from abreast.execute.job import Job, JudgeJob, TrialJob, WarmUpJob
from abreast.model import Answer, Case, Failure, Outcome, Request, Trial, Variant
from abreast.spec.schema import Limits
from abreast.targets import Target
from virtual import run

TIMEOUT_S = 10.0
SECRET = "sk-ant-api03-" + "x7Qz" * 20
ENDINGS = {
    "answer": ("ok", None),
    "error": ("error", "rate_limit"),
    "skipped": ("skipped", "skipped"),
    "timeout": ("error", "timeout"),
    "crash": ("error", "crash"),
    "secret": ("ok", None),
}
"""Expected status and kind of failure, by the input of a case."""


async def behave(case: str) -> Answer:
    """Perform an attempt that ends as the input says."""
    if case == "error":
        raise RateLimited("slow down")
    if case == "skipped":
        raise Skipped("not for me")
    if case == "crash":
        raise ZeroDivisionError(f"broke with {SECRET}")
    await asyncio.sleep(1000.0 if case == "timeout" else 1.0)
    return Answer(f"the key is {SECRET}" if case == "secret" else "yes")


class Scripted(Target):
    """A target whose behaviour is set by the input of the case."""

    name, version, simulated, sees, transforms, place = "scripted", "1", False, "input", False, "loop"
    is_service = False

    def __init__(self, transforms: bool = False) -> None:
        self.transforms = transforms
        self.is_closed = False

    def request(self, trial: Trial) -> Request:
        return Request(str(trial.case.input), trial.case.input, {})

    async def answer(self, trial: Trial, request: Request, attempt: int, workers: Any) -> Answer:
        return await behave(trial.case.input)

    async def close(self) -> None:
        self.is_closed = True


def local_engine(complete: Complete, transforms: bool = False) -> Engine:
    return LocalEngine([Scripted(transforms)], [lambda _length: TIMEOUT_S], complete)  # type: ignore[list-item]


def virtual_engine(complete: Complete) -> Engine:
    def scripted(job: Job) -> tuple[float, Outcome]:
        case = job.trial.case.input
        if case == "timeout":
            return 1000.0, Outcome("ok", Answer("too late"))
        steps = behave(case)
        try:
            steps.send(None)  # up to its first wait
        except Skipped as reason:
            return 0.0, Outcome("skipped", failure=Failure("skipped", "unknown", str(reason)))
        finally:
            steps.close()
        return 1.0, Outcome("ok", Answer(f"the key is {SECRET}" if case == "secret" else "yes"))

    return VirtualEngine(scripted, complete, TIMEOUT_S, capacity=3)


PLUGIN = """
import asyncio

from abreast.errors import classify
from abreast.execute.engine.base import Engine, cancelled_outcome
from abreast.model import Outcome
from abreast.redaction import redact, redact_outcome


class Queue(Engine):
    '''One task per attempt.'''

    def __init__(self, setup, complete):
        self.targets, self.complete, self.tasks = setup.targets(), complete, {}
        self.timeouts = setup.timeouts(self.targets)

    def submit(self, job):
        self.tasks[job] = asyncio.get_running_loop().create_task(self.attempt(job))
        self.tasks[job].add_done_callback(lambda task: self.end(job, task))

    async def attempt(self, job):
        target = self.targets[job.variant]
        request = target.request(job.trial)
        job.prompt = redact(request.prompt)
        async with asyncio.timeout(self.timeouts[job.variant](len(request.prompt))):
            return await target.answer(job.trial, request, job.attempt, None)

    def end(self, job, task):
        del self.tasks[job]
        if task.cancelled():
            outcome = cancelled_outcome()
        elif task.exception() is None:
            outcome = Outcome("ok", task.result())
        else:
            failure = classify(task.exception())
            outcome = Outcome("skipped" if failure.kind == "skipped" else "error", failure=failure)
        self.complete(job, redact_outcome(outcome))

    def cancel(self):
        for task in self.tasks.values():
            task.cancel()

    def capacity(self):
        return 1

    async def close(self):
        for target in self.targets:
            await target.close()
        return []


def number(setup, complete):
    return 42
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Another installed package: one file and its entry points."""
    (tmp_path / "their_engine.py").write_text(textwrap.dedent(PLUGIN))
    info = tmp_path / "their_engine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[abreast.engines]\nqueue = their_engine:Queue\nbroken = their_engine:number\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("their_engine", None)


def setup_of(target: Any, **limits: Any) -> EngineSetup:
    variants = [Variant("v", "simulated")]
    return EngineSetup(variants=variants, limits=Limits(timeout=TIMEOUT_S, **limits), built_targets=[target])


def third_engine(complete: Complete) -> Engine:
    return find_engine("queue").build(setup_of(Scripted()), complete)


Build = Callable[[Complete], Engine]
every_engine = pytest.mark.parametrize("build", [local_engine, virtual_engine, third_engine])


def job_of(case: str, position: int = 0) -> TrialJob:
    return TrialJob(Trial(position, Case(f"c{position}", case), Variant("v"), 0), 0, position, 0, position, attempt=1)


@dataclass
class Ended:
    """Completed jobs, in order."""

    outcomes: list[tuple[Job, Outcome]] = field(default_factory=list)

    def complete(self, job: Job, outcome: Outcome) -> None:
        self.outcomes.append((job, outcome))


class Use(Protocol):
    async def __call__(self, engine: Engine, ended: Ended) -> None: ...


def use(build: Build, action: Use, run: Callable[[Any], Any] = run) -> list[tuple[Job, Outcome]]:
    async def main() -> None:
        engine = build(ended.complete)
        with engine.reaping():
            await action(engine, ended)
            await asyncio.wait_for(engine.close(), 60.0)

    ended = Ended()
    run(main())
    return ended.outcomes


@every_engine
def test_every_job_completes_exactly_once_whatever_happens(build: Build, installed: Path) -> None:
    cases = [case for case in ENDINGS for _ in range(3)]

    async def action(engine: Engine, ended: Ended) -> None:
        jobs = [job_of(case, position) for position, case in enumerate(cases)]
        for job in jobs:
            engine.submit(job)
            assert not any(other is job for other, _ in ended.outcomes), "submit returns at once"
        await asyncio.sleep(100.0)
        assert sorted(job.trial.position for job, _ in ended.outcomes) == list(range(len(cases)))

    for job, outcome in use(build, action):
        ending = outcome.status, outcome.failure.kind if outcome.failure else None
        assert ending == ENDINGS[job.trial.case.input]
        assert (outcome.answer is not None) == (outcome.status == "ok")


@every_engine
def test_outcomes_and_prompts_contain_no_secret(build: Build, installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)

    async def action(engine: Engine, ended: Ended) -> None:
        for position, case in enumerate(["secret", "crash"]):
            engine.submit(job_of(case, position))
        await asyncio.sleep(20.0)

    outcomes = use(build, action)
    assert len(outcomes) == 2
    assert SECRET not in repr(outcomes)
    assert "the key is" in repr(outcomes)


@every_engine
def test_cancel_ends_attempts_in_flight(build: Build, installed: Path) -> None:
    async def action(engine: Engine, ended: Ended) -> None:
        for position in range(4):
            engine.submit(job_of("timeout", position))
        await asyncio.sleep(2.0)
        assert not ended.outcomes
        engine.cancel()
        await asyncio.sleep(6.0)  # less than the timeout

    assert [outcome.status for _, outcome in use(build, action)] == ["cancelled"] * 4


@every_engine
def test_an_engine_without_work_closes_and_leaves_nothing(build: Build, installed: Path) -> None:
    async def action(engine: Engine, ended: Ended) -> None:
        before = len(asyncio.all_tasks())
        engine.submit(job_of("answer"))
        await asyncio.sleep(5.0)
        assert len(asyncio.all_tasks()) == before

    assert len(use(build, action)) == 1
    assert use(build, lambda engine, ended: asyncio.sleep(0)) == []


@every_engine
def test_capacity_is_a_number_or_unlimited(build: Build, installed: Path) -> None:
    async def action(engine: Engine, ended: Ended) -> None:
        capacity = engine.capacity()
        assert capacity is None or capacity >= 1
        assert all(
            limit.wait(job_of("answer"), 0.0) == 0.0
            for limit in engine.limits(4, lambda *_, **__: None, lambda *_: None)
        )

    use(build, action)


@pytest.mark.parametrize("build", [local_engine, partial(local_engine, transforms=True), virtual_engine, third_engine])
def test_preparing_ahead_is_harmless(build: Build, installed: Path) -> None:
    """Prepared jobs may start now, later or never."""

    async def action(engine: Engine, ended: Ended) -> None:
        jobs = [job_of("answer", position) for position in range(4)]
        for job in jobs:
            job.attempt = 0
        engine.prepare_ahead(jobs)
        await asyncio.sleep(0)
        engine.prepare_ahead(jobs[2:])
        for job in jobs[:3]:
            job.attempt += 1
            engine.submit(job)
        async with asyncio.timeout(60.0):
            while len(ended.outcomes) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        engine.prepare_ahead(())

    outcomes = use(build, action, asyncio.run)  # requests are made in a thread, which takes real time
    assert sorted(job.trial.position for job, _ in outcomes) == [0, 1, 2]


# -- what travels --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [TrialJob, WarmUpJob, JudgeJob])
def test_a_job_is_plain_data(kind: type[Job]) -> None:
    job = kind(Trial(3, Case("c", {"text": "?"}), Variant("v", "simulated", {"accuracy": 0.5}), 1), 0, 7, 1, 2)
    copy = pickle.loads(pickle.dumps(job))
    assert type(copy) is kind
    assert (copy.trial, copy.variant, copy.order, copy.attempt) == (job.trial, 0, (7, 1), 0)


def test_another_process_builds_the_same_targets_from_the_setup() -> None:
    variants = [Variant("a", "simulated", {"accuracy": 1.0}), Variant("b", "simulated", {"accuracy": 0.0})]
    setup = EngineSetup(variants=variants, seed=3, limits=Limits(timeout=5.0), built_targets=["cannot be sent"])  # type: ignore[list-item]
    copy = pickle.loads(pickle.dumps(setup.portable()))
    targets: list[Target] = list(copy.targets())
    assert [target.name for target in targets] == ["simulated", "simulated"]
    assert [seconds(100) for seconds in copy.timeouts(targets)] == [5.0, 5.0]


# -- adding one ----------------------------------------------------------------------------------------------------


def test_a_third_engine_executes_a_run(installed: Path, folder: Any) -> None:
    """The engine is one file of another package, found by its entry point."""
    from abreast import Case, Experiment

    cases = [Case(f"c{number}", f"{number} + 1", str(number + 1)) for number in range(5)]
    variants = {"a": {"accuracy": 1.0}, "b": {"accuracy": 0.0}}
    store = folder.path / "results.db"
    experiment = Experiment(cases=cases, variants=variants, target="simulated", scorers=["exact"], store=store)
    result = experiment.run(engine="queue")
    assert {row["status"] for row in result.rows()} == {"ok"}
    assert "their_engine" in sys.modules
    assert result.status == "complete"


SPEC = """
name: greeting
cases: [{id: a, input: 1 + 1, expected: 2}, {id: b, input: 1 + 2, expected: 3}]
variants: {plain: {accuracy: 1.0}, careful: {accuracy: 1.0}}
target: simulated
scorers: [exact]
"""


def test_the_command_line_chooses_an_engine_that_a_package_adds(installed: Path, folder: Any) -> None:
    folder.write("spec.yaml", SPEC)
    unknown = folder.abreast("check", "spec.yaml", "--engine", "quue")
    assert unknown.code == 2
    assert 'unknown engine "quue" (did you mean "queue"' in unknown.err
    assert "choose one of local, ray, broken, queue" in unknown.err
    done = folder.abreast("run", "spec.yaml", "--engine", "queue", "--yes")
    assert done.code == 0, done.output
    assert "their_engine" in sys.modules
    assert folder.sql("select count(*) n from predictions where status = 'ok'") == [{"n": 4}]


def test_an_engine_receives_everything_needed_to_build_targets(
    installed: Path, folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from abreast import Experiment

    setups: list[EngineSetup] = []

    def recorded(setup: EngineSetup, complete: Complete) -> Engine:
        setups.append(pickle.loads(pickle.dumps(setup.portable())))
        return LocalEngine.from_setup(setup, complete)

    monkeypatch.setattr("abreast.experiment.setup.find_engine", lambda engine: SimpleFactory(recorded))
    folder.write("spec.yaml", SPEC)
    Experiment.load(folder.path / "spec.yaml").run()
    assert setups[0].settings["base"] == folder.path
    assert [target.name for target in setups[0].targets()] == ["simulated", "simulated"]


def test_an_invalid_engine_is_refused(installed: Path) -> None:
    with pytest.raises(BadInput, match=r'unknown engine "lokal" \(did you mean "local"'):
        find_engine("lokal")
    with pytest.raises(PluginError, match=r"must return an abreast.execute.engine.base.Engine, got"):
        find_engine("broken").build(setup_of(Scripted()), lambda job, outcome: None)
