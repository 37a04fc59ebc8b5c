"""The report sections of the suite: the arms side by side, the cases with their winners, segments, and tools.

The names in `data` are a contract; unknown values are null. An improvement over the baseline is `{estimate, interval,
level, cases}`: a difference of shares, or the saved part of an amount; an interval is `[low, high]`, or null if none is
reliable.

- `arms`: `baseline`, `variants`, `design` (a note if servers replaced tools),
  `answered_by_all` (cases on which amounts are compared: all variants answered every repeat),
  `measures`: for each `name`, `kind` ("score", "share", "tokens", "dollars", "seconds", "count"), `cases` (that
  an amount is averaged over; null if each variant has its own), and by variant `values`, `intervals` and
  `improvements`; by variant `cache_share`, `failed` (`trials`, `tokens`, `cost_usd`, `untold`), `infrastructure` and
  `skipped` (trials)
- `cases`: `comparisons`: `variant`, `baseline`, `wins`, `losses`, `ties`, `cases`; `cases`: for each `id`, `category`,
  `difficulty`, `winners` (by variant compared: a variant, "tie", or null), and by variant `scores`, `failed` (`kind`,
  `blame`, `trials`), `tokens`, `seconds`; `not_begun` (cases)
- `where`: `by_category`, `by_difficulty`: for each value its `cases` and the `scores` by variant (`{mean, interval}`)
- `tools`: for each `tool` the mean `calls` of an answer and the calls that were `denied`, by variant
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from abreast.analyse.answer_fields import number as count_in
from abreast.analyse.rows import by_case
from abreast.analyse.run import Analysis, Comparison
from abreast.analyse.validate.evidence import Evidence
from abreast.analyse.validate.variants import exchanges, listed_with_and
from abreast.analyse.variants import failures_by_case, mean_score
from abreast.report.formats.json_report import ends, finite_or_none
from abreast.report.sections import NamedTable, Section
from abreast.report.words.variant_figures import NOTHING, dollars, seconds, share
from abreast.report.words.verdict_sentence import ALL_FAILED, points
from abreast.suites.code_search.figures import (
    COST_PER_CORRECT,
    TITLES,
    ComparisonTable,
    Improvement,
    MeasureRow,
    mean_amounts,
    measures_of,
)
from abreast.suites.trial_table import FailureCounts, failures_as_data, failures_in_words, none_if_nan
from abreast.text import many

CATEGORIES = ("search", "navigate", "understand")
LEVELS = ("easy", "medium", "hard")


def sections(analysis: Analysis) -> list[Section]:
    table = ComparisonTable(analysis)
    parts = [_arms(table), _cases(table), _segments(table), _tools(table)]
    return [part for part in parts if part.sentences or part.tables]


# -- arms -------------------------------------------------------------------------------------------------------------


def _arms(table: ComparisonTable) -> Section:
    rows, measures, shares = table.rows, measures_of(table), table.cached_shares()
    design = [finding.message for finding in exchanges(Evidence(rows.store, table.analysis.run))]
    failed = [_failure_totals(table, index) for index in table.variants]
    failures = [_describe_failures(name, own) for name, own in zip(table.names, failed, strict=True) if own["trials"]]
    skipped = table.not_counted("trial")
    sentences = [*design, _describe_cache(table, shares), *failures]
    if skipped:
        sentences.append(f"not counted, neither as wrong nor as unanswered: {', '.join(skipped)}")
    if table.answered_by_all == 0:
        sentences.append(
            f"no case that {_describe_answered(table)}: amounts are over different cases, and not comparable"
        )
    infrastructure = rows.error & ~rows.own_failure
    return Section(
        "arms",
        "The arms side by side",
        tuple(filter(None, sentences)),
        (_side_by_side(table, measures),) if measures else (),
        data={
            "baseline": table.baseline,
            "variants": list(table.names),
            "design": design[0] if design else None,
            "answered_by_all": table.answered_by_all,
            "measures": [_measure_data(table, measure) for measure in measures],
            "cache_share": table.by_variant(shares),
            "failed": table.by_variant(failed),
            "infrastructure": table.by_variant(int((table.of(at) & infrastructure).sum()) for at in table.variants),
            "skipped": table.by_variant(int((table.of(at) & rows.skipped).sum()) for at in table.variants),
        },
    )


def _describe_cache(table: ComparisonTable, shares: Sequence[float | None]) -> str:
    """Describe the share of prompt tokens read from the cache; empty if none is reported."""
    reported = [(name, part) for name, part in zip(table.names, shares, strict=True) if part is not None]
    if not reported:
        return ""
    (first, part), *others = reported
    parts = [
        f"{first} read {part * 100:.0f} % from the cache",
        *(f"{name} {part * 100:.0f} %" for name, part in others),
    ]
    order = "; the order within a block is random" if len(table.names) > 1 else ""
    return f"prompt tokens: {', '.join(parts)}; cached tokens are cheaper and faster{order}"


def _failure_totals(table: ComparisonTable, index: int) -> dict[str, Any]:
    """Sum up the failed trials of a variant; `untold` ones report neither tokens nor cost."""
    mine = table.of(index) & table.rows.error
    tokens, cost = table.tokens[mine], table.rows.cost_usd[mine]
    totals = [float(np.nansum(values)) if not np.isnan(values).all() else None for values in (tokens, cost)]
    untold = int((np.isnan(tokens) & np.isnan(cost)).sum())
    return {"trials": int(mine.sum()), "tokens": totals[0], "cost_usd": totals[1], "untold": untold}


def _describe_failures(name: str, failed: Mapping[str, Any]) -> str:
    """Describe failed trials: `2 failed trials of with_mcp also used 12,300 tokens and $0.04`."""
    subject = f"{many(failed['trials'], 'failed trial')} of {name}"
    parts = [many(round(failed["tokens"]), "token")] if failed["tokens"] is not None else []
    parts += [dollars(failed["cost_usd"])] if failed["cost_usd"] is not None else []
    if not parts:
        return f"{subject}: usage unknown"
    unknown = f"; usage of {failed['untold']:,} unknown" if failed["untold"] else ""
    return f"{subject} also used {' and '.join(parts)}{unknown}"


def _describe_answered(table: ComparisonTable) -> str:
    """Return `both answered`, or `all but broken always answered` with repeats."""
    group = "both" if len(table.names) == 2 else "all"
    but = f" but {listed_with_and(table.silent)}" if table.silent and len(table.names) > 2 else ""
    return f"{group}{but}{' always' if table.rows.repeats > 1 else ''} answered"


def _side_by_side(table: ComparisonTable, measures: list[MeasureRow]) -> NamedTable:
    failed = {summary.name for summary in table.analysis.variants if summary.all_failed}
    others = [at for at, name in enumerate(table.names) if name != table.baseline]
    rows = [
        (
            _title(measure, table.answered_by_all),
            *(_value(measure, at, name in failed) for at, name in enumerate(table.names)),
            *(_change(measure, at) for at in others),
        )
        for measure in measures
    ]
    if table.answered_by_all:
        counts = (NOTHING if name in table.silent else f"{table.answered_by_all:,}" for name in table.names)
        rows.append((f"cases that {_describe_answered(table)}", *counts, *(NOTHING for _ in others)))
    changes = ["change" if len(others) == 1 else f"change of {table.names[at]}" for at in others]
    names = [f"{name} (baseline)" if name == table.baseline and others else name for name in table.names]
    return NamedTable("side-by-side", "", ("measure", *names, *changes), tuple(rows), _how_to_read(table, measures))


def _title(measure: MeasureRow, usual: int | None) -> str:
    fewer = usual is not None and measure.cases not in (None, usual)
    return f"{measure.title} ({many(measure.cases or 0, 'case')})" if fewer else measure.title


def _value(measure: MeasureRow, at: int, all_failed: bool) -> str:
    if measure.kind == "score" and all_failed:
        return ALL_FAILED
    value = measure.values[at]
    if value is None:
        return NOTHING
    interval = measure.intervals[at] if measure.intervals else None
    return _WRITTEN[measure.kind](value) if interval is None else share(interval)


_WRITTEN: Mapping[str, Callable[[float], str]] = {
    "score": lambda value: f"{value:.1%}",
    "share": lambda value: f"{value:.1%}",
    "tokens": lambda value: f"{value:,.0f}",
    "dollars": dollars,
    "seconds": seconds,
    "count": lambda value: f"{value:,.1f}",
}


def _change(measure: MeasureRow, at: int) -> str:
    """Format the change from the baseline: `+12.4 points (+5.1 … +19.3)`, or `−38.0 % (−52.0 … −21.0), 9 cases`."""
    change = measure.improvements[at]
    if change is None:
        return NOTHING
    is_share = measure.kind in ("score", "share")
    estimate, low, high = change.estimate, change.low, change.high
    if not is_share:  # an improvement of an amount is the saved part
        estimate, low, high = -estimate, None if high is None else -high, None if low is None else -low
    text = f"{points(estimate)} {'points' if is_share else '%'}"
    if low is not None and high is not None:
        level = "" if change.level == 0.95 else f"{change.level * 100:.4g} %: "
        text += f" ({level}{points(low)} … {points(high)})"
    differs = not is_share and measure.name != COST_PER_CORRECT and change.cases != measure.cases
    return f"{text}, {many(change.cases, 'case')}" if differs else text


_SHORT = {"tokens": "tokens", "seconds": "latency"}


def _how_to_read(table: ComparisonTable, measures: list[MeasureRow]) -> str:
    amounts = [each for each in measures if each.kind not in ("score", "share") and each.name != COST_PER_CORRECT]
    kinds = ", ".join(dict.fromkeys(_SHORT.get(each.kind, each.title) for each in amounts))
    whose = f"the cases that {_describe_answered(table)}" if table.answered_by_all else "its own cases"
    parts = ["change: the variant against the baseline, − is less"] if len(table.names) > 1 else []
    has_other_level = any(change and change.level != 0.95 for each in measures for change in each.improvements)
    parts.append(f"brackets: 95 % intervals{' unless they say otherwise' if has_other_level else ''}")
    parts.append("accuracy and success rate: over all cases, a failure of its own counts 0")
    parts += [f"{kinds}: of an answer, over {whose}"] if kinds else []
    if any(each.name == COST_PER_CORRECT for each in measures):
        parts.append("cost per correct answer: failures are paid for, too")
    if any(each.name == "latency_median_s" and any(each.improvements) for each in amounts):
        parts.append("latency, median: change of a typical case")
    if any(summary.reused for summary in table.analysis.variants):
        parts.append("latency of new answers only")
    if any(summary.included_usd for summary in table.analysis.variants):
        parts.append("cost covered by a subscription is at list prices")
    if "simulated" in table.rows.targets:
        parts.append("tokens are estimated from characters")
    return "; ".join(parts)


def _measure_data(table: ComparisonTable, row: MeasureRow) -> dict[str, Any]:
    improvements = table.by_variant(map(_improvement_data, row.improvements))
    return {
        "name": row.name,
        "kind": row.kind,
        "cases": row.cases,
        "values": table.by_variant(None if value is None else finite_or_none(value) for value in row.values),
        "intervals": table.by_variant(map(ends, row.intervals or [None] * len(table.names))),
        "improvements": {name: item for name, item in improvements.items() if name != table.baseline},
    }


def _improvement_data(item: Improvement | None) -> dict[str, Any] | None:
    if item is None:
        return None
    interval, level = (None, None) if item.low is None else ([item.low, item.high], item.level)
    return {"estimate": item.estimate, "interval": interval, "level": level, "cases": item.cases}


# -- cases ------------------------------------------------------------------------------------------------------------


def _cases(table: ComparisonTable) -> Section:
    rows = table.rows
    comparisons = [item for item in table.analysis.comparisons if item.baseline == table.baseline]
    verdicts: list[dict[str, Any]] = [
        {
            "variant": item.variant,
            "baseline": item.baseline,
            "wins": item.verdict.wins,
            "losses": item.verdict.losses,
            "ties": item.verdict.ties,
            "cases": item.cases,
        }
        for item in comparisons
    ]
    sentences = [
        "{variant} wins {wins:,}, loses {losses:,}, ties {ties:,} of ".format(**verdict)
        + many(verdict["cases"], "case")
        + (f" against {verdict['baseline']}" if len(comparisons) > 1 else "")
        for verdict in verdicts
    ]
    not_begun = rows.planned_cases - len(rows.cases)
    sentences += [f"{many(not_begun, 'case')} not begun"] if not_begun else []
    cases = _case_data(table, comparisons)
    return Section(
        "cases",
        "Case by case",
        tuple(sentences),
        (_case_table(table, comparisons, cases),) if cases else (),
        data={"comparisons": verdicts, "cases": cases, "not_begun": not_begun},
    )


def _case_data(table: ComparisonTable, comparisons: list[Comparison]) -> list[dict[str, Any]]:
    """Return the results of each variant and the winners by case; scores are means over repeats."""
    rows, failures = table.rows, failures_by_case(table.rows)
    winners = {item.variant: _winners(item) for item in comparisons}
    columns = {
        "scores": [by_case(rows, table.of(at), rows.score) for at in table.variants],
        "tokens": [table.by_case(at, table.tokens) for at in table.variants],
        "seconds": [table.by_case(at, table.times) for at in table.variants],
    }
    cases = []
    for case, facts in sorted(rows.cases.items()):
        means = {
            name: table.by_variant(none_if_nan(values[case]) for values in column) for name, column in columns.items()
        }
        failed = (failures_as_data(failures.get((case, at), {}), "trials") for at in table.variants)
        cases.append(
            {
                "id": facts.id,
                "category": str(facts.tags.get("category", "")) or None,
                "difficulty": str(facts.tags.get("difficulty", "")) or None,
                "winners": {variant: by_index.get(case) for variant, by_index in winners.items()},
                "scores": means["scores"],
                "failed": table.by_variant(failed),
                "tokens": means["tokens"],
                "seconds": means["seconds"],
            }
        )
    return cases


def _winners(item: Comparison) -> dict[int, str]:
    """Return the winner by case: a variant or "tie"; cases that cannot be compared are missing."""
    names = {1: item.variant, -1: item.baseline, 0: "tie"}
    signs = np.sign(item.pairs.differences).astype(int).tolist()
    return {case: names[sign] for case, sign in zip(item.pairs.cases.tolist(), signs, strict=True)}


def _case_table(table: ComparisonTable, comparisons: list[Comparison], cases: list[dict[str, Any]]) -> NamedTable:
    is_only = len(comparisons) == 1
    winners = ["winner" if is_only else f"winner: {item.variant} or {item.baseline}" for item in comparisons]
    score = TITLES.get(table.rows.primary or "", table.rows.primary or "")
    is_pair = len(table.names) == 2
    titles = (score, "tokens", "time")
    columns = titles if is_pair else tuple(f"{title}, {name}" for title in titles for name in table.names)
    order = f"{' → '.join(sorted(table.names, key=lambda name: name != table.baseline))}; " if is_pair else ""
    return NamedTable(
        "cases",
        "",
        ("case", "category", "difficulty", *winners, *columns, "failed"),
        tuple(_case_row(table, case) for case in cases),
        f"{order}{score}: mean over repeats; a variant's own failure counts 0; winner: by this mean, on the repeats of "
        "both; tokens (prompt and output) and time: means per answer",
    )


def _case_row(table: ComparisonTable, case: Mapping[str, Any]) -> tuple[str, ...]:
    failed: dict[str, FailureCounts] = {
        name: {(kind["kind"], kind["blame"]): kind["trials"] for kind in kinds}
        for name, kinds in case["failed"].items()
    }
    columns = (
        [_score_cell(score, sum(failed[name].values())) for name, score in case["scores"].items()],
        [NOTHING if tokens is None else f"{tokens:,.0f}" for tokens in case["tokens"].values()],
        [seconds(time) for time in case["seconds"].values()],
    )
    return (
        case["id"],
        case["category"] or NOTHING,
        case["difficulty"] or NOTHING,
        *(winner or NOTHING for winner in case["winners"].values()),
        *(cell for cells in columns for cell in _join_cells(table, cells)),
        ", ".join(f"{name} {part}" for name, counts in failed.items() for part in _failure_cells(counts)) or NOTHING,
    )


def _failure_cells(counts: FailureCounts) -> list[str]:
    return [failures_in_words({key: counts[key]}) for key in sorted(counts)]


def _score_cell(score: float | None, failed: int) -> str:
    """Format a score as `0.50 (1 failed)`."""
    if score is None:
        return NOTHING
    return f"{score:.2f} ({failed:,} failed)" if failed else f"{score:.2f}"


def _join_cells(table: ComparisonTable, cells: list[str]) -> list[str]:
    """Join the cells of two variants, the baseline's first: `0.50 → 1.00`."""
    if len(cells) != 2:
        return cells
    both = cells if table.names[0] == table.baseline else cells[::-1]
    return [NOTHING if set(both) == {NOTHING} else " → ".join(both)]


