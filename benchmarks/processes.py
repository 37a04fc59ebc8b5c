"""Programs as trials: what each costs beyond its process, and whether those that wait all run at the same time.

Folders of trials are in memory if there is a file system there: the work is measured, and not a disk that others use.
CPU time is that of the driver, its supervisors and the programs. It is measured in two ways: of a whole run, in which a
trial also bears its share of the plan, of the analysis and of starting the supervisors; and from a short run to a long
one, which leaves only what each further trial takes.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.tracker import PEERS
from benchmarks.workspaces import _in_memory, git

TRIALS, AT_ONCE, SECONDS = 320, 32, 0.2
FEW, MANY = 80, 640
COMMAND = ["sh", "-c", f"sleep {SECONDS}; echo yes"]
FILES = 1_000
WAITING, REQUESTED, WAIT_S = 32, 8, 4.0
BUSY = "while True: pass"


def _cpu_s() -> float:
    """CPU time of this process and of the children it has waited for, and so of their children."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


async def _start_all(trials: int) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def start() -> None:
        async with gate:
            process = await asyncio.create_subprocess_exec(
                *COMMAND,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            await process.communicate()

    await asyncio.gather(*(start() for _ in range(trials)))


def bare(trials: int) -> dict[str, Any]:
    """The same processes by asyncio alone."""
    cpu_s, begin = _cpu_s(), time.perf_counter()
    asyncio.run(_start_all(trials))
    return {"seconds": time.perf_counter() - begin, "cpu_s": _cpu_s() - cpu_s}


def _run(path: Path, trials: int, command: list[str], parallel: int, workspace: Any = None) -> list[dict[str, Any]]:
    from abreast import Case, Experiment

    variant = {"target": "command", "command": command, "workspace": workspace or "empty"}
    rows: list[dict[str, Any]] = (
        Experiment(
            cases=[Case(f"c{number}", f"question {number}", expected="yes") for number in range(trials)],
            variants={"only": variant},
            store=path / f"{trials}.db",
            limits={"parallel": parallel},
        )
        .run()
        .rows()
    )
    assert all(row["status"] == "ok" for row in rows)
    return rows


def short(trials: int, files: int) -> dict[str, Any]:
    """Short programs, in an empty workspace or in a checkout of some files."""
    with measure.folder() as path:
        if memory := _in_memory():
            os.environ["ABREAST_WORKSPACES"] = f"{memory}/abreast-bench-{os.getpid()}"
        workspace = _repository(path / "source", files) if files else None
        _run(path, 4, COMMAND, 4, workspace)  # what is imported when first needed
        cpu_s = _cpu_s()
        rows = _run(path, trials, COMMAND, AT_ONCE, workspace)
        cpu_s = _cpu_s() - cpu_s
    seconds = max(row["finished_at"] for row in rows) - min(row["started_at"] for row in rows)
    return {"seconds": seconds, "cpu_s": cpu_s}


def _repository(path: Path, files: int) -> dict[str, str]:
    for number in range(files):
        file = path / f"d{number % 20}" / f"f{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"def f{number}(x):\n    return x + {number}\n" * 20)
    git("init", "--quiet", "-b", "main", cwd=path)
    git("add", "-A", cwd=path)
    git("commit", "--quiet", "-m", "all of it", cwd=path)
    return {"git": str(path)}


def cheap() -> bool:
    """Efficiency and CPU time, against asyncio alone in the same minute."""
    alone = {trials: measure.in_own_process("processes", "bare", trials).extra for trials in (FEW, TRIALS, MANY)}
    empty = {trials: measure.in_own_process("processes", "short", trials, 0).extra for trials in (FEW, TRIALS, MANY)}
    checkout = measure.in_own_process("processes", "short", TRIALS, FILES).extra
    share, other = _share(empty[TRIALS]), _share(alone[TRIALS])
    further = _ms_per_further_trial(empty) - _ms_per_further_trial(alone)
    beyond = 1000 * (empty[TRIALS]["cpu_s"] - alone[TRIALS]["cpu_s"]) / TRIALS
    with_files = 1000 * (checkout["cpu_s"] - alone[TRIALS]["cpu_s"]) / TRIALS
    title = f"{TRIALS} programs of {SECONDS} s, {AT_ONCE} in flight"
    figure = f"{share:.0%} of the ideal; asyncio alone {other:.0%}"
    reached = [
        measure.line(title, figure, "≥ 90 %", share >= 0.9, value=share / other, more_is_better=True),
        measure.line(
            "CPU of a program as a trial, beyond asyncio alone", f"{beyond:.1f} ms", "≤ 3 ms", beyond <= 3, value=beyond
        ),
        measure.line(
            f"the same with a checkout of {FILES:,} files",
            f"{with_files:.1f} ms",
            "≤ 25 ms",
            with_files <= 25,
            value=with_files,
        ),
        measure.line(
            f"CPU of each further one, from {FEW} to {MANY}", f"{further:.1f} ms", "≤ 3 ms", further <= 3, value=further
        ),
    ]
    return all(reached)


def _share(measured: dict[str, Any]) -> float:
    """The ideal time of the short programs as a share of the measured one."""
    return TRIALS * SECONDS / AT_ONCE / float(measured["seconds"])


def _ms_per_further_trial(measured: dict[int, dict[str, Any]]) -> float:
    return 1000 * float(measured[MANY]["cpu_s"] - measured[FEW]["cpu_s"]) / (MANY - FEW)


def compare_with_inspect() -> bool:
    """The same programs as samples of Inspect, with its defaults: a solver that starts them by asyncio."""
    if not any(PEERS.glob("lib/python*/site-packages/inspect_ai")):
        print("skip  Inspect is not installed in .venv/peers: make bench installs it")
        return True
    script = measure.ROOT / "benchmarks" / "inspect_programs.py"
    words = [PEERS / "bin" / "python", "-P", script, str(TRIALS), str(AT_ONCE), *COMMAND]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    theirs = json.loads(done.stdout.splitlines()[-1])
    ours = measure.in_own_process("processes", "short", TRIALS, 0).extra
    figures = [
        f"{_share(run):.0%} of the ideal, {1000 * run['cpu_s'] / TRIALS:.0f} ms of CPU" for run in (ours, theirs)
    ]
    is_faster = ours["seconds"] <= theirs["seconds"]
    return measure.line(
        "the same programs with Inspect", f"{figures[1]}; ours {figures[0]}", "ours is faster", is_faster
    )


def waiting() -> dict[str, Any]:
    """Programs that wait, while another program keeps a core busy: how many were in flight on average, from when all
    were to the last start."""
    busy = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        with measure.folder() as path:
            rows = _run(path, WAITING, ["sh", "-c", f"sleep {WAIT_S}; echo yes"], REQUESTED)
    finally:
        busy.kill()
        busy.wait()
    starts = sorted(row["started_at"] for row in rows)
    begin, end = starts[REQUESTED - 1], starts[-1]
    running_s = sum(max(0.0, min(row["finished_at"], end) - max(row["started_at"], begin)) for row in rows)
    return {"mean": running_s / (end - begin)}


def all_that_wait_run() -> bool:
    mean = measure.in_own_process("processes", "waiting").extra["mean"]
    title = f"{WAITING} programs that wait {WAIT_S:g} s beside a busy one, {REQUESTED} requested"
    figure = f"{mean:.2f} in flight on average"
    return measure.line(title, figure, "≥ 7", mean >= 7, value=mean, more_is_better=True)


ALL = (cheap, compare_with_inspect, all_that_wait_run)
QUICK = (cheap,)
