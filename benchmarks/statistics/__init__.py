"""Simulated experiments through the analysis of a run: how often verdicts are wrong, and what they find."""

from __future__ import annotations

from benchmarks import measure
from benchmarks.statistics.simulation import simulate_all
from benchmarks.statistics.table import PAGE, insert, table, title


def verdicts() -> bool:
    """Simulate every scenario, check what is claimed, and write the table in the docs."""
    summaries = []
    for summary in simulate_all():
        summaries.append(summary)
        failed = [claim for claim, holds in summary.claims.items() if not holds]
        figure = f"{summary.wrong} % wrong" + ("" if summary.coverage is None else f", {summary.coverage} % covered")
        measure.line(title(summary.scenario)[:90], figure, ", ".join(failed) or "≤ 5 % and ≥ 95 %", not failed)
    PAGE.write_text(insert(PAGE.read_text(encoding="utf-8"), table(summaries)), encoding="utf-8")
    return all(summary.holds for summary in summaries)


ALL = [verdicts]
