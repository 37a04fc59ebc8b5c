"""The suite `numbers` on a target of 200 ms: what each way of running in parallel gains over one call after the other.

The transform takes a millisecond, so that the runner is measured. The gain with semantic-frame is reported as well: it
computes for about 40 ms per series while it holds the GIL, a fifth of such a call and a hundredth of a real one.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks import measure

LATENCY = 0.2
FULL, FEWER = 30, 16  # trials of each task
WAYS = {  # flags of the command line, as the configuration has them; and how many calls are in flight
    "one after the other": ((1, 1), 1),
    "--parallel": ((2, 1), 2),
    "--trial-parallelism 4": ((1, 4), 4),
    "--parallel --trial-parallelism 4": ((2, 4), 8),
}
GOAL = 0.95


def execute(workers: int, trials_at_once: int, trials: int, variant: str) -> dict[str, Any]:
    """A run; the time from the first start of a trial to the last end of one, as the rows have it."""
    from abreast.suites.numbers import BackendType, BenchmarkConfig, BenchmarkRunner

    with measure.folder() as path:
        config = BenchmarkConfig(n_trials=trials, mock_latency=LATENCY, store=str(path / "results.db"))
        config.variants = ["baseline", variant]
        config.parallel_workers, config.trial_parallelism = workers, trials_at_once
        started = time.perf_counter()
        result = BenchmarkRunner(config, backend=BackendType.MOCK).run_all()
        total = time.perf_counter() - started
        rows = result.rows()
    assert all(row["status"] in ("ok", "skipped") for row in rows)
    executed = [row for row in rows if row["status"] == "ok"]
    answers = sorted((row["case_id"], row["variant"], row["answer"], row["score"]) for row in rows)
    begun, ended = min(row["started_at"] for row in executed), max(row["finished_at"] for row in executed)
    return {"seconds": ended - begun, "whole": total, "calls": len(executed), "answers": answers}


def _all_ways(trials: int, variant: str) -> dict[str, dict[str, Any]]:
    return {
        name: measure.in_own_process("numbers", "execute", *how, trials, variant).extra
        for name, (how, _) in WAYS.items()
    }


def _gains(runs: dict[str, dict[str, Any]], suite: str, goal: float | None) -> list[bool]:
    slow, reached = runs["one after the other"], []
    for name, (_, at_once) in list(WAYS.items())[1:]:
        gained = slow["seconds"] / runs[name]["seconds"]
        figure = f"{gained:.2f} × ({gained / at_once:.1%} of {at_once} ×)"
        goal_text = "reported" if goal is None else f"≥ {goal:.0%}"
        reached.append(measure.line(f"{suite}, {name}", figure, goal_text, goal is None or gained >= goal * at_once))
    same = all(run["answers"] == slow["answers"] for run in runs.values())
    reached.append(measure.line("  the same answers and scores in all of them", str(same).lower(), "true", same))
    ideal = slow["calls"] * LATENCY
    figure = f"{slow['seconds']:.1f} s for {ideal:.1f} s of calls; {slow['whole'] - slow['seconds']:.1f} s around them"
    measure.line("  one after the other", figure, "reported", True)
    return reached


def speedups() -> bool:
    """Against the same run one after the other, each in a process of its own."""
    return all(_gains(_all_ways(FULL, "summary-statistics"), "numbers", GOAL))


def with_a_slow_transform() -> bool:
    return all(_gains(_all_ways(FEWER, "treatment"), "semantic-frame", None))


ALL = [speedups, with_a_slow_transform]
