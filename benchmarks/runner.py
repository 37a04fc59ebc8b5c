"""The runner: overhead a trial, how close to the ideal, memory, planning, and the start of a resume."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import bare, measure


def run_bare(trials: int, in_flight: int, latency: float) -> None:
    with measure.folder() as path:
        asyncio.run(bare.loop(trials, in_flight, latency, path / "rows.jsonl"))


def run_ours(trials: int, in_flight: int, latency: float) -> dict[str, Any]:
    from abreast import Case, Experiment

    with measure.folder() as path:
        cases = [Case(f"c{number}", f"question {number}", expected="yes") for number in range(trials // 2)]
        experiment = Experiment(
            name="bench",
            cases=cases,
            variants={"a": {"accuracy": 0.7, "latency": latency}, "b": {"accuracy": 0.8, "latency": latency}},
            target="simulated",
            scorers=["exact"],
            store=path / "results.db",
        )
        result = experiment.run(parallel=in_flight)
        rows = result.analysis.stored
        assert rows == trials, f"{rows} rows of {trials}"
        return execution(path / "results.db")


def execution(store: Path) -> dict[str, Any]:
    """From the first start to the last end of a trial, as the rows have it."""
    from abreast.store import open_store

    with open_store(store) as opened:
        first, last, scored = opened.rows(
            "SELECT MIN(started_at), MAX(finished_at), (SELECT COUNT(*) FROM scores) FROM trials"
        )[0]
    return {"execution": last - first, "scored": scored}


def write_cases(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            case = {
                "id": f"c{number}",
                "input": f"What is {number} plus {number}? Show it.",
                "expected": str(2 * number),
            }
            file.write(json.dumps(case) + "\n")


SPEC = """\
name: bench
cases: cases.jsonl
variants:
  a: {{target: simulated, accuracy: 0.7, latency: {latency}}}
  b: {{target: simulated, accuracy: 0.8, latency: {latency}}}
