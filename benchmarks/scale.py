"""One driver and up to 1,000 nodes: what a trial costs the scheduler, the whole driver, and its exchange with Ray.

The scheduler runs on the virtual engine, in virtual time. The driver is a whole run with the Ray engine, its store and
its scorer, whose nodes are simulated in this process: their own work is not counted. A call of Ray is measured on a
real cluster.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
import random
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.runner import execution

LATENCY_S = 4.0  # of a trial


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


# -- the scheduler, in virtual time ------------------------------------------------------------------------------------


def schedule(in_flight: int, rounds: int, variants: int) -> dict[str, Any]:
    """CPU of the scheduler per trial. One node in a hundred dies, and its trials are executed again."""
    from tests.virtual import Memory, Rig, run

    from abreast.execute.engine.virtual import VirtualEngine
    from abreast.execute.listener import Listener
    from abreast.model import Answer, Case, Outcome, Variant
    from abreast.plan.keys import variant_digest
    from abreast.plan.plan import Plan
    from abreast.spec.cases import load_cases
    from abreast.spec.schema import Limits
    from abreast.targets import build

    def behave(job: Any) -> tuple[float, Outcome]:
        chance = random.Random(job.trial.position)
        seconds = chance.uniform(0.5, 1.5) * LATENCY_S
        if chance.random() < 0.01:  # the node dies half way, which is noticed after 5 s
            seconds += seconds / 2 + 5.0
        return seconds, Outcome("ok", Answer("yes"))

    async def execute() -> tuple[float, int]:
        nonlocal begin, before
        cases = trials // variants
        table = load_cases([Case(f"c{number}", f"q{number}", "yes") for number in range(cases)], Path())
        contenders = [Variant(f"v{number}", "simulated", {"accuracy": 1.0}) for number in range(variants)]
        targets = [build(variant, 0, {}) for variant in contenders]
        digests = [variant_digest(*pair) for pair in zip(contenders, targets, strict=True)]
        plan, limits = Plan(table, contenders, digests, 1, 0), Limits(parallel=in_flight)
        rig = Rig(plan, targets, limits, Listener(), Memory(), engine=lambda complete: VirtualEngine(behave, complete))
        before, begin = memory_mb(), time.process_time()
        return await rig.run(), rig.state.most_in_flight

    trials = rounds * in_flight
    begin = before = 0.0
    elapsed, most = run(execute())
    cpu = time.process_time() - begin
    return {
        "cpu_ms": cpu / trials * 1000,
        "memory_kb": (memory_mb() - before) * 1000 / most,
        "share": rounds * LATENCY_S / elapsed,
        "most": most,
    }


def scheduler() -> bool:
    reached = []
    for in_flight, rounds, variants in ((2_000, 20, 1), (16_000, 10, 16), (64_000, 5, 16)):
        measured = measure.in_own_process("scale", "schedule", in_flight, rounds, variants).extra
        cpu = measured["cpu_ms"]
        figure = f"{cpu:.3f} ms, {measured['memory_kb']:.1f} KB, {measured['share']:.0%} of the ideal"
        name = f"scheduler per trial, {measured['most']:,} in flight"
        reached.append(measure.line(name, figure, "≤ 0.1 ms", cpu <= 0.1, value=cpu))
    return all(reached)


# -- the driver, with simulated nodes ----------------------------------------------------------------------------------


class SimulatedActor:
    """A runner that answers every attempt after a time. Counts the CPU time of the node's part."""

    cpu_s = 0.0
    latency_s = LATENCY_S
    facts: Any = None

    def __init__(self) -> None:
        self._due: list[tuple[float, Any]] = []  # in the order of their ends
        self._received = self._first = 0
        self._sent = 0  # results of the last report
        self._news = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "remote":
            raise AttributeError(name)
        return Remote(getattr(self, f"_{name}"))

    async def _begin(self, base: Path | None, setup: bytes) -> tuple[bool, Any]:
        return False, self.facts

    async def _submit(self, first: int, starts: bytes) -> None:
        begin = time.thread_time()
        due = asyncio.get_running_loop().time() + self.latency_s
        received = pickle.loads(starts)
        self._due += [(due, start) for start in received]
        self._received += len(received)
        self._news.set()
        SimulatedActor.cpu_s += time.thread_time() - begin

    async def _collect(self, acknowledged: int) -> bytes:
        from abreast.execute.engine.ray.leases import HEARTBEAT_S
        from abreast.execute.engine.ray.messages import AttemptResult, Report, dumps, dumps_result
        from abreast.model import Answer, Outcome

        loop = asyncio.get_running_loop()
        begin = time.thread_time()
        self._first += self._sent
        until = loop.time() + HEARTBEAT_S
        while (now := loop.time()) < until and (not self._due or self._due[0][0] > now):
            self._news.clear()
            wait = min(until, self._due[0][0] if self._due else until) - now
            SimulatedActor.cpu_s += time.thread_time() - begin
            timer = loop.call_later(max(0.001, wait), self._news.set)
            await self._news.wait()
            timer.cancel()
            begin = time.thread_time()
        ended = list(itertools.takewhile(lambda item: item[0] <= loop.time(), self._due))
        self._due = self._due[len(ended) :]
        at = time.time()
        begun = at - self.latency_s
        outcomes = [Outcome("ok", Answer("yes"), None, begun, at, self.latency_s) for _ in ended]
        results = [
            dumps_result(AttemptResult(start.ticket, start.lease, outcome, "q", 0.0, begun))
            for (_, start), outcome in zip(ended, outcomes, strict=True)
        ]
        self._sent = len(results)
        message = dumps(Report(at, self._received, 0, self._first + 1, results, []))
        SimulatedActor.cpu_s += time.thread_time() - begin
        return message

    async def _cancel(self) -> None: ...

    async def _close(self) -> list[str]:
        return []


