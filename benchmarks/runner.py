"""The runner: start-up, overhead a trial, how close to the ideal, memory, planning, and the start of a resume."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
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
        planned = len(prepared.setup.plan)
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


SPEC = """\
name: bench
cases: {cases}
variants:
  a: {{target: simulated, accuracy: 0.7, latency: {latency}}}
  b: {{target: simulated, accuracy: 0.8, latency: {latency}}}
scorers: [exact]
limits: {{parallel: {parallel}}}
"""


@dataclass(frozen=True)
class Command:
    """What `abreast run` took: seconds, seconds of CPU, and its largest memory."""

    wall: float
    cpu: float
    memory_kb: int


def run_command(trials: int, in_flight: int, latency: float, *words: str) -> Command:
    """Execute a fresh run of two variants with the real command, in a folder of its own."""
    with measure.folder() as path:
        write_cases(path / "cases.jsonl", trials // 2)
        spec = SPEC.format(cases="cases.jsonl", latency=latency, parallel=in_flight)
        (path / "spec.yaml").write_text(spec)
        command = [sys.executable, "-m", "abreast", "run", "spec.yaml", "--quiet", "--yes", *words]
        begin = time.perf_counter()
        process = subprocess.Popen(command, cwd=path, env=users_environment(), stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - begin
        assert process.returncode == 0, f"exit code {process.returncode}"
        stored = _stored(path / "results.db")
        assert stored == trials, f"{stored} rows of {trials}"
    return Command(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)


def users_environment() -> dict[str, str]:
    """The environment without what slows down imports: users have their modules compiled."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def best_command(rounds: int, *arguments: Any) -> Command:
    """The quickest of several runs, as other programs only slow it down."""
    return min((run_command(*arguments) for _ in range(rounds)), key=lambda command: command.wall)


def whole_command() -> bool:
    """The ideal time against that of the whole command, and against it without that of an equal run of one case."""
    reached = []
    for trials, in_flight, without_goal, goal in ((1_000, 100, 0.97, 0.80), (5_000, 500, 0.93, 0.75)):
        ideal = trials / in_flight * 0.2
        single = best_command(3, 2, in_flight, 0.2)
        many = best_command(3, trials, in_flight, 0.2)
        start_up = single.wall - 0.2
        name = f"{trials:,} × 200 ms at {in_flight} in flight"
        for part, share, least in (
            ("the whole command", ideal / many.wall, goal),
            ("without start-up", ideal / (many.wall - start_up), without_goal),
        ):
            figure = f"{share:.1%} of the ideal"
            reached.append(measure.line(f"{name}: {part}", figure, f"≥ {least:.0%}", share >= least))
    return all(reached)


def one_case() -> bool:
    """`abreast run` of one case that answers at once; its CPU time, as the wall time depends on who else is there."""
    runs = [run_command(2, 1, 0.0) for _ in range(5)]
    wall, cpu = min(run.wall for run in runs), min(run.cpu for run in runs)
    bare = min(_cpu_of("import numpy, pydantic, yaml, asyncio") for _ in range(5))
    figure = f"{wall:.2f} s, {cpu:.2f} s of CPU ({cpu / bare:.1f} × importing numpy, pydantic, yaml)"
    return measure.line("abreast run, one case", figure, "≤ 0.6 s", wall <= 0.6, value=cpu / bare)


def tracker_import() -> bool:
    cpu = min(_cpu_of("from abreast import Tracker") for _ in range(5))
    python = min(_cpu_of("pass") for _ in range(5))
    figure = f"{cpu:.2f} s ({cpu / python:.1f} × an empty program)"
    return measure.line("from abreast import Tracker", figure, "≤ 0.15 s", cpu <= 0.15, value=cpu / python)


def _cpu_of(code: str) -> float:
    process = subprocess.Popen([sys.executable, "-c", code], env=users_environment())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def command_memory() -> bool:
    """Memory of the whole command, with its analysis and its reports."""
    small, large, all_formats = (
        run_command(1_000, 200, 0.0),
        run_command(100_000, 200, 0.0),
        run_command(100_000, 200, 0.0, "--format", "html,json"),
    )
    grown = (large.memory_kb - small.memory_kb) / 99_000
    name = "memory of abreast run a trial, 1,000 to 100,000"
    reached = measure.line(name, f"{grown:.2f} KB", "< 0.7 KB", grown < 0.7, value=grown)
    more = (all_formats.memory_kb - large.memory_kb) / 1000
    name = "the same with the JSON report of 100,000 trials"
    return (
        measure.line(name, f"{all_formats.memory_kb / 1000:.0f} MB, {more:+.0f} MB", "+ 10 MB", more < 10) and reached
    )


