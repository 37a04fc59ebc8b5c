"""Every agent against every other, on the same cases, by the score of the verdict."""

from __future__ import annotations

from itertools import combinations

from abreast.analyse.run import Comparison, compared
from abreast.analyse.validate.variants import listed_with_and
from abreast.report.formats.json_report import adjusted, verdict
from abreast.report.sections import NamedTable, Section
from abreast.report.words.variant_figures import NOTHING
from abreast.report.words.verdict_sentence import points, trusted
from abreast.stats.intervals.population import THESE_CASES
from abreast.suites.coding_agents.report.run_table import RunTable
from abreast.text import many

LEAST = 3  # agents; for two, the verdict is enough


def section(table: RunTable) -> Section | None:
    pairs = pairs_of(table)
    if not pairs:
        return None
    data = adjusted([verdict(item, True) for item in pairs])
    return Section(
        "pairs",
        "Every agent against every other",
        tuple(_sentences(table, pairs)),
        (_table(pairs, [row["p_adjusted"] for row in data]),),
        data={"score": table.rows.primary, "pairs": data},
    )


def pairs_of(table: RunTable) -> tuple[Comparison, ...]:
    """Return all pairs, with a family-wise error rate of 5 %: the later agent against the earlier, the baseline
    first."""
    rows = table.rows
    if rows.primary is None or len(table.names) < LEAST or not len(rows.position):
        return ()
    base = table.names.index(table.baseline)
    order = [base, *(agent for agent in table.variants if agent != base)]
    return compared(rows, rows.primary, rows.score, list(combinations(order, 2)), table.analysis.margin)


def _sentences(table: RunTable, pairs: tuple[Comparison, ...]) -> list[str]:
    """Describe which agent is better than which, and why the other pairs have no such verdict."""
    better: dict[str, list[str]] = {name: [] for name in table.names}
    open_pairs = []
    for item in pairs:
        word = item.verdict.word
        if word in ("better", "worse"):
            winner, loser = (item.variant, item.baseline) if word == "better" else (item.baseline, item.variant)
            better[winner].append(loser)
        else:
            open_pairs.append(_describe_undecided(item))
    where = f" on {pairs[0].these_cases}" if table.rows.population == THESE_CASES else ""
    sentences = [f"{name} is better than {listed_with_and(losers)}{where}" for name, losers in better.items() if losers]
    return sentences + open_pairs


def _describe_undecided(item: Comparison) -> str:
    """Describe a pair: `a and b: no verdict with 7 wins and 0 losses (only 7 of 16 cases differ)`."""
    verdict, both = item.verdict, f"{item.baseline} and {item.variant}"
    if verdict.word == "no comparison" or not item.cases:
        return f"{both}: no comparison ({item.reason})"
    if verdict.word != "inconclusive":
        return f"{both}: {item.variant} is {verdict.word}"
    counts = f"{many(verdict.wins, 'win')} and {many(verdict.losses, 'loss', 'losses')} of {item.variant}"
    return f"{both}: no verdict with {counts}{f' ({item.reason})' if item.reason else ''}"


def _table(pairs: tuple[Comparison, ...], ps: list[float | None]) -> NamedTable:
    return NamedTable(
        "pairs",
        "",
        ("", "", "points", "interval", "wins", "losses", "ties", "p"),
        tuple(_row(item, p) for item, p in zip(pairs, ps, strict=True)),
        f"differences of the mean score, over the same cases; {many(len(pairs), 'pair')}, p adjusted by Holm over all "
        "of them; an interval has the level at which Holm tests it",
    )


def _row(item: Comparison, p: float | None) -> tuple[str, ...]:
    verdict, interval, sure = item.verdict, item.verdict.interval, trusted(item.verdict)
    level = "" if sure is None or sure.level == 0.95 else f" ({sure.level * 100:.4g} %)"
    return (
        f"{item.variant} against {item.baseline}",
        verdict.word,
        points(interval.estimate) if interval else NOTHING,
        f"{points(sure.low)} … {points(sure.high)}{level}" if sure else NOTHING,
        f"{verdict.wins:,}",
        f"{verdict.losses:,}",
        f"{verdict.ties:,}",
        NOTHING if p is None else f"{p:.3f}" if p >= 0.001 else "<0.001",
    )
