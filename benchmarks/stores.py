"""The three store engines in one run: cost of a stored trial, durable rows per second, analysis, many drivers at once.

The PostgreSQL server is the one of the tests, on this machine, and syncs every commit to disk.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.postgres_server import PostgresServer

from benchmarks import measure
from benchmarks.reports import fill

ENGINES = {"SQLite": "results.db", "DuckDB": "results.duckdb", "PostgreSQL": None}
DRIVERS = 8


@contextmanager
def server() -> Iterator[PostgresServer]:
    with PostgresServer(fsync=True) as started:
        yield started


def address(engine: str, folder: Path, running: PostgresServer) -> str:
    """The address of a new store."""
    file = ENGINES[engine]
    return running.create_database() if file is None else str(folder / file)


def run_instant(store: str, trials: int, name: str = "bench") -> dict[str, Any]:
    """A run of trials that answer at once."""
    from abreast import Case, Experiment

    cases = [Case(f"c{number}", f"question {number}", expected="yes") for number in range(trials // 2)]
    variants = {"a": {"accuracy": 0.7, "latency": 0}, "b": {"accuracy": 0.8, "latency": 0}}
    experiment = Experiment(
        name=name, cases=cases, variants=variants, target="simulated", scorers=["exact"], store=store
    )
    result = experiment.run(parallel=200)
    assert result.analysis.stored == trials, f"{result.analysis.stored} rows of {trials}"
    return {}


def trial() -> bool:
    """Wall time, CPU and memory of 10,000 instant trials on each engine, the best of three in turns."""
    walls: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    slopes: dict[str, float] = {}
    reached = []
    with server() as running, measure.folder() as folder:
        small: dict[str, list[measure.Measured]] = {engine: [] for engine in ENGINES}
        large: dict[str, list[measure.Measured]] = {engine: [] for engine in ENGINES}
        for turn in range(3):
            for engine in ENGINES:
                for trials, results in ((100, small), (10_000, large)):
                    place = folder / f"{turn}-{trials}"
                    place.mkdir(exist_ok=True)
                    store = address(engine, place, running)
                    results[engine].append(measure.in_own_process("stores", "run_instant", store, trials))
    for engine in ENGINES:
        walls[engine] = [measured.wall for measured in large[engine]]
        cpu = min(measured.cpu for measured in large[engine]) - min(measured.cpu for measured in small[engine])
        slopes[engine] = cpu / 9_900 * 1000
        memory = min(many.memory_kb for many in large[engine]) - min(few.memory_kb for few in small[engine])
        name = f"{engine}: CPU and memory of the driver per trial"
        figure = f"{slopes[engine]:.3f} ms, {memory / 9_900:.2f} KB"
        is_sqlite = engine == "SQLite"
        goal = "≤ 0.12 ms" if is_sqlite else "reported"
        reached.append(measure.line(name, figure, goal, not is_sqlite or slopes[engine] <= 0.12))
    ratio = min(walls["PostgreSQL"]) / min(walls["SQLite"])
    figure = f"{min(walls['PostgreSQL']):.2f} s, {ratio:.2f} × SQLite"
    reached.append(measure.line("PostgreSQL: 10,000 instant trials", figure, "≤ 2 × SQLite", ratio <= 2, value=ratio))
    return all(reached)


def write_rows(store_address: str, trials: int) -> dict[str, Any]:
    """Rows of trials through the writer of a run, in groups as large as the engine makes them."""
    from abreast.model import Answer, Case, Outcome, Score, Trial, Variant
    from abreast.store import NewRun, open_store, rows, schema

    new = NewRun(
        run="bench-1",
        experiment="bench",
        debug=False,
        simulated=False,
        label=None,
        fingerprint="f",
        planned_trials=trials,
        primary_score="exact",
        baseline="one",
        seed=0,
        spec={"options": {}, "repeats": 1},
        provenance={},
        variants=[(0, "one", "t", "{}", "d", 0)],
        columns=[schema.Column("score", "exact", "real")],
    )
    answer, done, stored = Answer("x" * 2_000), threading.Event(), 0

    def acknowledge(tokens: list[Any]) -> None:
        nonlocal stored
        stored += len(tokens)
        if stored == trials:
            done.set()

    with open_store(store_address) as store:
        lease = store.begin(new)
        case = rows.case_row("case", "input", Case("c", "question", "yes"))
        outcome = Outcome("ok", answer, started_at=1.0, finished_at=2.0, service_s=1.0)
        planned = [Trial(position, Case("c", "question"), Variant("one"), 0) for position in range(trials)]
        writer = store.writer(lease, acknowledge, print, print)
        writer.put("cases", case)
        begin = time.perf_counter()
        for position, trial_of_plan in enumerate(planned):
            entry = [
                ("trials", rows.trial_row(lease.run_id, trial_of_plan, 0, 0, "case", outcome, rows.Timing(1.0))),
                ("payloads", rows.payload_row(lease.run_id, position, "question", answer)),
                *(("scores", row) for row in rows.score_rows(lease.run_id, position, "1", [Score("exact", 1.0)])),
            ]
            writer.put_together(entry, position)
        done.wait()
        seconds = time.perf_counter() - begin
        writer.close()
        store.finish(lease, "complete", None)
    return {"rows_per_s": 3 * trials / seconds}


def durable_rows() -> bool:
    reached = []
    with server() as running, measure.folder() as folder:
        for engine in ENGINES:
            rates = []
            for turn in range(3):
                place = folder / str(turn)
                place.mkdir(exist_ok=True)
                store = address(engine, place, running)
                rates.append(measure.in_own_process("stores", "write_rows", store, 10_000).extra["rows_per_s"])
            rate = max(rates)
            is_postgres = engine == "PostgreSQL"
            goal = "≥ 10,000" if is_postgres else "reported"
            name = f"{engine}: durable rows per second, in groups"
            reached.append(measure.line(name, f"{rate:,.0f}", goal, not is_postgres or rate >= 10_000))
    return all(reached)


def fill_and_analyse(store_address: str, cases: int) -> dict[str, Any]:
    from abreast.analyse.run import analyse
    from abreast.store import open_store

    fill(store_address, cases)
    with open_store(store_address) as store:
        begin = time.perf_counter()
        analysed = analyse(store, "latest")
        seconds = time.perf_counter() - begin
        assert analysed.comparisons[0].cases == cases
    return {"seconds": seconds}


def analysis() -> bool:
    reached = []
    with server() as running, measure.folder() as folder:
        for engine in ENGINES:
            store = address(engine, folder, running)
            seconds = measure.in_own_process("stores", "fill_and_analyse", store, 50_000).extra["seconds"]
            name = f"{engine}: analysis of 100,000 trials"
            reached.append(measure.line(name, f"{seconds:.2f} s", "< 3 s", seconds < 3))
    return all(reached)


def many_drivers() -> bool:
    """Drivers in processes of their own, with different experiments, on one database."""
    from abreast.store import open_store

    trials = 1_000
    with server() as running:
        url = running.create_database()
        code = "import sys; from benchmarks.stores import run_instant; run_instant(sys.argv[1], 1_000, sys.argv[2])"
        begin = time.perf_counter()
        processes = [
            subprocess.Popen([sys.executable, "-c", code, url, f"bench {number}"], cwd=measure.ROOT)
            for number in range(DRIVERS)
        ]
        codes = [process.wait() for process in processes]
        seconds = time.perf_counter() - begin
        with open_store(url) as store:
            ((rows, scores),) = store.rows("SELECT COUNT(*), (SELECT COUNT(*) FROM scores) FROM trials")
            ((deadlocks,),) = store.rows("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
            names = store.queries.run_names()
    is_complete = not any(codes) and rows == scores == DRIVERS * trials and len(names) == DRIVERS and not deadlocks
    figure = f"{rows:,} of {DRIVERS * trials:,} trials in {seconds:.1f} s, {deadlocks} deadlocks"
    return measure.line(f"{DRIVERS} drivers on one PostgreSQL database", figure, "all, 0", is_complete)


ALL = (trial, durable_rows, analysis, many_drivers)
