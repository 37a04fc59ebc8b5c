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

    asyncio.run(everything())
    return {"seconds": seconds}


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

    asyncio.run(everything())
    return {"seconds": seconds}


def run(port: int) -> dict[str, Any]:
    """A whole run: planned, limited, stored and scored."""
    from abreast import Experiment

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
        rows = result.rows()
        assert all(row["status"] == "ok" for row in rows), rows[0]
        return {"seconds": max(row["finished_at"] for row in rows) - min(row["started_at"] for row in rows)}


def throughput() -> bool:
    """By turns, each in a process of its own; of several rounds the median."""
    seconds: dict[str, list[float]] = {"bare": [], "target": [], "run": []}
    with provider.running(LATENCY) as port:
        for _ in range(ROUNDS):
            for name, found in seconds.items():
                found.append(measure.apart("api", name, port).extra["seconds"])
    alone, of_target, of_run = (statistics.median(found) for found in seconds.values())
    told = f"{REQUESTS:,} requests, {IN_FLIGHT} in flight, {LATENCY * 1000:.0f} ms"
    ratio = statistics.median(a / b for a, b in zip(seconds["bare"], seconds["target"], strict=True))
    whole = statistics.median(a / b for a, b in zip(seconds["bare"], seconds["run"], strict=True))
    measure.line(f"aiohttp alone: {told}", f"{IDEAL / alone:.0%} of the ideal ({alone:.2f} s)", "none", True)
    share = IDEAL / of_target
    reached = [
        measure.line("an API target", f"{share:.0%} of the ideal ({of_target:.2f} s)", "60 %", share >= 0.6),
        measure.line("an API target against aiohttp alone", f"{ratio:.0%}", "85 %", ratio >= 0.85),
    ]
    of_whole = f"{IDEAL / of_run:.0%} of the ideal ({of_run:.2f} s), {whole:.0%} of aiohttp alone"
    measure.line("a whole run: planned, limited, stored, scored", of_whole, "none", True)
    return all(reached)


ALL = [throughput]
