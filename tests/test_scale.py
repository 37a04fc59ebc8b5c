"""The simulation behind docs/explanation/scaling.md follows the scheduler and the Ray engine."""

from __future__ import annotations

from benchmarks import measure


def test_a_whole_run_stores_every_trial_of_simulated_nodes() -> None:
    measured = measure.in_own_process("scale", "drive", 20, 40, 200, 0.05).extra
    assert measured["cpu_ms"] > 0


def test_one_variant_has_at_most_5000_trials_in_flight() -> None:
    assert measure.in_own_process("scale", "schedule", 6_000, 2, 1).extra["most"] == 5_000
    assert measure.in_own_process("scale", "schedule", 6_000, 2, 2).extra["most"] == 6_000
