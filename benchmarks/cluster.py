"""Two Ray nodes, as processes in network namespaces of their own that a virtual cable joins, against `local` there.

The driver runs on the head, so that half of the trials cross the cable. All nodes share the cores of this machine.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.ray_cluster import RayCluster

from benchmarks import measure
from benchmarks.runner import write_cases

ENGINES = ("local", "ray")
ROUNDS = 3  # of which the best counts, as other programs only slow down a run
TRIALS, IN_FLIGHT, LATENCY_S = 200, 20, 0.3  # of a run in which something fails


@contextmanager
def two_nodes() -> Iterator[RayCluster]:
    cluster = RayCluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def run_trials(engine: str, address: str | None, trials: int, in_flight: int, latency: float) -> dict[str, Any]:
    """A run of trials that only wait; its time is from the first start in the driver to the last row on disk."""
    from abreast import Case, Experiment, Options
    from abreast.execute.listener import Listener

    class Times(Listener):
        first = last = 0.0

        def started(self, job: Any, in_flight: int) -> None:
            self.first = self.first or time.monotonic()

        def stored(self, jobs: Sequence[Any]) -> None:
            self.last = time.monotonic()

    times = Times()
    with measure.folder() as path:
        experiment = Experiment(
            name="bench",
            cases=[Case(f"c{number}", f"question {number}", expected="yes") for number in range(trials // 2)],
            variants={name: {"accuracy": 0.7, "latency": latency} for name in ("a", "b")},
            target="simulated",
            scorers=["exact"],
            store=path / "results.db",
        )
        options = Options(parallel=in_flight, engine=engine, address=address, listeners=(times,))
        result = experiment.run(options)
        assert result.analysis.stored == trials, f"{result.analysis.stored} rows of {trials}"
    return {"share": trials / in_flight * latency / (times.last - times.first)}


def measured(cluster: RayCluster, engine: str, *arguments: Any) -> measure.Measured:
    def on_head(words: Sequence[str]) -> str:
        done = cluster.run(words, cwd=measure.ROOT, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    address = cluster.address if engine == "ray" else None
    return measure.in_own_process("cluster", "run_trials", engine, address, *arguments, run=on_head)


def throughput() -> bool:
    """Share of the ideal time, and CPU of the driver for each further trial."""
    reached = []
    with two_nodes() as cluster:
        for trials, in_flight, latency, goal in ((2_000, 200, 0.2, 0.95), (20_000, 2_000, 2.0, 0.90)):
            runs: dict[str, list[measure.Measured]] = {engine: [] for engine in ENGINES}
            short: dict[str, list[measure.Measured]] = {engine: [] for engine in ENGINES}
            for _ in range(ROUNDS):
                for engine in ENGINES:
                    short[engine].append(measured(cluster, engine, trials // 10, in_flight, latency))
                    runs[engine].append(measured(cluster, engine, trials, in_flight, latency))
            for engine in ENGINES:
                share = max(run.extra["share"] for run in runs[engine])
                further = min(run.cpu for run in runs[engine]) - min(run.cpu for run in short[engine])
                cpu = further / (trials - trials // 10) * 1000
                is_ray = engine == "ray"
                name = f"{engine}: {trials:,} × {latency:g} s, {in_flight:,} in flight"
                figure, load = f"{share:.1%} of the ideal", f"load {os.getloadavg()[0]:.1f}"
                least = f"≥ {goal:.0%}" if is_ray else "reported"
                reached.append(
                    measure.line(
                        name, f"{figure} ({load})", least, not is_ray or share >= goal, value=share, more_is_better=True
                    )
                )
                most = "≤ 0.3 ms" if is_ray else "reported"
                name = f"{engine}: CPU of the driver per trial, {in_flight:,} in flight"
                reached.append(measure.line(name, f"{cpu:.3f} ms", most, not is_ray or cpu <= 0.3, value=cpu))
    return all(reached)


def kill_runner(cluster: RayCluster) -> None:
    (runner,) = (process for process in cluster.processes(1) if "Runner" in " ".join(process.cmdline()))
    runner.kill()


def noticed_after(cluster: RayCluster, fail: Callable[[RayCluster], None]) -> float:
    """Seconds until a run knows that a node was lost. The run must still answer every trial."""
    with measure.folder() as path:
        write_cases(path / "cases.jsonl", TRIALS)
        (path / "spec.yaml").write_text(
            f"name: bench\ncases: cases.jsonl\nscorers: [exact]\nlimits: {{parallel: {IN_FLIGHT}}}\n"
            f"variants: {{a: {{target: simulated, latency: {LATENCY_S}}}}}\n"
        )
        words = ["run", "spec.yaml", "--yes", "--quiet", "--engine", "ray", "--address", cluster.address]
        command = [sys.executable, "-m", "abreast", *words, "--events", "events.jsonl"]
        with cluster.command(command, cwd=path) as run:
            while _count(path, "trial_started") < 3 * IN_FLIGHT:
                assert run.poll() is None, run.communicate()
                time.sleep(0.01)
            begin = time.time()
            fail(cluster)
            out, err = run.communicate(timeout=120)
        assert run.returncode == 0, out + err
        assert _count(path, "trial_finished") == TRIALS
        return min(event["at"] for event in _events(path, "node_lost")) - begin


def _events(path: Path, kind: str) -> list[dict[str, Any]]:
    file = path / "events.jsonl"
    lines = file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def _count(path: Path, kind: str) -> int:
    return len(_events(path, kind))


def faults() -> bool:
    reached = []
    with two_nodes() as cluster:
        for name, fail, most in (
            ("a killed runner is noticed", kill_runner, 2.0),
            ("a frozen node is noticed", lambda nodes: nodes.freeze(1), 6.0),
        ):
            cluster.restore()
            seconds = noticed_after(cluster, fail)
            reached.append(measure.line(name, f"after {seconds:.2f} s", f"< {most:g} s", seconds < most))
    return all(reached)


ALL = (throughput, faults)
