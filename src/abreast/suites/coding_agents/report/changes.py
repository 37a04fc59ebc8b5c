"""The changes by agents, next to the human change where it is known, and runs that changed nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from abreast.analyse.rows import Floats, mean_of_known
from abreast.report.sections import NamedTable, Section
from abreast.report.words.variant_figures import NOTHING
from abreast.scorers.change_similarity.unified import FileDiff, parse_diff
from abreast.suites.coding_agents.report import pictures
from abreast.suites.coding_agents.report.run_table import LINES, RunTable, count
from abreast.targets.workspace.git.diff import DiffCounts, count_replaced_lines
from abreast.text import many

COUNTS = tuple(DiffCounts().columns())
MOST_LISTED = 20  # cases and agents without changes that are listed
_NOTE = (
    "renamed files may be edited too; binary files are counted in the other rows as well; modified lines are added "
    "lines that replace deleted ones"
)


def section(table: RunTable) -> Section | None:
    """Build the section; None if no changes are known, or if there were no files and no agent created one."""
    file_counts = table.files_changed[table.rows.ok & ~np.isnan(table.files_changed)]
    if not len(file_counts) or (not table.in_repository and not file_counts.any()):
        return None
    by_agent = {
        name: tuple(_mean_over(table, name, table.of_cases(agent, table.amount(name))) for agent in table.variants)
        for name in COUNTS
    }
    people, unchanged = people_of(table), list(unchanged_of(table))
    means = None if people is None else {name: _mean_over(table, name, values) for name, values in people.items()}
    return Section(
        "changes",
        "What was changed",
        sentences=(_without_changes(table, unchanged),),
        tables=(_table(table, by_agent, means),),
        pictures=pictures.of_metrics(table, table.metric(LINES)),
        data={
            "counts": {name: table.by_variant(values) for name, values in by_agent.items()},
            "people": means,
            "unchanged": unchanged,
        },
    )


def _mean_over(table: RunTable, name: str, cases: Floats) -> float | None:
    """Return the mean over the cases that all agents completed; if there are none, over all cases."""
    shared = table.shared(table.amount(name))
    return mean_of_known(cases[shared] if shared.any() else cases)


def people_of(table: RunTable) -> dict[str, Floats] | None:
    """Return the counts of the human change by case; None if no case has one."""
    counts = {name: np.full(table.rows.planned_cases, np.nan) for name in COUNTS}
    for case, text in table.rows.case_column("expected").items():
        expected = json.loads(text) if text else None
        if isinstance(expected, Mapping) and isinstance(expected.get("diff"), str):
            for name, number in counted(parse_diff(expected["diff"])).columns().items():
                counts[name][case] = np.nan if number is None else number
    return None if np.isnan(counts["files_changed"]).all() else counts


def counted(files: list[FileDiff]) -> DiffCounts:
    counts = DiffCounts(lines_modified=0)
    for file in files:
        is_added, is_renamed = file.old is None or file.copied, file.old != file.new
        kind = "added" if is_added else "deleted" if file.new is None else "renamed" if is_renamed else "modified"
        setattr(counts, f"files_{kind}", getattr(counts, f"files_{kind}") + 1)
        counts.files_binary += file.binary
        if file.left_out is not None:
            counts.lines_added += file.left_out[0]
            counts.lines_deleted += file.left_out[1]
            counts.lines_modified = None
        for hunk in file.hunks:
            signs = [sign for sign, _ in hunk.lines]
            counts.lines_added += signs.count("+")
            counts.lines_deleted += signs.count("-")
            if counts.lines_modified is not None:
                counts.lines_modified += count_replaced_lines(signs)
    return counts


def unchanged_of(table: RunTable) -> Iterator[dict[str, Any]]:
    """Cases and agents with completed runs that changed nothing."""
    rows, completed = table.rows, table.rows.ok & ~np.isnan(table.files_changed)
    totals, unchanged = (
        Counter(zip(rows.case[mask].tolist(), rows.variant[mask].tolist(), strict=True))
        for mask in (completed, completed & (table.files_changed == 0))
    )
    for (case, agent), runs in sorted(unchanged.items()):
        yield {"case": rows.cases[case].id, "agent": table.names[agent], "runs": runs, "of": totals[case, agent]}


def _without_changes(table: RunTable, unchanged: list[dict[str, Any]]) -> str:
    """Describe runs: `4 runs completed without changing anything: silent at greet.md (3 of 3), count.md (1 of 3)`."""
    if not unchanged:
        return "every completed run changed something"
    by_agent: dict[str, list[str]] = {}
    for row in unchanged[:MOST_LISTED]:
        runs = f" ({row['runs']:,} of {row['of']:,})" if table.rows.repeats > 1 else ""
        by_agent.setdefault(row["agent"], []).append(f"{row['case']}{runs}")
    examples = "; ".join(f"{agent} at {', '.join(cases)}" for agent, cases in by_agent.items())
    more = f"; and {len(unchanged) - MOST_LISTED:,} more" if len(unchanged) > MOST_LISTED else ""
    total = many(sum(row["runs"] for row in unchanged), "run")
    return f"{total} completed without changing anything: {examples}{more}"


def _table(table: RunTable, agents: dict[str, tuple[float | None, ...]], people: dict[str, Any] | None) -> NamedTable:
    columns = {name: (*values, *([] if people is None else [people[name]])) for name, values in agents.items()}
    rows = tuple(
        (name.replace("_", " "), *(NOTHING if value is None else count(value) for value in values))
        for name, values in columns.items()
    )
    head = ("", *table.names, *(["people"] if people is not None else []))
    return NamedTable("changes", "", head, rows, f"means over completed runs; {_NOTE}", aside=True)
