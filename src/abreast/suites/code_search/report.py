"""What the report of a run has besides the verdict: the arms side by side, the cases with their winners, the tools.

The names in `data` are a contract; what is not known is null. A change is `{estimate, interval, level, cases}`: how
much better than the baseline, as a difference of shares or as the part of an amount that is saved; an interval is
`[low, high]`, null where none can be trusted.

- `arms`: `baseline`, `variants`, `design` (what the verdict is on, where tools were exchanged for servers),
  `answered_by_all` (cases that amounts are compared on: which all answered, without a failure of theirs in any repeat),
  `measures`: for each `name`, `kind` ("score", "share", "tokens", "dollars", "seconds", "count"), `cases` (that the
  values of an amount are means over; null if each is over its own), and by variant `values`, `intervals` and
  `improvements`; by variant `cache_share`, `failed` (`trials`, `tokens`, `cost_usd`, `untold`), `infrastructure` and
  `skipped` (trials)
- `cases`: `comparisons`: `variant`, `baseline`, `wins`, `losses`, `ties`, `cases`; `cases`: for each `id`, `category`,
  `difficulty`, `winners` (by variant compared: a variant, "tie", or null), and by variant `scores`, `failed` (`kind`,
  `blame`, `trials`), `tokens`, `seconds`; `not_begun` (cases)
- `where`: `by_category`, `by_difficulty`: for each value its `cases` and the `scores` by variant (`{mean, interval}`)
- `tools`: for each `tool` the mean `calls` of an answer and the calls that were `denied`, by variant
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from abreast.analyse.run import Analysis
from abreast.analyse.validate.evidence import Evidence
from abreast.analyse.validate.variants import exchanges, listed_with_and
from abreast.report.formats.json_report import ends, number
from abreast.report.sections import NamedTable, Section
from abreast.report.words.variant_figures import NOTHING, dollars, seconds, share
from abreast.report.words.verdict_sentence import ALL_FAILED, points
from abreast.suites.code_search.figures import (
    COST_PER_CORRECT,
    CaseRow,
    Change,
    Failed,
    Figures,
    Measure,
    ToolUse,
    figures,
)
from abreast.text import many

Value = TypeVar("Value")


def sections(analysis: Analysis) -> list[Section]:
    found = figures(analysis)
    parts = [_arms(found, analysis), _cases(found), _where(found), _tools(found)]
    return [part for part in parts if part.sentences or part.tables]


def _by(found: Figures, values: Iterable[Value]) -> dict[str, Value]:
    return dict(zip(found.names, values, strict=True))


# -- the arms side by side --------------------------------------------------------------------------------------------


def _arms(found: Figures, analysis: Analysis) -> Section:
    design = [one.message for one in exchanges(Evidence(analysis.rows.store, analysis.run))]
    failures = [_failure(name, one) for name, one in zip(found.names, found.failed, strict=True) if one.trials]
    apart = (
        f"there is no case that {_who_answered(found)}: amounts are those of each one's own cases, and not comparable"
    )
    sentences = [*design, _cache(found), *failures, _not_counted(found), apart if found.answered_by_all == 0 else ""]
    return Section(
        "arms",
        "The arms side by side",
        tuple(filter(None, sentences)),
        (_side_by_side(found, analysis),) if found.measures else (),
        data={
            "baseline": found.baseline,
            "variants": list(found.names),
            "design": design[0] if design else None,
            "answered_by_all": found.answered_by_all,
            "measures": [_measure(found, each) for each in found.measures],
            "cache_share": _by(found, found.cached),
            "failed": _by(found, (each._asdict() for each in found.failed)),
            "infrastructure": _by(found, found.infrastructure),
            "skipped": _by(found, found.skipped),
        },
    )


def _cache(found: Figures) -> str:
    """`of the prompt tokens, without_mcp read 61 % from the cache, with_mcp 74 %: ...`; empty if nobody tells."""
    told = [(name, part) for name, part in zip(found.names, found.cached, strict=True) if part is not None]
    if not told:
        return ""
    (first, part), *others = told
    shares = ", ".join(
        [f"{first} read {part * 100:.0f} % from the cache", *(f"{name} {part * 100:.0f} %" for name, part in others)]
    )
    why = "what is read there is cheaper and faster for that reason alone"
    order = "; the order within a block is random" if len(found.names) > 1 else ""
    return f"of the prompt tokens, {shares}: {why}{order}"


def _failure(name: str, one: Failed) -> str:
    """`2 failed trials of with_mcp used 12,300 tokens and $0.04 besides`."""
    who = f"{many(one.trials, 'failed trial')} of {name}"
    parts = [many(round(one.tokens), "token")] if one.tokens is not None else []
    parts += [dollars(one.cost_usd)] if one.cost_usd is not None else []
    if not parts:
        return f"{who}: what {'it' if one.trials == 1 else 'they'} used is not known"
    unknown = f"; of {one.untold:,} of them it is not known" if one.untold else ""
    return f"{who} used {' and '.join(parts)} besides{unknown}"


def _not_counted(found: Figures) -> str:
    parts = [
        f"{many(number, 'trial')} of {name} {what}"
        for numbers, what in ((found.infrastructure, "failed by infrastructure"), (found.skipped, "skipped"))
        for name, number in zip(found.names, numbers, strict=True)
        if number
    ]
    return f"not counted, neither as wrong nor as without an answer: {', '.join(parts)}" if parts else ""


def _who_answered(found: Figures) -> str:
    """`both answered`; with repeats `all but broken always answered`, which is without a failure of theirs."""
    who = "both" if len(found.names) == 2 else "all"
    but = f" but {listed_with_and(found.silent)}" if found.silent and len(found.names) > 2 else ""
    return f"{who}{but}{' always' if found.repeats > 1 else ''} answered"


def _side_by_side(found: Figures, analysis: Analysis) -> NamedTable:
    failed = {summary.name for summary in analysis.variants if summary.all_failed}
    others = [at for at, name in enumerate(found.names) if name != found.baseline]
    rows = [
        (
            _title(measure, found.answered_by_all),
            *(_value(measure, at, name in failed) for at, name in enumerate(found.names)),
            *(_improvement(measure, at) for at in others),
        )
        for measure in found.measures
    ]
    if found.answered_by_all:
        counts = (NOTHING if name in found.silent else f"{found.answered_by_all:,}" for name in found.names)
        rows.append((f"cases that {_who_answered(found)}", *counts, *(NOTHING for _ in others)))
    improvements = ["improvement" if len(others) == 1 else f"improvement of {found.names[at]}" for at in others]
    baseline = [f"{name} (baseline)" if name == found.baseline and others else name for name in found.names]
    head = ("measure", *baseline, *improvements)
    return NamedTable("side-by-side", "", head, tuple(rows), _how_to_read(found, analysis))


def _title(measure: Measure, usual: int | None) -> str:
    fewer = usual is not None and measure.cases not in (None, usual)
    return f"{measure.title} ({many(measure.cases or 0, 'case')})" if fewer else measure.title


def _value(measure: Measure, at: int, all_failed: bool) -> str:
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


def _improvement(measure: Measure, at: int) -> str:
    """`+12.4 points (+5.1 … +19.3)` of a share; `+38.0 % (+21.0 … +52.0), 9 cases` less of an amount."""
    change = measure.changes[at]
    if change is None:
        return NOTHING
    is_share = measure.kind in ("score", "share")
    told = f"{points(change.estimate)} {'points' if is_share else '%'}"
    if change.low is not None and change.high is not None:
        level = "" if change.level == 0.95 else f"{change.level * 100:.4g} %: "
        told += f" ({level}{points(change.low)} … {points(change.high)})"
    other = not is_share and measure.name != COST_PER_CORRECT and change.cases != measure.cases
    return f"{told}, {many(change.cases, 'case')}" if other else told


_SHORT = {"tokens": "tokens", "seconds": "latency"}


def _how_to_read(found: Figures, analysis: Analysis) -> str:
    amounts = [each for each in found.measures if each.kind not in ("score", "share") and each.name != COST_PER_CORRECT]
    there = ", ".join(dict.fromkeys(_SHORT.get(each.kind, each.title) for each in amounts))
    whose = f"the cases that {_who_answered(found)}" if found.answered_by_all else "its own cases"
    parts = ["improvement: + is better in every row, % is what is saved"] if len(found.names) > 1 else []
    other = any(change and change.level != 0.95 for each in found.measures for change in each.changes)
    parts.append(f"brackets: 95 % intervals{' unless they say otherwise' if other else ''}")
    parts.append("accuracy and success rate: over all cases, a failure of its own counts 0")
    parts += [f"{there}: of an answer, over {whose}"] if there else []
    if any(each.name == COST_PER_CORRECT for each in found.measures):
        parts.append("cost per correct answer: failures are paid for, too")
    if any(each.name == "latency_median_s" and any(each.changes) for each in amounts):
        parts.append("latency, median: improvement of a typical case")
    if any(summary.reused for summary in analysis.variants):
        parts.append("latency of new answers only")
    if any(summary.included_usd for summary in analysis.variants):
        parts.append("cost is what a subscription pays, at list prices")
    if "simulated" in analysis.rows.targets:
        parts.append("tokens are estimated from characters")
    return "; ".join(parts)


def _measure(found: Figures, each: Measure) -> dict[str, Any]:
    return {
        "name": each.name,
        "kind": each.kind,
        "cases": each.cases,
        "values": _by(found, (None if value is None else number(value) for value in each.values)),
        "intervals": _by(found, map(ends, each.intervals or [None] * len(found.names))),
        "improvements": {
            name: _changed(change) for name, change in _by(found, each.changes).items() if name != found.baseline
        },
    }


def _changed(change: Change | None) -> dict[str, Any] | None:
    if change is None:
        return None
    sure = change.low is not None
    interval = [change.low, change.high] if sure else None
    level = change.level if sure else None
    return {"estimate": change.estimate, "interval": interval, "level": level, "cases": change.cases}


# -- the cases --------------------------------------------------------------------------------------------------------


def _cases(found: Figures) -> Section:
    counts = [
        f"{item.variant} wins {item.verdict.wins:,}, loses {item.verdict.losses:,}, ties {item.verdict.ties:,} "
        f"of {many(item.cases, 'case')}" + (f" against {item.baseline}" if len(found.comparisons) > 1 else "")
        for item in found.comparisons
    ]
    late = f"{many(found.not_begun, 'case')} not begun" if found.not_begun else ""
    return Section(
        "cases",
        "Case by case",
        tuple(filter(None, [*counts, late])),
        (_case_table(found),) if found.cases else (),
        data={
            "comparisons": [
                {
                    "variant": item.variant,
                    "baseline": item.baseline,
                    "wins": item.verdict.wins,
                    "losses": item.verdict.losses,
                    "ties": item.verdict.ties,
                    "cases": item.cases,
                }
                for item in found.comparisons
            ],
            "cases": [_case(found, row) for row in found.cases],
            "not_begun": found.not_begun,
        },
    )


def _case_table(found: Figures) -> NamedTable:
    one = len(found.comparisons) == 1
    winners = ["winner" if one else f"winner: {item.variant} or {item.baseline}" for item in found.comparisons]
    two = len(found.names) == 2
    names = sorted(found.names, key=lambda name: name != found.baseline)
    titles = (found.score, "tokens", "time")
    columns = titles if two else tuple(f"{title}, {name}" for title in titles for name in found.names)
    order = f"{' → '.join(names)}; " if two else ""
    return NamedTable(
        "cases",
        "",
        ("case", "category", "difficulty", *winners, *columns, "failed"),
        tuple(_case_row(found, row) for row in found.cases),
        f"{order}{found.score}: mean over repeats, a failure of the variant's own counts 0; winner: by that, on the "
        "repeats that both have; tokens (prompt and output) and time: means of an answer",
    )


def _case_row(found: Figures, row: CaseRow) -> tuple[str, ...]:
    figures = (
        [_score_of(score, sum(failed.values())) for score, failed in zip(row.scores, row.failed, strict=True)],
        [NOTHING if tokens is None else f"{tokens:,.0f}" for tokens in row.tokens],
        list(map(seconds, row.seconds)),
    )
    return (
        row.id,
        row.category or NOTHING,
        row.difficulty or NOTHING,
        *(winner or NOTHING for winner in row.winners),
        *(cell for cells in figures for cell in _told(found, cells)),
        _failed(found, row),
    )


def _score_of(score: float | None, failed: int) -> str:
    """`0.50 (1 failed)`."""
    if score is None:
        return NOTHING
    return f"{score:.2f} ({failed:,} failed)" if failed else f"{score:.2f}"


def _told(found: Figures, cells: list[str]) -> list[str]:
    """A cell for each variant; of two variants one for both, the baseline's first: `0.50 → 1.00`."""
    if len(cells) != 2:
        return cells
    both = cells if found.names[0] == found.baseline else cells[::-1]
    return [NOTHING if set(both) == {NOTHING} else " → ".join(both)]