# -- segments ---------------------------------------------------------------------------------------------------------


def _segments(table: ComparisonTable) -> Section:
    by_tag = {tag: _by_tag(table, tag, order) for tag, order in (("category", CATEGORIES), ("difficulty", LEVELS))}
    return Section(
        "where",
        "By category and difficulty",
        tables=tuple(
            NamedTable(
                f"by-{tag}",
                "",
                (tag, "cases", *table.names),
                tuple((value, f"{count:,}", *map(share, means)) for value, (count, means) in values.items()),
                "accuracy (95 % interval)",
            )
            for tag, values in by_tag.items()
            if values
        ),
        data={
            f"by_{tag}": {
                value: {"cases": count, "scores": table.by_variant(map(_score, means))}
                for value, (count, means) in values.items()
            }
            for tag, values in by_tag.items()
        },
    )


def _by_tag(table: ComparisonTable, tag: str, order: Sequence[str]) -> dict[str, tuple[int, list[Any]]]:
    """Return the number of cases and mean scores by value of a tag, in `order`; empty for a single value."""
    rows = table.rows
    by_index = {case: str(facts.tags[tag]) for case, facts in sorted(rows.cases.items()) if tag in facts.tags}
    counts = Counter(by_index.values())
    if len(counts) < 2 or rows.primary is None:
        return {}
    own = np.array([by_index.get(case) for case in rows.case.tolist()], dtype=object)
    has_answer = [bool((table.of(at) & rows.ok).any()) for at in table.variants]
    return {
        value: (
            counts[value],
            [
                mean_score(rows, table.of(at) & (own == value), rows.score) if has_answer[at] else None
                for at in table.variants
            ],
        )
        for value in sorted(counts, key=lambda value: order.index(value) if value in order else len(order))
    }


