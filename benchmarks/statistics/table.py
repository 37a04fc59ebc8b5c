"""The table of simulated scenarios in docs/explanation/statistics.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.statistics.scenarios import Scenario
from benchmarks.statistics.simulation import SEED, Summary

PAGE = Path(__file__).parents[2] / "docs/explanation/statistics.md"
BEGIN, END = "<!-- simulations: python -m benchmarks.statistics -->\n", "<!-- end of simulations -->\n"
COLUMNS = ("situation", "experiments", "wrong", "covered", "found", "cases saved", "taken back")


def table(summaries: Sequence[Summary]) -> str:
    """One row per scenario, in percent with standard errors."""
    lines = [f"Percent of experiments ± standard error; seed {SEED}.", "", _row(COLUMNS), _row(["---"] * len(COLUMNS))]
    return "\n".join([*lines, *(_row(_cells(summary)) for summary in summaries)]) + "\n"


def title(scenario: Scenario) -> str:
    return f"{scenario.topic}: {scenario.name}"


def _cells(summary: Summary) -> list[str]:
    return [
        title(summary.scenario),
        f"{summary.experiments:,}",
        str(summary.wrong),
        *("" if rate is None else str(rate) for rate in (summary.coverage, summary.right)),
        f"{summary.saved * 100:.0f}" if summary.scenario.until_decided else "",
        f"{summary.demoted.share * 100:.0f}" if summary.demoted.share else "",
    ]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def insert(text: str, content: str) -> str:
    """The page with this content between the markers."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{content}{END}{rest.partition(END)[2]}"


def rows(text: str) -> list[list[str]]:
    """The cells of the table in a page."""
    lines = text.partition(BEGIN)[2].partition(END)[0].splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
