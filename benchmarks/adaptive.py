"""`parallel: auto` with an API target, against HTTP servers that are limited in various ways."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks import congested, measure

MODEL = "claude-haiku-4-5"
RETRIES = 50


def run(trials: int, parallel: Any, options: dict[str, Any]) -> dict[str, Any]:
    """One run against a fresh server; what both sides saw."""
    from abreast import Experiment

    with congested.running(**options) as port, measure.folder() as path:
        result = Experiment(
            cases=[{"id": f"c{number}", "input": f"question {number}", "expected": "yes"} for number in range(trials)],
            variants={"only": {"target": "anthropic", "model": MODEL, "base_url": f"http://127.0.0.1:{port}"}},
            scorers=["exact"],
            store=path / "results.db",
            limits={"parallel": parallel, "retries": RETRIES},
        ).run()
        rows, seen = result.rows(), congested.seen(port)
    return {
        "execution": max(row["finished_at"] for row in rows) - min(row["started_at"] for row in rows),
        "failed": sum(row["status"] != "ok" for row in rows),
        "latency": statistics.mean(seen["latencies"]),
        "refused": seen["refused"] / trials,
        "most": seen["most"],
    }


def measured(trials: int, parallel: Any, **options: Any) -> dict[str, Any]:
    return measure.apart("adaptive", "run", trials, parallel, options).extra


def report(name: str, share: float, least: float, found: dict[str, Any], most_refused: float = 1.0) -> bool:
    """Print one line: the share of the best possible speed, refusals and failures."""
    refused = found["refused"]
    goal = f"≥ {least:.0%}" + (f", < {most_refused:.0%}" if most_refused < 1 else "") + ", 0"
    figure = f"{share:.1%}, {refused:.1%} refused, {found['failed']} failed"
    reached = share >= least and refused < most_refused and found["failed"] == 0
    return measure.line(name, figure, goal, reached, value=share, more_is_better=True)


def against_64(name: str, least: float, trials: int, **options: Any) -> bool:
    """Compare with 64 in flight, which is the most that `auto` tries."""
    fixed, auto = measured(trials, 64, **options), measured(trials, "auto", **options)
    return report(name, fixed["execution"] / auto["execution"], least, auto)


def random_refusals() -> bool:
    return against_64("auto: 5 % random 529, of fixed 64", 0.90, 2_000, background=0.05)


def varying_answers() -> bool:
    return against_64("auto: lognormal latency (σ 1), of fixed 64", 0.95, 3_000, sigma=1.0)


def queueing() -> bool:
    """A server that answers 50 a second, however many wait."""
    auto = measured(1_000, "auto", knee=10)
    share, rise = 20.0 / auto["execution"], auto["latency"] / 0.2
    figure = f"{share:.1%} of the throughput, latency × {rise:.2f}"
    reached = share >= 0.95 and rise <= 1.5 and auto["failed"] == 0
    return measure.line(
        "auto: latency grows past 10 in flight", figure, "≥ 95 %, ≤ × 1.5", reached, value=rise, more_is_better=False
    )


def halving() -> bool:
    """40 at once, 20 from the fifth second on, 10 from the tenth: 1,000 + 500 + 500 answers in 20 s."""
    auto = measured(2_000, "auto", capacity=[[0, 40], [5, 20], [10, 10]])
    return report("auto: capacity 40, then 20, then 10", 20.0 / auto["execution"], 0.92, auto, 0.05)


def late_refusals() -> bool:
    auto = measured(2_000, "auto", capacity=[[0, 20]], refused_after=0.5)
    return report("auto: capacity 20, refusals after 0.5 s", 20.0 / auto["execution"], 0.95, auto, 0.04)


def hidden_capacity() -> bool:
    auto = measured(1_000, "auto", capacity=[[0, 20]])
    return report("auto: capacity 20", 10.0 / auto["execution"], 0.95, auto, 0.05)


def half_of_what_is_allowed() -> bool:
    auto = measured(2_000, {"min": 1, "max": 100}, capacity=[[0, 50]])
    return report("auto: capacity 50, 100 allowed", 8.0 / auto["execution"], 0.90, auto, 0.05)


def dip() -> bool:
    auto = measured(1_000, "auto", capacity=[[0, 20], [4, 10], [8, 20]])
    return report("auto: capacity 20, 10 for 4 s, 20 again", 12.0 / auto["execution"], 0.90, auto, 0.05)


def announced() -> bool:
    """Limits that headers announce: 50 requests a minute, and 8 at once."""
    rate = measured(60, "auto", latency=0.1, per_minute=50)
    at_once = measured(400, "auto", announced_capacity=8)
    share = 400 / 8 * 0.2 / at_once["execution"]
    broken = round(rate["refused"] * 60), round(at_once["refused"] * 400)
    figure = f"{broken[0]} and {broken[1]} requests too many, {share:.0%} of 8 at once used"
    return measure.line("auto: announced limits, 50 a minute or 8 at once", figure, "0, 0", broken == (0, 0))


ALL = (
    random_refusals,
    varying_answers,
    queueing,
    halving,
    late_refusals,
    hidden_capacity,
    half_of_what_is_allowed,
    dip,
    announced,
)