def _score(mean: Any) -> dict[str, Any] | None:
    return None if mean is None else {"mean": finite_or_none(mean.estimate), "interval": ends(mean)}


# -- tools ------------------------------------------------------------------------------------------------------------


def _tools(table: ComparisonTable) -> Section:
    """Return the mean calls per answer, and the total of denied calls, by tool and variant."""
    reported_calls = [_calls_by_tool(data) for data in table.reported]
    denied: list[Counter[str]] = [Counter() for _ in table.names]
    for variant, data in zip(table.rows.variant.tolist(), table.reported, strict=True):
        denied[variant].update(_calls(data.get("tools_denied")))
    rows: list[dict[str, Any]] = []
    for tool in sorted({tool for tools in (*filter(None, reported_calls), *denied) for tool in tools}):
        counts = np.array([math.nan if tools is None else tools.get(tool, 0) for tools in reported_calls], dtype=float)
        calls, refused = mean_amounts(table, counts), [own[tool] for own in denied]
        if any(calls) or any(refused):
            rows.append({"tool": tool, "calls": table.by_variant(calls), "denied": table.by_variant(refused)})
    rows.sort(key=lambda row: -sum(filter(None, row["calls"].values())))
    return Section("tools", "Tools", tables=(_tool_table(table, rows),) if rows else (), data={"tools": rows})


