"""Programs as trials: what each costs beyond its process, and whether those that wait all run at the same time.

Folders of trials are in memory if there is a file system there: the work is measured, and not a disk that others use.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.workspaces import _in_memory, git

TRIALS, AT_ONCE, SECONDS = 320, 32, 0.2
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


def bare() -> dict[str, Any]:
    """The same processes by asyncio alone."""
    cpu_s, begin = _cpu_s(), time.perf_counter()
    asyncio.run(_start_all(TRIALS))
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


def short(files: int) -> dict[str, Any]:
    """Short programs, in an empty workspace or in a checkout of so many files."""
    with measure.folder() as path:
        if place := _in_memory():
            os.environ["ABREAST_WORKSPACES"] = f"{place}/abreast-bench-{os.getpid()}"
        workspace = _repository(path / "source", files) if files else None
        _run(path, 4, COMMAND, 4, workspace)  # what is imported when first needed
        cpu_s = _cpu_s()
        rows = _run(path, TRIALS, COMMAND, AT_ONCE, workspace)
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
    alone = measure.apart("processes", "bare").extra
    empty = measure.apart("processes", "short", 0).extra
    checkout = measure.apart("processes", "short", FILES).extra
    ideal = TRIALS * SECONDS / AT_ONCE
    share, other = ideal / empty["seconds"], ideal / alone["seconds"]
    beyond = 1000 * (empty["cpu_s"] - alone["cpu_s"]) / TRIALS
    with_files = 1000 * (checkout["cpu_s"] - alone["cpu_s"]) / TRIALS
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
    ]
    return all(reached)


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
    flown = sum(max(0.0, min(row["finished_at"], end) - max(row["started_at"], begin)) for row in rows)
    return {"mean": flown / (end - begin)}


def all_that_wait_run() -> bool:
    mean = measure.apart("processes", "waiting").extra["mean"]
    title = f"{WAITING} programs that wait {WAIT_S:g} s beside a busy one, {REQUESTED} requested"
    figure = f"{mean:.2f} in flight on average"
    return measure.line(title, figure, "≥ 7", mean >= 7, value=mean, more_is_better=True)


ALL = (cheap, all_that_wait_run)
QUICK = (cheap,)