def run_and_count(trials: int) -> dict[str, Any]:
    """Trials a second in each tenth of a run, by CPU time: other programs change the time on the clock."""
    from abreast import Experiment, Options
    from abreast.execute.listener import Listener

    class Tenths(Listener):
        def __init__(self) -> None:
            self.finished_trials = 0
            self.marks = [time.process_time()]

        def stored(self, jobs: Any) -> None:
            self.finished_trials += len(jobs)
            while self.finished_trials >= len(self.marks) * trials // 10:
                self.marks.append(time.process_time())

    with measure.folder() as path:
        write_cases(path / "cases.jsonl", trials // 2)
        (path / "spec.yaml").write_text(SPEC.format(latency=0))
        tenths = Tenths()
        Experiment.load(path / "spec.yaml").run(Options(listeners=(tenths,)))
    marks = tenths.marks[:11]
    return {"rates": [trials / 10 / (after - before) for before, after in itertools.pairwise(marks)]}


def growing() -> bool:
    rates = measure.in_own_process("runner", "run_and_count", 100_000).extra["rates"]
    first, last = sum(rates[1:3]) / 2, sum(rates[-2:]) / 2  # the first tenth has the start in it
    figure = f"{first:,.0f} then {last:,.0f} trials per second of CPU ({last / first:.0%})"
    name = "100,000 trials: the last tenths against the first"
    return measure.line(name, figure, "≥ 95 %", last >= 0.95 * first, value=last / first, more_is_better=True)


def overhead() -> bool:
    """CPU time per trial: the slope from 100 to 10,000 trials, without imports and start-up, and all of it."""
    small, large = [], []
    for _ in range(3):
        small.append(measure.in_own_process("runner", "run_ours", 100, 100, 0.0).cpu)
        large.append(measure.in_own_process("runner", "run_ours", 10_000, 100, 0.0).cpu)
    base = measure.in_own_process("runner", "run_bare", 10_000, 100, 0.0).cpu
    slope = (min(large) - min(small)) / 9_900 * 1000
    total = min(large) / 10_000 * 1000
    return all(
        [
            measure.line(
                "CPU per trial, from 100 to 10,000 trials",
                f"{slope:.3f} ms ({(min(large) - min(small)) / base:.1f} × bare)",
                "≤ 0.12 ms",
                slope <= 0.12,
                value=(min(large) - min(small)) / base,
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
        few = measure.in_own_process("runner", "run_many", 2, 10_000, target)
        many = measure.in_own_process("runner", "run_many", 1_000, 20, target)
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


def planning() -> bool:
    measured = measure.in_own_process("runner", "plan_million")
    reached = measured.extra["seconds"] < 10 and measured.memory_kb < 1_000_000
    figure = f"{measured.extra['seconds']:.1f} s, {measured.memory_kb / 1000:.0f} MB"
    return measure.line("planning 1,000,000 trials from a case file", figure, "< 10 s, < 1 GB", reached)


def resuming() -> bool:
    figures = measure.in_own_process("runner", "resume_large").extra
    assert figures["stored"] == 100_000, figures
    figure = f"{figures['seconds']:.2f} s (with {figures['stored_before']:,} of 100,000 stored)"
    return measure.line("resume of 100,000 trials: to the first trial", figure, "< 2 s", figures["seconds"] < 2)


def help_time() -> bool:
    best = min(_timed("--help") for _ in range(5))
    return measure.line("abreast --help", f"{best:.2f} s", "< 0.3 s", best < 0.3)


def _timed(*words: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "abreast", *words], check=True, stdout=subprocess.DEVNULL, env=os.environ)
    return time.perf_counter() - begin


ALL = (
    help_time,
    tracker_import,
    one_case,
    overhead,
    many_variants,
    whole_command,
    command_memory,
    growing,
    planning,
    resuming,
)
QUICK = (tracker_import, one_case, overhead)