def _calls_by_tool(data: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the calls of a trial by tool; None if not reported."""
    if isinstance(data.get("tools"), Mapping):
        return _calls(data["tools"])
    return {} if data.get("tool_calls") == 0 else None


def _calls(reported: Any) -> dict[str, int]:
    """Count calls by tool, from a mapping, a list of names, or the number of unnamed calls."""
    if isinstance(reported, Mapping):
        counts = {str(tool): count_in(count) for tool, count in reported.items()}
        return {tool: int(count) for tool, count in counts.items() if count > 0}
    if isinstance(reported, list):
        return dict(Counter(map(str, reported)))
    unnamed = count_in(reported)
    return {"(not named)": int(unnamed)} if unnamed > 0 else {}


def _tool_table(table: ComparisonTable, tools: list[dict[str, Any]]) -> NamedTable:
    has_denied = any(any(row["denied"].values()) for row in tools)
    denied = [f"denied, {name}" for name in table.names] if has_denied else []
    rows = tuple(
        (
            row["tool"],
            *(NOTHING if calls is None else f"{calls:,.2f}" for calls in row["calls"].values()),
            *(f"{number:,}" for number in row["denied"].values() if denied),
        )
        for row in tools
    )
    note = "calls per answer, over the same cases as tool calls above"
    note += "; denied: total calls, including failed trials" if denied else ""
    return NamedTable("tools", "", ("tool", *table.names, *denied), rows, note)