scorers: [exact]
limits: {{parallel: 200}}
"""


def plan_million() -> dict[str, Any]:
    from abreast import Experiment, Options

    with measure.folder() as path:
        write_cases(path / "cases.jsonl", 500_000)
        (path / "spec.yaml").write_text(SPEC.format(latency=0))
        begin = time.perf_counter()
        prepared = Experiment.load(path / "spec.yaml").prepare(Options())
        seconds = time.perf_counter() - begin
        planned = len(prepared.plan)
        prepared.close()
        return {"seconds": seconds, "planned": planned}


def resume_large() -> dict[str, Any]:
    """Kill a run of 100,000 trials near its end, then see how soon the real command starts a trial."""
    with measure.folder() as path:
        write_cases(path / "cases.jsonl", 50_000)
        (path / "spec.yaml").write_text(SPEC.format(latency=0))
        command = [sys.executable, "-m", "abreast"]
        process = subprocess.Popen(
            [*command, "run", "spec.yaml", "--quiet"], cwd=path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        stored = 0
        while stored < 90_000 and process.poll() is None:
            time.sleep(0.1)
            stored = _stored(path / "results.db")
        process.send_signal(signal.SIGKILL)
        process.wait()
        stored = _stored(path / "results.db")
        begin = time.time()
        subprocess.run(
            [*command, "resume", "--quiet", "--events", "events.jsonl"], cwd=path, check=True, stdout=subprocess.DEVNULL
        )
        events = [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]
        first = next(event["at"] for event in events if event["kind"] == "trial_started")
        return {"seconds": first - begin, "stored_before": stored, "stored": _stored(path / "results.db")}


def _stored(store: Path) -> int:
    from abreast.errors import StoreError
    from abreast.store import open_store

    try:
        with open_store(store) as opened:
            return int(opened.rows("SELECT COUNT(*) FROM trials")[0][0])
    except StoreError:
        return 0


def overhead() -> bool:
    """CPU time per trial: the slope from 100 to 10,000 trials, without imports and start-up, and all of it."""
    small, large = [], []
    for _ in range(3):
        small.append(measure.apart("runner", "run_ours", 100, 100, 0.0).cpu)
        large.append(measure.apart("runner", "run_ours", 10_000, 100, 0.0).cpu)
    base = measure.apart("runner", "run_bare", 10_000, 100, 0.0).cpu
    slope = (min(large) - min(small)) / 9_900 * 1000
    total = min(large) / 10_000 * 1000
    return all(
        [
            measure.line(
                "CPU per trial, from 100 to 10,000 trials",
                f"{slope:.3f} ms ({(min(large) - min(small)) / base:.1f} × bare)",
                "≤ 0.12 ms",
                slope <= 0.12,
                value=slope,
            ),
            measure.line("CPU per trial of 10,000, with start-up", f"{total:.3f} ms", "≤ 0.17 ms", total <= 0.17),
        ]
    )


async def echo(case: Any, number: int = 0) -> str:
    return str(case.input)


def run_many(variants: int, cases: int, target: str) -> dict[str, Any]:
    """Run many variants of the simulator, or of an async function."""
    from abreast import Case, Experiment

    is_simulated = target == "simulated"
    params = [
        {"accuracy": 0.5 + number / variants / 2} if is_simulated else {"number": number} for number in range(variants)
    ]
    with measure.folder() as path:
        Experiment(
            name="bench",
            cases=[Case(f"c{number}", f"question {number}", expected="yes") for number in range(cases)],
            variants={f"v{number}": values for number, values in enumerate(params)},
            target="simulated" if is_simulated else echo,
            scorers=["exact"],
            store=path / "results.db",
        ).run(parallel=100)
        measured = execution(path / "results.db")
        assert measured["scored"] == variants * cases, measured  # every trial ran and gave an answer
        return measured


def many_variants() -> bool:
    """Trials per second with 1,000 variants, against two variants with as many trials."""
    reached = []
    for target in ("simulated", "echo"):
        few = measure.apart("runner", "run_many", 2, 10_000, target)
        many = measure.apart("runner", "run_many", 1_000, 20, target)
        rate = 20_000 / many.extra["execution"]
        ratio = many.extra["execution"] / few.extra["execution"]
        name = "the simulator" if target == "simulated" else "an async function"
        reached.append(
            measure.line(
                f"1,000 variants of {name}, 20 cases",
                f"{rate:,.0f} trials/s ({ratio:.2f} × the time of 2 variants; in all {many.wall:.1f} s)",
                "≥ 3,000 trials/s",
                rate >= 3_000,
                value=ratio,
            )
        )
    return all(reached)


def memory() -> bool:
    small = measure.apart("runner", "run_ours", 10_000, 100, 0.0)
    large = measure.apart("runner", "run_ours", 100_000, 100, 0.0)
    grown = (large.memory_kb - small.memory_kb) / 90_000
    finished = measure.line("100,000 trials finish", f"{large.wall:.1f} s, {large.cpu:.1f} s of CPU", "finish", True)
    return measure.line("memory a trial, from 10,000 to 100,000", f"{grown:.2f} KB", "< 1 KB", grown < 1) and finished


def latency() -> bool:
    reached = []
    for trials, in_flight, goal in ((1_000, 100, 0.95), (5_000, 500, 0.90)):
        ideal = trials / in_flight * 0.2
        base = measure.apart("runner", "run_bare", trials, in_flight, 0.2)
        ours = measure.apart("runner", "run_ours", trials, in_flight, 0.2)
        share = ideal / ours.extra["execution"]
        reached.append(
            measure.line(
                f"{trials:,} × 200 ms at {in_flight} in flight, of the ideal",
                f"{share:.1%} (whole call {ideal / ours.wall:.1%}; bare {ideal / base.wall:.1%})",
                f"≥ {goal:.0%}",
                share >= goal,
            )
        )
    return all(reached)


def planning() -> bool:
    found = measure.apart("runner", "plan_million")
    reached = found.extra["seconds"] < 10 and found.memory_kb < 1_000_000
    figure = f"{found.extra['seconds']:.1f} s, {found.memory_kb / 1000:.0f} MB"
    return measure.line("planning 1,000,000 trials from a case file", figure, "< 10 s, < 1 GB", reached)


def resuming() -> bool:
    found = measure.apart("runner", "resume_large").extra
    assert found["stored"] == 100_000, found
    figure = f"{found['seconds']:.2f} s (with {found['stored_before']:,} of 100,000 stored)"
    return measure.line("resume of 100,000 trials: to the first trial", figure, "< 2 s", found["seconds"] < 2)


def help_time() -> bool:
    best = min(_timed("--help") for _ in range(5))
    return measure.line("abreast --help", f"{best:.2f} s", "< 0.3 s", best < 0.3)


def _timed(*words: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "abreast", *words], check=True, stdout=subprocess.DEVNULL, env=os.environ)
    return time.perf_counter() - begin


ALL = (help_time, overhead, many_variants, memory, latency, planning, resuming)
