"""Every agent against every other, on the same cases, by the score of the verdict."""

from __future__ import annotations

from itertools import combinations

from abreast.analyse.run import Comparison, compared
from abreast.report.figures import NOTHING
from abreast.report.objects import adjusted, verdict
from abreast.report.sections import NamedTable, Section
from abreast.report.sentence import many, points, trusted
from abreast.suites.coding_agents.report.words import one_of
from abreast.suites.coding_agents.report.work import Work

LEAST = 3  # agents; of two the verdict says it


def section(work: Work) -> Section | None:
    pairs = pairs_of(work)
    if not pairs:
        return None
    data = adjusted([verdict(item, True) for item in pairs])
    return Section(
        "pairs",
        "Every agent against every other",
        tuple(_sentences(work, pairs)),
        (_table(pairs, [row["p_adjusted"] for row in data]),),
        data={"score": work.rows.primary, "pairs": data},
    )


def pairs_of(work: Work) -> tuple[Comparison, ...]:
    """All of them, together wrong in one of twenty; the later agent against the earlier, the baseline first."""
    rows = work.rows
    if rows.primary is None or len(work.names) < LEAST or not len(rows.position):
        return ()
    base = work.names.index(work.analysis.run["baseline"])
    order = [base, *(one for one in work.agents if one != base)]
    return compared(rows, rows.primary, rows.score, list(combinations(order, 2)), work.analysis.margin)


def _sentences(work: Work, pairs: tuple[Comparison, ...]) -> list[str]:
    """Who is better than whom, and who cannot be told apart."""
    better: dict[str, list[str]] = {name: [] for name in work.names}
    apart: dict[str, list[str]] = {}
    for item in pairs:
        word = item.verdict.word
        if word in ("better", "worse"):
            one, other = (item.variant, item.baseline) if word == "better" else (item.baseline, item.variant)
            better[one].append(other)
        else:
            why, detail = _why(item)
            told = f" ({detail})" if detail else "" if word == "inconclusive" else f" ({word})"
            apart.setdefault(why, []).append(f"{item.baseline} and {item.variant}{told}")
    found = [f"{name} is better than {one_of(others, 'and')}" for name, others in better.items() if others]
    found += [f"cannot be told apart{why}: {'; '.join(each)}" for why, each in apart.items()]
    return found


def _why(item: Comparison) -> tuple[str, str]:
    """Why there is no verdict at all, and of how many cases."""
    if not item.cases:
        return ", for there is nothing that both have a score of", ""
    if item.verdict.word == "no comparison":
        return ", no comparison", item.verdict.reason
    reason, _, detail = item.verdict.reason.partition(": ")
    return (f", {reason}" if reason else ""), detail.split(",")[0]


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
    found, interval, sure = item.verdict, item.verdict.interval, trusted(item.verdict)
    level = "" if sure is None or sure.level == 0.95 else f" ({sure.level * 100:.4g} %)"
    return (
        f"{item.variant} against {item.baseline}",
        found.word,
        points(interval.estimate) if interval else NOTHING,
        f"{points(sure.low)} … {points(sure.high)}{level}" if sure else NOTHING,
        f"{found.wins:,}",
        f"{found.losses:,}",
        f"{found.ties:,}",
        NOTHING if p is None else f"{p:.3f}" if p >= 0.001 else "<0.001",
    )
