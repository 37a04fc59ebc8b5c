"""Model APIs: how close a run comes to what the server could answer, and to a client that does nothing else."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from typing import Any

from benchmarks import measure, provider

REQUESTS, IN_FLIGHT, LATENCY = 2_000, 200, 0.05
IDEAL = REQUESTS / IN_FLIGHT * LATENCY
ROUNDS = 5
MODEL = "claude-haiku-4-5"


def bare(port: int) -> dict[str, Any]:
    """aiohttp alone: the same requests, the same in flight, the answer parsed and dropped."""
    import aiohttp

    url, seconds = f"http://127.0.0.1:{port}/v1/messages", 0.0

    async def everything() -> None:
        nonlocal seconds
        numbers = iter(range(REQUESTS))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def worker() -> None:
                for number in numbers:
                    body = {
                        "model": MODEL,
                        "max_tokens": 4096,
                        "messages": [{"role": "user", "content": f"question {number}"}],
                    }
                    async with session.post(url, json=body, headers={"x-api-key": "none"}) as response:
                        assert json.loads(await response.read())["content"]

            begin = time.perf_counter()
            await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
            seconds = time.perf_counter() - begin

    cpu = time.process_time()
    asyncio.run(everything())
    return {"seconds": seconds, "cpu": time.process_time() - cpu}


def target(port: int) -> dict[str, Any]:
    """The target alone, called as the engine calls it."""
    from abreast.model import Case, Trial, Variant
    from abreast.targets import build

    variant = Variant("only", "anthropic", {"model": MODEL, "base_url": f"http://127.0.0.1:{port}"})
    built, seconds = build(variant, 0, {}), 0.0

    async def everything() -> None:
        nonlocal seconds
        numbers = iter(range(REQUESTS))

        async def worker() -> None:
            for number in numbers:
                trial = Trial(number, Case(f"c{number}", f"question {number}"), variant, 0)
                answer = await built.answer(trial, built.request(trial), 1, None)  # type: ignore[arg-type]
                assert answer.text == "yes"

        begin = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
        seconds = time.perf_counter() - begin
        await built.close()

    cpu = time.process_time()
    asyncio.run(everything())
    return {"seconds": seconds, "cpu": time.process_time() - cpu}


def run(port: int) -> dict[str, Any]:
    """A whole run: planned, limited, stored and scored. Its CPU time has the plan and the analysis in it."""
    from abreast import Experiment

    cpu = time.process_time()

    with measure.folder() as path:
        result = Experiment(
            cases=[
                {"id": f"c{number}", "input": f"question {number}", "expected": "yes"} for number in range(REQUESTS)
            ],
            variants={"only": {"target": "anthropic", "model": MODEL, "base_url": f"http://127.0.0.1:{port}"}},
            scorers=["exact"],
            store=path / "results.db",
            limits={"parallel": IN_FLIGHT},
        ).run()
        cpu = time.process_time() - cpu
        rows = result.rows()
        assert all(row["status"] == "ok" for row in rows), rows[0]
        seconds = max(row["finished_at"] for row in rows) - min(row["started_at"] for row in rows)
        return {"seconds": seconds, "cpu": cpu}


def throughput() -> bool:
    """By turns, each in a process of its own; medians over several rounds."""
    rounds: dict[str, list[measure.Measured]] = {"bare": [], "target": [], "run": []}
    with provider.running(LATENCY) as port:
        for _ in range(ROUNDS):
            for name, measured in rounds.items():
                measured.append(measure.in_own_process("api", name, port))
    seconds = {name: [item.extra["seconds"] for item in measured] for name, measured in rounds.items()}
    cpu = {name: [item.extra["cpu"] for item in measured] for name, measured in rounds.items()}
    median = {name: statistics.median(values) for name, values in seconds.items()}
    per_request = {name: statistics.median(values) / REQUESTS * 1000 for name, values in cpu.items()}
    share = {
        name: statistics.median(bare / own for bare, own in zip(seconds["bare"], values, strict=True))
        for name, values in seconds.items()
    }
    figures = {
        name: f"{share[name]:.0%} of aiohttp, {IDEAL / median[name]:.0%} of the ideal, {per_request[name]:.2f} ms CPU"
        for name in rounds
    }
    setting = f"{REQUESTS:,} requests, {IN_FLIGHT} in flight, {LATENCY * 1000:.0f} ms"
    measure.line(f"aiohttp alone: {setting}", figures["bare"], "none", True)
    reached = []
    for key, name in (("target", "an API target"), ("run", "a whole run: planned, limited, stored, scored")):
        own = share[key]
        reached.append(
            measure.line(name, figures[key], "≥ 90 % of aiohttp", own >= 0.9, value=own, more_is_better=True)
        )
    return all(reached)


ALL = [throughput]