class Remote:
    def __init__(self, method: Callable[..., Awaitable[Any]]) -> None:
        self._method = method

    def remote(self, *arguments: Any) -> Any:
        return self._method(*arguments)


def drive(nodes: int, in_flight: int, trials: int, latency_s: float = LATENCY_S) -> dict[str, Any]:
    """CPU of a whole run per trial, with simulated nodes."""
    from abreast import Case, Experiment
    from abreast.execute.engine.ray import cluster
    from abreast.execute.engine.ray.facts import facts_of

    class SimulatedCluster(cluster.Cluster):
        def connect(self) -> None: ...

        def close(self) -> None: ...

        def nodes(self) -> list[cluster.ClusterNode]:
            return [cluster.ClusterNode(str(number), f"n{number}", {"CPU": 64.0}) for number in range(nodes)]

        def start_runner(self, node: cluster.ClusterNode) -> Any:
            return SimulatedActor()

        def kill(self, actor: Any) -> None: ...

        def facts(self, setups: Mapping[Any, Any], base: Path) -> dict[Any, Any]:
            SimulatedActor.facts = facts_of(next(iter(setups.values())).targets())
            return dict.fromkeys(setups, SimulatedActor.facts)

    cluster.Cluster = SimulatedCluster  # type: ignore[misc]
    SimulatedActor.latency_s = latency_s
    with measure.folder() as path:
        experiment = Experiment(
            name="bench",
            cases=[Case(f"c{number}", f"question {number}", expected="yes") for number in range(trials)],
            variants={"a": {"accuracy": 0.7}},
            target="simulated",
            scorers=["exact"],
            store=path / "results.db",
        )
        before, begin = memory_mb(), time.process_time()
        result = experiment.run(parallel=in_flight, engine="ray")
        cpu = time.process_time() - begin
        assert result.analysis.stored == trials
        seconds = execution(path / "results.db")["execution"]
    return {
        "cpu_ms": (cpu - SimulatedActor.cpu_s) / trials * 1000,
        "memory_mb": memory_mb() - before,
        "share": trials * latency_s / in_flight / seconds,
    }


def driver() -> bool:
    reached = []
    for nodes in (2, 100, 1_000):
        measured = measure.in_own_process("scale", "drive", nodes, 4_000, 20_000).extra
        cpu = measured["cpu_ms"]
        figure = f"{cpu:.3f} ms, {measured['memory_mb']:.0f} MB, {measured['share']:.0%} of the ideal"
        name = f"driver per trial, {nodes:,} simulated nodes"
        reached.append(measure.line(name, figure, "≤ 0.3 ms", cpu <= 0.3, value=cpu))
    return all(reached)


# -- calls of Ray ------------------------------------------------------------------------------------------------------

CALLS = """
import asyncio, sys, time
import ray

class Runner:
    async def collect(self, seconds):
        await asyncio.sleep(seconds)
        return b"x" * 300

async def poll(runners, polls, seconds):
    calls, end, begin = 0, time.monotonic() + 5.0, time.process_time()

    async def exchange(runner):
        nonlocal calls
        while time.monotonic() < end:
            await runner.collect.remote(seconds)
            calls += 1

    await asyncio.gather(*(exchange(runners[number % len(runners)]) for number in range(polls)))
    return (time.process_time() - begin) / calls * 1000

ray.init(address=sys.argv[1], log_to_driver=False)
runners = [ray.remote(num_cpus=0)(Runner).remote() for _ in range(8)]
ray.get([runner.collect.remote(0.0) for runner in runners])
print(asyncio.run(poll(runners, 1_000, 1.0)))
"""


def calls() -> bool:
    """CPU of the driver per call, with 1,000 long polls at once, as 1,000 idle nodes have."""
    from tests.ray_cluster import RayCluster

    cluster = RayCluster()
    try:
        cluster.start()
        done = cluster.run([sys.executable, "-c", CALLS, cluster.address])
    finally:
        cluster.stop()
    assert done.returncode == 0, done.stderr
    cpu = float(done.stdout)
    figure = f"{cpu:.3f} ms; 1,000 heartbeats per second take {cpu:.0%} of a core"
    return measure.line("a call of Ray, in the driver", figure, "≤ 0.3 ms", cpu <= 0.3, value=cpu)


ALL = (scheduler, driver, calls)
