"""Logs of other tools, larger than memory should be: 100,000 samples in 1 GB, in each format."""

from __future__ import annotations

import json
import resource
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import measure

SAMPLES = 100_000
SIZE = 10_000  # bytes of a sample
GOAL_MB = 300


def spec() -> dict[str, Any]:
    return {
        "created": "2026-11-01T10:00:00+00:00",
        "task": "large",
        "dataset": {"name": "large", "samples": SAMPLES},
        "model": "canned/model",
        "config": {"epochs": 1},
    }


def samples(count: int) -> Iterator[dict[str, Any]]:
    """Samples as Inspect writes them; most of their size is events, as in logs of agents."""
    events = [{"event": "model", "text": "word " * (SIZE // 20)} for _ in range(3)]
    for number in range(count):
        answer = "right" if number % 3 else "wrong"
        reply = {"role": "assistant", "content": answer}
        yield {
            "id": f"sample-{number}",
            "epoch": 1,
            "input": f"question {number}: " + "context " * (SIZE // 40),
            "target": "right",
            "messages": [{"role": "user", "content": f"question {number}"}, reply],
            "output": {"model": "canned/model", "choices": [{"message": reply}], "completion": answer},
            "scores": {"match": {"value": "C" if number % 3 else "I", "explanation": answer}},
            "metadata": {"kind": "odd" if number % 2 else "even"},
            "model_usage": {"canned/model": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}},
            "started_at": "2026-11-01T10:00:00+00:00",
            "total_time": 1.5,
            "working_time": 1.0,
            "events": events,
        }


HEADER = {"version": 2, "status": "success", "eval": spec(), "plan": {}, "results": {}, "stats": {}}


def write_json(path: Path, count: int) -> None:
    with path.open("w") as file:
        file.write(json.dumps(HEADER)[:-1] + ', "samples": [')
        for number, sample in enumerate(samples(count)):
            file.write((", " if number else "") + json.dumps(sample))
        file.write("]}")


def write_eval(path: Path, count: int) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for sample in samples(count):
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
        archive.writestr("header.json", json.dumps(HEADER))


def write_lines(path: Path, count: int) -> None:
    with path.open("w") as file:
        for number in range(count):
            row = {"case": f"c{number}", "variant": "a", "input": "x" * SIZE, "answer": "y", "score": number % 2}
            file.write(json.dumps(row) + "\n")


def write_junit(path: Path, count: int) -> None:
    with path.open("w") as file:
        file.write('<testsuites><testsuite name="pytest">')
        for number in range(count):
            failure = "" if number % 3 else f'<failure message="assert {number}">{"line " * (SIZE // 5)}</failure>'
            file.write(f'<testcase classname="tests" name="test_{number}" time="0.1">{failure}</testcase>')
        file.write("</testsuite></testsuites>")


WRITERS: dict[str, Callable[[Path, int], None]] = {
    "large.json": write_json,
    "large.eval": write_eval,
    "large.jsonl": write_lines,
    "large.xml": write_junit,
}


def import_one(path: str) -> dict[str, Any]:
    from abreast.importers.importing import import_log
    from abreast.store import open_store

    with open_store(Path(path).with_suffix(".db")) as store:
        imported = import_log(store, Path(path))
    return {"trials": imported.trials, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000}


def large_logs() -> bool:
    reached = []
    for name, write in WRITERS.items():
        with measure.folder() as folder:
            path = folder / name
            write(path, SAMPLES)
            size = path.stat().st_size
            measured = measure.in_own_process("importing", "import_one", str(path))
            peak, rate = measured.extra["peak_mb"], SAMPLES / measured.wall
            figure = f"{size / 1e6:,.0f} MB: {peak:.0f} MB of memory, {measured.wall:.0f} s, {rate:,.0f} trials/s"
            is_reached = peak < GOAL_MB and measured.extra["trials"] == SAMPLES
            title = f"import of {name}, 100,000 trials"
            reached.append(measure.line(title, figure, f"< {GOAL_MB} MB", is_reached, value=measured.wall))
    return all(reached)


ALL = [large_logs]
