"""Results by prompt or pull request: scores, winners, amounts and failures of each agent."""

from __future__ import annotations

from typing import Any

import numpy as np

from abreast.analyse.paired import trial_grid
from abreast.analyse.rows import Floats
from abreast.analyse.variants import failures_by_case
from abreast.report.formats.json_report import finite_or_none
from abreast.report.sections import NamedTable, Section
from abreast.report.words.variant_figures import NOTHING, seconds
from abreast.stats.numerics.arrays import ROUNDING
from abreast.suites.coding_agents.report import pictures
from abreast.suites.coding_agents.report.run_table import RESPONSE_TIME, RunTable
from abreast.suites.trial_table import failures_as_data, failures_in_words
from abreast.text import many

TIE = "tie"


def section(table: RunTable) -> Section:
    cases = _cases(table)
    not_begun = table.rows.planned_cases - len(table.rows.cases)
    late = f"{many(not_begun, table.noun)} not begun" if not_begun else ""
    return Section(
        "prompts",
        f"{table.noun.capitalize()} by {table.noun}",
        sentences=tuple(filter(None, [_describe_wins(table, cases), late])),
        tables=(*_scores(table, cases), _amounts(table, cases), *_failures(table)) if cases else (),
        pictures=pictures.of_metrics(table, table.primary, table.metric(RESPONSE_TIME), table.metric("cost_usd")),
        data={"cases": cases, "not_begun": not_begun},
    )


def _cases(table: RunTable) -> list[dict[str, Any]]:
    """Return for each case and agent the means over its runs, the number of passed runs, and the failures."""
    rows, scale, times = table.rows, table.primary, table.metric(RESPONSE_TIME)
    score = table.winnable(rows.score)
    columns = {
        "seconds": np.full(len(score), np.nan) if times is None else times.values,
        "files_changed": table.of_completed(table.files_changed),
        "lines_added": table.amount("lines_added"),
        "lines_deleted": table.amount("lines_deleted"),
    }
    scores = [table.of_cases(agent, score) for agent in table.variants]
    means = {name: [table.of_cases(agent, values) for agent in table.variants] for name, values in columns.items()}
    failures, sides = failures_by_case(rows), [trial_grid(rows, agent, score).score for agent in table.variants]
    cases = []
    for case, facts in sorted(rows.cases.items()):
        amounts = {
            name: table.by_variant(finite_or_none(values[case]) for values in by_agent)
            for name, by_agent in means.items()
        }
        counts = [_count_passed(table, case, agent) for agent in table.variants]
        failed = (failures_as_data(failures.get((case, agent), {}), "runs") for agent in table.variants)
        cases.append(
            {
                "id": facts.id,
                "winner": _winner(table, [side[case] for side in sides]),
                "scores": table.by_variant(
                    None if scale is None else finite_or_none(scale.on_scale(mean[case])) for mean in scores
                ),
                "passed": table.by_variant(passed if runs else None for passed, runs in counts),
                "runs": table.by_variant(runs for _, runs in counts),
                **amounts,
                "failed": table.by_variant(failed),
            }
        )
    return cases


def _winner(table: RunTable, scores: list[Floats]) -> str | list[str] | None:
    """Return the agents with the highest mean over the runs that all have; None if there is nothing to compare."""
    scored = [agent for agent, own in enumerate(scores) if not np.isnan(own).all()]
    if len(scored) < 2:
        return None
    shared = np.logical_and.reduce([~np.isnan(scores[agent]) for agent in scored])
    if not shared.any():
        return None
    means = {agent: float(scores[agent][shared].mean()) for agent in scored}
    best = max(means.values())
    winners = [table.names[agent] for agent, mean in means.items() if mean >= best - ROUNDING]
    return TIE if len(winners) == len(scored) else winners[0] if len(winners) == 1 else winners


def _count_passed(table: RunTable, case: int, agent: int) -> tuple[int, int]:
    """Return the number of runs that passed, and of those that count."""
    runs = table.passed[table.of(agent) & (table.rows.case == case)]
    return int((runs == 1).sum()), int((~np.isnan(runs)).sum())


def _describe_wins(table: RunTable, cases: list[dict[str, Any]]) -> str:
    """Describe wins: `sole winner: careful 12, hasty 3, of 20 prompts`."""
    if cases and not _has_scores(cases):
        return "no run has a score"
    compared = [case["winner"] for case in cases if case["winner"]]
    if not compared:
        return ""
    wins = ", ".join(f"{name} {compared.count(name):,}" for name in table.names)
    return f"sole winner: {wins}, of {many(len(compared), table.noun)}"


def _has_scores(cases: list[dict[str, Any]]) -> bool:
    return any(score is not None for case in cases for score in case["scores"].values())


def _scores(table: RunTable, cases: list[dict[str, Any]]) -> list[NamedTable]:
    """Return the table of scores, if any run has one."""
    if not _has_scores(cases):
        return []
    rows = []
    for case in cases:
        winner = ", ".join(case["winner"]) if isinstance(case["winner"], list) else case["winner"] or NOTHING
        rows.append((case["id"], winner, *(_score(table, case, name) for name in table.names)))
    passed = "that passed the tests" if table.rows.scores.get("tests") is not None else "that finished"
    title = table.primary.title if table.primary is not None else "score"
    note = f"{title}: mean over runs, an agent's failure scores 0; in brackets: runs {passed}"
    winner = "; winner: highest mean over the runs that all agents have" if len(table.names) > 1 else ""
    return [NamedTable("prompts", "", (table.noun, "winner", *table.names), tuple(rows), note + winner)]


def _score(table: RunTable, case: dict[str, Any], agent: str) -> str:
    """Format a score as `67 % (2/3)`."""
    score = case["scores"][agent]
    if score is None:
        return NOTHING
    is_rating = table.primary is not None and table.primary.kind == "rating"
    text = f"{score:.1f}" if is_rating else f"{score * 100:.0f} %"
    return f"{text} ({case['passed'][agent]:,}/{case['runs'][agent]:,})" if case["runs"][agent] else text


def _amounts(table: RunTable, cases: list[dict[str, Any]]) -> NamedTable:
    rows = tuple((case["id"], *(_amount(case, name) for name in table.names)) for case in cases)
    note = "completed runs: mean time, lines added and deleted, files changed in brackets"
    return NamedTable("prompts-amounts", "", (table.noun, *table.names), rows, note, aside=True)


def _amount(case: dict[str, Any], agent: str) -> str:
    """Format time and changes as `12.3 s, +31 −4 (2)`."""
    time, files, added, deleted = (
        case[name][agent] for name in ("seconds", "files_changed", "lines_added", "lines_deleted")
    )
    parts = [] if time is None else [seconds(time)]
    if files is not None:
        lines = "" if added is None or deleted is None else f"+{_mean(added)} −{_mean(deleted)} "
        parts.append(f"{lines}({_mean(files)})")
    return ", ".join(parts) or NOTHING


def _mean(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def _failures(table: RunTable) -> list[NamedTable]:
    """Return the table of failures, if any run failed."""
    rows = tuple(
        (table.rows.cases[case].id, table.names[agent], failures_in_words(counts))
        for (case, agent), counts in sorted(failures_by_case(table.rows).items())
    )
    note = "by kind; (variant's fault): scores 0; other failures do not count"
    head = (table.noun, "agent", "failed")
    return [NamedTable("prompts-failures", "Failed runs", head, rows, note, aside=True)] if rows else []
