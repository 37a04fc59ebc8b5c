"""What everything is measured against: a bare asyncio loop that appends a JSON line a trial and flushes it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path


async def loop(trials: int, in_flight: int, latency: float, path: Path) -> None:
    """Run so many trials with so many in flight; the caller measures."""
    numbers = iter(range(trials))
    with path.open("a", encoding="utf-8") as file:

        async def worker() -> None:
            for number in numbers:
                if latency:
                    await asyncio.sleep(latency)
                else:
                    await asyncio.sleep(0)
                row = {
                    "case_id": f"c{number}",
                    "variant": "a",
                    "repeat": 0,
                    "status": "ok",
                    "answer": "yes",
                    "score": 1.0,
                }
                file.write(json.dumps(row) + "\n")
                file.flush()

        await asyncio.gather(*(worker() for _ in range(in_flight)))
