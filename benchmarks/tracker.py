"""People who own their loop: calls tracked, in both engines, against xetrack in the same run on the same disk."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import measure
from benchmarks.loops import IN_FLIGHT

LOOPS = Path(__file__).with_name("loops.py")
PEERS = measure.ROOT / ".venv" / "peers"
ROUNDS = 3


def _environment(folder: Path) -> dict[str, str]:
    """xetrack's DuckDB wants an extension from the network; it finds the one from the package index in this home."""
    (extension,) = PEERS.glob(
        "lib/python*/site-packages/duckdb_extension_sqlite_scanner/extensions/*/*.duckdb_extension"
    )
    for platform in ("linux_amd64", "linux_arm64", "osx_arm64"):
        home = folder / "home" / ".duckdb" / "extensions" / extension.parent.name / platform
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(extension, home)
    return {**os.environ, "HOME": str(folder / "home")}


def _loop(library: str, mode: str, engine: str, calls: int) -> tuple[float, int]:
    """Calls in a second, and how many rows are missing afterwards."""
    python = sys.executable if library == "abreast" else str(PEERS / "bin" / "python")
    with measure.folder() as path:
        environment = _environment(path) if library == "xetrack" else dict(os.environ)
        done = subprocess.run(
            [python, LOOPS, library, mode, engine, str(calls)],
            cwd=path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if library == "xetrack" else None,
            text=True,
            check=True,
        )
        seconds = json.loads(done.stdout.splitlines()[-1])["seconds"]
        extra = 1 if mode == "one_by_one" else 0  # the first call is not measured
        return calls / seconds, calls + extra - _rows(library, path, engine)


def _rows(library: str, path: Path, engine: str) -> int:
    if library == "abreast" and engine == "duckdb":
        import duckdb  # the file itself, as any client sees it

        with duckdb.connect(str(path / "benchmark.db"), read_only=True) as client:
            return int(client.execute("SELECT COUNT(*) FROM predictions").fetchall()[0][0])
    with sqlite3.connect(path / "benchmark.db") as connection:
        name = "predictions" if library == "xetrack" else "tracked_predictions"
        return int(connection.execute(f"SELECT COUNT(*) FROM {name}").fetchall()[0][0])


def one_thread() -> bool:
    ours, theirs, lost = [], [], 0
    for _ in range(ROUNDS):  # by turns: the disk has its moods
        rate, missing = _loop("abreast", "one_by_one", "sqlite", 3_000)
        ours.append(rate)
        lost += missing
        theirs.append(_loop("xetrack", "one_by_one", "sqlite", 300)[0])
    ratios = [own / other for own, other in zip(ours, theirs, strict=True)]
    figure = f"{median(ours):,.0f} calls/s, {median(ratios):.1f} × xetrack's {median(theirs):,.0f}, {lost} lost"
    return measure.line(
        "track, SQLite, one thread, durable", figure, ">= 5 ×, 0 lost", median(ratios) >= 5 and not lost
    )


def many_threads() -> bool:
    rates, lost = [], 0
    for _ in range(ROUNDS):
        rate, missing = _loop("abreast", "in_threads", "sqlite", 4_000)
        rates.append(rate)
        lost += missing
    figure = f"{median(rates):,.0f} calls/s, {lost} lost"
    reached = median(rates) >= 1_500 and not lost
    return measure.line("8 threads, a Tracker a call, SQLite, durable", figure, ">= 1,500 calls/s, 0 lost", reached)


def many_threads_duckdb() -> bool:
    ours, missing = _loop("abreast", "in_threads", "duckdb", 4_000)
    theirs, theirs_missing = _loop("xetrack", "in_threads", "duckdb", 16)
    other = f"xetrack's {theirs:.1f} with {theirs_missing} of 16 lost"
    figure = f"{ours:,.0f} calls/s, {missing} lost; {ours / theirs:,.0f} × {other}"
    reached = ours >= 100 * theirs and not missing
    return measure.line("8 threads, a Tracker a call, DuckDB", figure, ">= 100 ×, 0 lost", reached)


def restart() -> bool:
    worst = 0
    for engine in ("sqlite", "duckdb"):
        with measure.folder() as path:
            words = [sys.executable, LOOPS, "abreast", "until_killed", engine, "400"]
            executed = path / "executed"
            process = subprocess.Popen(words, cwd=path, stdout=subprocess.DEVNULL)
            while not executed.is_file() or executed.read_text().count("\n") < 150:
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            before = executed.read_text().split()
            subprocess.run(words, cwd=path, stdout=subprocess.DEVNULL, check=True)
            repeated = [item for item in executed.read_text().split()[len(before) :] if item in set(before)]
            worst = max(worst, len(repeated))
    figure = f"{worst} executed again, {IN_FLIGHT} in flight"
    return measure.line("restart after kill -9, both engines", figure, "<= in flight", worst <= IN_FLIGHT)


def read_large(rows: int) -> dict[str, Any]:
    from abreast import Reader, Tracker

    with measure.folder() as path:
        values = [
            {
                "x": n,
                "y": n / 3,
                "name": f"model-{n % 7}",
                "ok": n % 2 == 0,
                "a": n % 5,
                "b": n * 0.1,
                "text": f"answer {n}",
            }
            for n in range(rows)
        ]
        Tracker(path / "results.db", params={"p": 1, "q": "two"}).log_batch(values)
        reader = Reader(path / "results.db")
        reader.head()  # pandas is loaded
        times = []
        for _ in range(3):
            began = time.perf_counter()
            frame = reader.to_df()
            times.append(time.perf_counter() - began)
        assert frame.shape[0] == rows
        return {"seconds": min(times), "columns": frame.shape[1]}


def reading() -> bool:
    measured = measure.in_own_process("tracker", "read_large", 100_000)
    seconds, columns = measured.extra["seconds"], measured.extra["columns"]
    return measure.line(f"Reader.to_df, 100,000 × {columns} rows", f"{seconds:.2f} s", "< 0.5 s", seconds < 0.5)


ALL = (one_thread, many_threads, many_threads_duckdb, restart, reading)
