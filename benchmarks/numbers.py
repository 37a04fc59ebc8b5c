"""The suite `numbers` on a target of 200 ms: what each way of running in parallel gains over one call after the other."""

from __future__ import annotations

import time
from typing import Any

from benchmarks import measure

LATENCY = 0.2
WAYS = {  # flags of the command line, as the configuration has them; and how many calls are in flight
    "one after the other": ((1, 1), 1),
    "--parallel": ((2, 1), 2),
    "--trial-parallelism 4": ((1, 4), 4),
    "--parallel --trial-parallelism 4": ((2, 4), 8),
}
GOAL = 0.95


def execute(workers: int, trials_at_once: int, trials: int) -> dict[str, Any]:
    """A quick run; the time from the first start of a trial to the last end of one, as the rows have it."""
    from abreast.suites.numbers import BackendType, BenchmarkConfig, BenchmarkRunner

    with measure.folder() as path:
        config = BenchmarkConfig(n_trials=trials, mock_latency=LATENCY, store=str(path / "results.db"))
        config.parallel_workers, config.trial_parallelism = workers, trials_at_once
        started = time.perf_counter()
        result = BenchmarkRunner(config, backend=BackendType.MOCK).run_all()
        whole = time.perf_counter() - started
        rows = result.rows()
    assert all(row["status"] in ("ok", "skipped") for row in rows)
    called = [row for row in rows if row["status"] == "ok"]
    answers = sorted((row["case_id"], row["variant"], row["answer"], row["score"]) for row in rows)
    begun, ended = min(row["started_at"] for row in called), max(row["finished_at"] for row in called)
    return {"seconds": ended - begun, "whole": whole, "calls": len(called), "answers": answers}


def speedups() -> bool:
    """Against the same run one after the other, in one process after the other."""
    found = {name: measure.apart("numbers", "execute", *how, 8).extra for name, (how, _) in WAYS.items()}
    slow = found["one after the other"]
    reached = []
    for name, (_, at_once) in list(WAYS.items())[1:]:
        gained = slow["seconds"] / found[name]["seconds"]
        figure = f"{gained:.2f} × ({gained / at_once:.0%} of {at_once} ×)"
        reached.append(measure.line(f"numbers, {name}", figure, f"≥ {GOAL:.0%}", gained >= GOAL * at_once))
    same = all(each["answers"] == slow["answers"] for each in found.values())
    reached.append(measure.line("the same answers and scores in all of them", str(same).lower(), "true", same))
    ideal = slow["calls"] * LATENCY
    figure = f"{slow['seconds']:.1f} s for {ideal:.1f} s of calls; {slow['whole'] - slow['seconds']:.1f} s around them"
    measure.line("  one after the other", figure, "told", True)
    return all(reached)


ALL = [speedups]
