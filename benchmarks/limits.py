"""The limits against a server in another process: close to what it takes, and hardly a call it refuses."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import deque
from typing import Any

import psutil

from abreast.store import open_store
from benchmarks import measure, server
from benchmarks.runner import write_cases

RETRIES = 50


class Client:
    """An async function that asks the server, over connections that it keeps."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def predict(self, case: Any, side: str = "only") -> str:
        from abreast.errors import RateLimited

        pair = self._free.pop() if self._free else await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = pair
        writer.write(f"{case.id} {side}\n".encode())
        reply = (await reader.readline()).decode().strip()
        self._free.append(pair)
        if reply == "429":
            raise RateLimited("the server says no")
        return "yes"

    async def predict_other(self, case: Any, side: str) -> str:
        """The same as another target."""
        return await self.predict(case, side)


def run(trials: int, variants: dict[str, Any], options: dict[str, Any], limits: dict[str, Any]) -> dict[str, Any]:
    """One run against a fresh server; what both sides saw."""
    from abreast import Case, Experiment, Variant

    with server.running(**options) as port, measure.folder() as path:
        client = Client(port)
        functions = {"": client.predict, "other": client.predict_other}
        experiment = Experiment(
            cases=[Case(f"c{number}", f"question {number}", expected="yes") for number in range(trials)],
            variants=[
                Variant(name, functions[settings.pop("target", "")], settings) for name, settings in variants.items()
            ],
            store=path / "results.db",
            limits={"retries": RETRIES, **limits},
        )
        begin = time.perf_counter()
        result = experiment.run()
        wall = time.perf_counter() - begin
        rows = result.rows()
        by_variant: dict[str, float] = {}
        for name in variants:
            mine = [row for row in rows if row["variant"] == name]
            by_variant[name] = max(row["finished_at"] for row in mine) - min(row["started_at"] for row in mine)
        saw = server.fetch_report(port)
        execution = max(row["finished_at"] for row in rows) - min(row["started_at"] for row in rows)
        return {
            "wall": wall,
            "execution": execution,
            "by_variant": by_variant,
            "failed": sum(row["status"] != "ok" for row in rows),
            "refused": saw["refused"],
            "times": saw["times"],
        }


def _adaptive_run(name: str, options: dict[str, Any], limits: dict[str, Any], ideal: float, trials: int = 1000) -> bool:
    figures = measure.in_own_process("limits", "run", trials, {"only": {}}, options, limits).extra
    share, refused = ideal / figures["execution"], figures["refused"] / trials
    reached = share >= 0.90 and refused < 0.05 and figures["failed"] == 0
    figure = f"{share:.1%} of ideal, {refused:.1%} refused, {figures['failed']} failed"
    return measure.line(name, figure, "≥ 90 %, < 5 %, 0", reached)


def capacity_20() -> bool:
    return _adaptive_run("unknown capacity 20, 0.2 s, 1,000 trials", {"capacity": 20}, {"parallel": "auto"}, 10.0)


def capacity_50() -> bool:
    limits = {"parallel": {"min": 1, "max": 100}}
    return _adaptive_run("unknown capacity 50, 100 allowed", {"capacity": 50}, limits, 4.0)


def capacity_that_dips() -> bool:
    """20, then 10 for four seconds, then 20 again: 4 s + 4 s + the rest."""
    options = {"capacity": 20, "dip_from": 4, "dip_to": 8}
    done = 4 * 100 + 4 * 50
    ideal = 8 + (1000 - done) / 100
    return _adaptive_run("capacity 20 that halves for 4 s and comes back", options, {"parallel": "auto"}, ideal)


def one_refusal() -> bool:
    options = {"latency": 0.05, "refuse_once": 1}
    figures = measure.in_own_process("limits", "run", 200, {"only": {}}, options, {"parallel": 10}).extra
    ratio = figures["execution"] / 1.0
    return measure.line("one 429 in 200 × 50 ms at 10 in flight", f"{ratio:.2f} × ideal", "< 1.5 ×", ratio < 1.5)


def a_stalled_target() -> bool:
    """Two targets at 10 in flight each; one answers nothing for ten seconds."""
    limits = {"parallel": 100, "per_variant": 10}
    variants = {"quick": {"side": "quick"}, "slow": {"target": "other", "side": "slow"}}
    calm = measure.in_own_process("limits", "run", 300, variants, {"latency": 0.05}, limits).extra
    stalled = measure.in_own_process("limits", "run", 300, variants, {"latency": 0.05, "stall": "slow"}, limits).extra
    loss = 1 - calm["by_variant"]["quick"] / stalled["by_variant"]["quick"]
    assert stalled["failed"] == 0
    figure = f"the other loses {max(0.0, loss):.1%}"
    return measure.line("one of two targets stalls for 10 s", figure, "< 2 %", loss < 0.02)


def declared_rate() -> bool:
    """600 a minute: never more in any sliding minute, and nearly all of it used."""
    limits = {"parallel": 50, "requests_per_minute": 600}
    figures = measure.in_own_process("limits", "run", 900, {"only": {}}, {"latency": 0.05}, limits).extra
    times = sorted(figures["times"])
    window: deque[float] = deque()
    most = 0
    for when in times:
        window.append(when)
        while window[0] <= when - 60.0:
            window.popleft()
        most = max(most, len(window))
    used = len([when for when in times if when <= times[0] + 60.0]) / 600
    figure = f"at most {most} in a minute, {used:.1%} used"
    return measure.line(
        "600 requests a minute declared, 900 trials", figure, "≤ 600, ≥ 98 %", most <= 600 and used >= 0.98
    )


HUNGRY = """\
import time

def predict(case):
    block = bytearray(1_000_000_000)
    for page in range(0, len(block), 4096):
        block[page] = 1
    time.sleep(0.5)
    return "yes"
"""
HUNGRY_SPEC = """\
cases: cases.jsonl
target: python:hungry:predict
variants: {one: {}, two: {}}
scorers: [exact]
limits: {parallel: 40}
"""


def hungry() -> bool:
    """40 trials of 1 GB, all of them allowed at once: the machine keeps some memory, and all of them finish."""
    with measure.folder() as path:
        (path / "hungry.py").write_text(HUNGRY)
        (path / "spec.yaml").write_text(HUNGRY_SPEC)
        write_cases(path / "cases.jsonl", 20)
        lowest = total = psutil.virtual_memory().total
        command = [sys.executable, "-m", "abreast", "run", "spec.yaml", "--quiet"]
        process = subprocess.Popen(command, cwd=path, stdout=subprocess.DEVNULL)
        while process.poll() is None:
            lowest = min(lowest, psutil.virtual_memory().available)
            time.sleep(0.05)
        with open_store(path / "results.db") as store:
            ((finished, most),) = store.rows("SELECT SUM(status = 'ok'), MAX(in_flight) FROM trials")
    figure = f"{finished} finish, {most} at once at most, {lowest / 1e9:.1f} GB of {total / 1e9:.0f} left at least"
    reached = finished == 40 and lowest > total / 40
    return measure.line("40 trials of 1 GB, 40 allowed at once", figure, "40, > 2.5 % left", reached)


ALL = (hungry, capacity_20, capacity_50, capacity_that_dips, one_refusal, a_stalled_target, declared_rate)
