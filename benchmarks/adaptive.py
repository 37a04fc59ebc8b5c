"""`parallel: auto` with an API target, against HTTP servers that are limited in various ways."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks import congested, measure

MODEL = "claude-haiku-4-5"
RETRIES = 50
LATENCY = 0.2  # of the server, in seconds


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
        rows, figures = result.rows(), congested.fetch_stats(port)
    return {
        "execution": max(row["finished_at"] for row in rows) - min(row["started_at"] for row in rows),
        "failed": sum(row["status"] != "ok" for row in rows),
        "latency": statistics.mean(figures["latencies"]),
        "refused": figures["refused"] / trials,
        "most": figures["most"],
    }


def measured(trials: int, parallel: Any, **options: Any) -> dict[str, Any]:
    return measure.in_own_process("adaptive", "run", trials, parallel, options).extra


def report(
    name: str, share: float, least: float, auto: dict[str, Any], most_refused: float = 1.0, reference: str = ""
) -> bool:
    """Print one line: the share of the best possible speed, refusals and failures."""
    refused = auto["refused"]
    goal = f"≥ {least:.0%}" + (f", < {most_refused:.0%}" if most_refused < 1 else "") + ", 0"
    figure = f"{share:.1%}{reference}, {refused:.1%} refused, {auto['failed']} failed"
    reached = share >= least and refused < most_refused and auto["failed"] == 0
    return measure.line(name, figure, goal, reached, value=share, more_is_better=True)


def against_capacity(
    name: str, least: float, most_refused: float, phases: list[tuple[int, int]], parallel: Any = "auto", **options: Any
) -> bool:
    """Compare with what the server could answer, and with fixed limits at its capacity on the same machine.

    A phase is a capacity and how many answers it allows for; the server goes to the next when these could be ready.
    """
    seconds = [trials * LATENCY / capacity for capacity, trials in phases]
    begins = [sum(seconds[:number]) for number in range(len(phases))]
    capacities = [[begin, capacity] for begin, (capacity, _) in zip(begins, phases, strict=True)]
    auto = measured(sum(trials for _, trials in phases), parallel, capacity=capacities, **options)
    fixed = sum(measured(trials, capacity, capacity=[[0, capacity]])["execution"] for capacity, trials in phases)
    ideal = sum(seconds)
    return report(name, ideal / auto["execution"], least, auto, most_refused, f" (fixed limit: {ideal / fixed:.1%})")


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
    phases = [(40, 1_000), (20, 500), (10, 500)]
    return against_capacity("auto: capacity 40, then 20, then 10", 0.92, 0.05, phases)


def late_refusals() -> bool:
    return against_capacity("auto: capacity 20, refusals after 0.5 s", 0.95, 0.04, [(20, 2_000)], refused_after=0.5)


def hidden_capacity() -> bool:
    return against_capacity("auto: capacity 20", 0.95, 0.05, [(20, 1_000)])


def half_of_what_is_allowed() -> bool:
    return against_capacity("auto: capacity 50, 100 allowed", 0.90, 0.05, [(50, 2_000)], {"min": 1, "max": 100})


def dip() -> bool:
    phases = [(20, 400), (10, 200), (20, 400)]
    return against_capacity("auto: capacity 20, 10 for 4 s, 20 again", 0.90, 0.05, phases)


def announced() -> bool:
    """Limits that headers announce: requests in a window, few of them and more, and 8 at once."""
    few = measured(9, "auto", per_window=3, window=2.0)
    more = measured(50, "auto", per_window=10, window=2.0)
    anthropic = measured(30, "auto", per_window=10, window=5.0, style="anthropic")
    at_once = measured(400, "auto", announced_capacity=8)
    broken = [round(run["refused"] * trials) for run, trials in ((few, 9), (more, 50), (anthropic, 30), (at_once, 400))]
    figure = f"{', '.join(map(str, broken))} requests too many"
    return measure.line("auto: announced limits, 3 or 10 in a window, 8 at once", figure, "0", not any(broken))


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
