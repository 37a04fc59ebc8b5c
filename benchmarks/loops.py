"""The loop of a user, for both trackers: run with the Python of either, so it imports nothing of this project but one.

`python loops.py LIBRARY MODE ENGINE CALLS` works in the current folder and prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

IN_FLIGHT = 8


@dataclass(frozen=True)
class Params:
    model_name: str
    embedding_dim: int


def predict(item: dict[str, Any], params: Params) -> dict[str, Any]:
    return {"prediction": item["text"], "ground_truth": "b", "latency": 0.1, "confidence": 0.9, "correct": False}


def slow(item: dict[str, Any], params: Params) -> dict[str, Any]:
    with Path("executed").open("a", encoding="ascii") as file:
        file.write(f"{item['id']}\n")
    time.sleep(0.02)
    return predict(item, params)


def tracker(library: str, engine: str, **options: Any) -> Any:
    if library == "abreast":
        from abreast import Tracker
    else:
        from xetrack import Tracker

        options["warnings"] = False
    return Tracker(db="benchmark.db", engine=engine, table="predictions", **options)


def one_by_one(library: str, engine: str, calls: int) -> float:
    """One thread, one tracker; until every row is on the disk."""
    calls_tracker = tracker(library, engine)
    params = Params("bert-base", 768)
    calls_tracker.track(predict, args=[{"id": -1, "text": "a"}, params])
    began = time.perf_counter()
    for number in range(calls):
        calls_tracker.track(predict, args=[{"id": number, "text": "a"}, params])
    if library == "abreast":
        calls_tracker.flush()
    return time.perf_counter() - began


def in_threads(library: str, engine: str, calls: int, function: Any = predict, **options: Any) -> float:
    """Eight threads, a tracker for each call, from a store that is not there yet; until every row is on the disk."""
    params = Params("bert-base", 768)

    def track(number: int) -> None:
        try:
            tracker(library, engine, **options).track(function, args=[{"id": number, "text": "a"}, params])
        except Exception as error:  # noqa: BLE001 - counted by the rows that are missing
            print(error, file=sys.stderr)

    _ = import_module(library).Tracker  # what a program loads at its start is no part of a call
    began = time.perf_counter()
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        list(pool.map(track, range(calls)))
    if library == "abreast":
        tracker(library, engine).flush()
    return time.perf_counter() - began


def until_killed(library: str, engine: str, calls: int) -> float:
    return in_threads(library, engine, calls, slow, cache="cache")


MODES = {"one_by_one": one_by_one, "in_threads": in_threads, "until_killed": until_killed}

if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file: its neighbours have names of libraries
    library, mode, engine, calls = sys.argv[1:]
    print(json.dumps({"seconds": MODES[mode](library, engine, int(calls))}))