def _failed(found: Figures, row: CaseRow) -> str:
    """`with_mcp 1 timeout (its)`."""
    told = [
        f"{name} {number:,} {kind}{' (its)' if blame == 'variant' else ''}"
        for name, kinds in zip(found.names, row.failed, strict=True)
        for (kind, blame), number in sorted(kinds.items())
    ]
    return ", ".join(told) or NOTHING


def _case(found: Figures, row: CaseRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "category": row.category or None,
        "difficulty": row.difficulty or None,
        "winners": {item.variant: winner for item, winner in zip(found.comparisons, row.winners, strict=True)},
        "scores": _by(found, row.scores),
        "failed": _by(
            found,
            (
                [{"kind": kind, "blame": blame, "trials": number} for (kind, blame), number in sorted(kinds.items())]
                for kinds in row.failed
            ),
        ),
        "tokens": _by(found, row.tokens),
        "seconds": _by(found, row.seconds),
    }


# -- where it is found ------------------------------------------------------------------------------------------------


def _where(found: Figures) -> Section:
    return Section(
        "where",
        "By category and difficulty",
        tables=tuple(
            NamedTable(
                f"by-{tag}",
                "",
                (tag, "cases", *found.names),
                tuple((each.value, f"{each.cases:,}", *map(share, each.scores)) for each in values),
                "accuracy (95 % interval)",
            )
            for tag, values in found.by_tag.items()
            if values
        ),
        data={
            f"by_{tag}": {
                each.value: {"cases": each.cases, "scores": _by(found, map(_score, each.scores))} for each in values
            }
            for tag, values in found.by_tag.items()
        },
    )


def _score(mean: Any) -> dict[str, Any] | None:
    return None if mean is None else {"mean": number(mean.estimate), "interval": ends(mean)}


# -- the tools --------------------------------------------------------------------------------------------------------


def _tools(found: Figures) -> Section:
    data = [
        {"tool": each.tool, "calls": _by(found, each.calls), "denied": _by(found, each.denied)} for each in found.tools
    ]
    return Section("tools", "Tools", tables=(_tool_table(found, found.tools),) if data else (), data={"tools": data})


def _tool_table(found: Figures, used: Sequence[ToolUse]) -> NamedTable:
    denied = [f"denied, {name}" for name in found.names] if any(any(each.denied) for each in used) else []
    rows = tuple(
        (
            each.tool,
            *(NOTHING if calls is None else f"{calls:,.2f}" for calls in each.calls),
            *(f"{number:,}" for number in each.denied if denied),
        )
        for each in used
    )
    note = "calls of an answer, over the same cases as tool calls above"
    note += "; denied: calls in all, of failed trials too" if denied else ""
    return NamedTable("tools", "", ("tool", *found.names, *denied), rows, note)
