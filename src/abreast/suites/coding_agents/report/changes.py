"""What agents changed, beside what people did where that is known, and the runs that changed nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from abreast.analyse.rows import Floats, mean_of_known
from abreast.report.sections import NamedTable, Section
from abreast.report.words.variant_figures import NOTHING
from abreast.scorers.change_similarity.unified import FileDiff, parse_diff
from abreast.suites.coding_agents.report import pictures
from abreast.suites.coding_agents.report.words import count
from abreast.suites.coding_agents.report.work import LINES, Work
from abreast.targets.workspace.git.diff import Counts, replaced
from abreast.text import many

COUNTS = tuple(Counts().columns())
SHOWN = 20  # cases and agents of runs without a change that are named
_EXPLAINED = (
    "renamed: whether or not edited besides; binary files are among the others; lines modified are those of "
    "the added ones that stand in the place of deleted ones"
)


class Unchanged(NamedTuple):
    case: str
    agent: str
    runs: int
    of: int  # that ended well


def section(work: Work) -> Section | None:
    """None if nothing is known of changes, or if nothing was there to be changed and nobody made anything."""
    known = work.files_changed[work.rows.ok & ~np.isnan(work.files_changed)]
    if not len(known) or (not work.in_repository and not known.any()):
        return None
    agents = {
        name: tuple(_over(work, name, work.of_cases(one, work.amount(name))) for one in work.variants)
        for name in COUNTS
    }
    people, unchanged = people_of(work), list(unchanged_of(work))
    means = None if people is None else {name: _over(work, name, values) for name, values in people.items()}
    return Section(
        "changes",
        "What was changed",
        sentences=(_named(work, unchanged),),
        tables=(_table(work, agents, means),),
        pictures=pictures.of_metrics(work, work.metric(LINES)),
        data={
            "counts": {name: work.by_variant(values) for name, values in agents.items()},
            "people": means,
            "unchanged": [one._asdict() for one in unchanged],
        },
    )


def _over(work: Work, name: str, cases: Floats) -> float | None:
    """The mean over the cases that all agents ended well at; without any, over all of these."""
    shared = work.shared(work.amount(name))
    return mean_of_known(cases[shared] if shared.any() else cases)


def people_of(work: Work) -> dict[str, Floats] | None:
    """The same counts of what people did, by case; None if no case tells."""
    found = {name: np.full(work.rows.planned_cases, np.nan) for name in COUNTS}
    for case, written in work.rows.expected().items():
        expected = json.loads(written) if written else None
        if isinstance(expected, Mapping) and isinstance(expected.get("diff"), str):
            for name, number in counted(parse_diff(expected["diff"])).columns().items():
                found[name][case] = np.nan if number is None else number
    return None if np.isnan(found["files_changed"]).all() else found


def counted(files: list[FileDiff]) -> Counts:
    found = Counts(lines_modified=0)
    for file in files:
        kind = "modified"
        if file.old is None or file.copied:
            kind = "added"
        elif file.new is None:
            kind = "deleted"
        elif file.old != file.new:
            kind = "renamed"
        setattr(found, f"files_{kind}", getattr(found, f"files_{kind}") + 1)
        found.files_binary += file.binary
        if file.left_out is not None:
            found.lines_added += file.left_out[0]
            found.lines_deleted += file.left_out[1]
            found.lines_modified = None
        for hunk in file.hunks:
            signs = [sign for sign, _ in hunk.lines]
            found.lines_added += signs.count("+")
            found.lines_deleted += signs.count("-")
            if found.lines_modified is not None:
                found.lines_modified += replaced(signs)
    return found


def unchanged_of(work: Work) -> Iterator[Unchanged]:
    rows = work.rows
    well = rows.ok & ~np.isnan(work.files_changed)
    found: Counter[tuple[int, int]] = Counter()
    for at in np.flatnonzero(well & (work.files_changed == 0)).tolist():
        found[int(rows.case[at]), int(rows.variant[at])] += 1
    for (case, agent), runs in sorted(found.items()):
        of = int((well & (rows.case == case) & (rows.variant == agent)).sum())
        yield Unchanged(rows.cases[case].id, work.names[agent], runs, of)


def _named(work: Work, unchanged: list[Unchanged]) -> str:
    """`changed nothing: silent at greet.md (3 of 3 runs), count.md (1 of 3)`."""
    if not unchanged:
        return "every run that ended well changed something"
    by_agent: dict[str, list[str]] = {}
    for one in unchanged[:SHOWN]:
        of = f" ({one.runs:,} of {one.of:,})" if work.rows.repeats > 1 else ""
        by_agent.setdefault(one.agent, []).append(f"{one.case}{of}")
    told = "; ".join(f"{agent} at {', '.join(cases)}" for agent, cases in by_agent.items())
    left = len(unchanged) - SHOWN
    total = many(sum(one.runs for one in unchanged), "run")
    return f"{total} ended well and changed nothing: {told}{f'; and {left:,} more' if left > 0 else ''}"


def _table(work: Work, agents: dict[str, tuple[float | None, ...]], people: Mapping[str, Any] | None) -> NamedTable:
    rows = tuple(
        (
            name.replace("_", " "),
            *(NOTHING if value is None else count(value) for value in values),
            *([NOTHING if people[name] is None else count(people[name])] if people is not None else []),
        )
        for name, values in agents.items()
    )
    head = ("", *work.names, *(["people"] if people is not None else []))
    return NamedTable("changes", "", head, rows, f"mean of a run that ended well; {_EXPLAINED}", aside=True)
