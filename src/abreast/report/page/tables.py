"""The tables of a page, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abreast.analyse.run import Analysis
from abreast.analyse.variants import QUANTILES
from abreast.report.charts.segments import COMPARISONS as SEGMENT_PICTURES
from abreast.report.sections import NOTHING, without_empty_columns
from abreast.report.words import variant_figures as figures
from abreast.report.words import verdict_sentence as sentences

SEGMENTS = 300  # rows
FEW = 3  # variants that fit side by side

Table = dict[str, Any]  # head and rows


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table without its empty columns."""
    head, rows = without_empty_columns(head, rows)
    return {"head": head, "rows": rows, "turned": False}


def variants(analysis: Analysis) -> Table:
    names = list(dict.fromkeys(name for item in analysis.variants for name in item.scores))
    titles = ["score" if len(names) == 1 else name for name in names]
    classes = {"input": "tokens in", "cache_read": "cached", "cache_write": "written", "output": "out"}
    rows = []
    for item in analysis.variants:
        rows.append(
            [
                item.name
                + (" (baseline)" if item.name == analysis.run["baseline"] and len(analysis.variants) > 1 else ""),
                *(figures.score_in_words(item, name) for name in names),
                f"{item.ok:,}",
                f"{item.reused:,}" if item.reused else NOTHING,
                figures.errors_in_words(item),
                figures.cost_in_words(item),
                figures.dollars(item.cost_per_correct.estimate if item.cost_per_correct else None),
                *(figures.seconds(item.latency.get(name)) for name in QUANTILES),
                *(figures.count(item.tokens[name]) if item.tokens.get(name) else NOTHING for name in classes),
                figures.repeats_in_words(item.repeats),
            ]
        )
    head = ["variant", *titles, "ok", "reused", "errors", "cost", "cost per correct", *QUANTILES]
    rows_by_variant = table([*head, *classes.values(), "repeats"], rows)
    return rows_by_variant if len(rows) > FEW else _transposed(rows_by_variant)


def _transposed(rows: Table) -> Table:
    """A column for each variant, so that figures to compare are side by side."""
    columns = list(zip(rows["head"], *rows["rows"], strict=True))
    return {"head": ["", *columns[0][1:]], "rows": [list(column) for column in columns[1:]], "turned": True}


def repeats(analysis: Analysis) -> Table | None:
    by_variant = [(item.name, item.repeats) for item in analysis.variants if item.repeats and item.repeats.pass_at]
    if not by_variant:
        return None
    ks = sorted({k for _, repeats in by_variant for k in repeats.pass_at})
    rows = []
    for name, repeats in by_variant:
        for sign, chances in (("@", repeats.pass_at), ("^", repeats.pass_hat)):
            rows.append([f"{name}: pass{sign}k", *(f"{chances[k]:.1%}" if k in chances else NOTHING for k in ks)])
    return table(["", *(f"k = {k}" for k in ks)], rows)


def ranking(analysis: Analysis) -> Table | None:
    ranking = analysis.ranking
    if ranking is None:
        return None
    rows = [
        (f"{rank}. {analysis.variants[index].name}", f"{ranking.strengths[index]:.1%}")
        for rank, index in enumerate(ranking.order, 1)
    ]
    return {**table(("variant", "share of strength"), rows), "line": sentences.ranking_line(analysis)}


def segments(analysis: Analysis, drawn: bool) -> Table | None:
    """The segments of all comparisons, unless each comparison has a picture of them."""
    if not analysis.segments:
        return None
    if drawn and len({(item.variant, item.baseline) for item in analysis.segments}) <= SEGMENT_PICTURES:
        return None
    rows = [
        (
            f"{item.variant} against {item.baseline}",
            f"{item.tag}={item.value}",
            *sentences.segment_cells(item),
            f"{item.cases:,}",
        )
        for item in sorted(analysis.segments, key=lambda item: item.q)[:SEGMENTS]
    ]
    return table(("", "segment", *sentences.SEGMENT_TITLES, "cases"), rows)


def errors(analysis: Analysis) -> Table | None:
    keys = sorted({key for item in analysis.variants for key in item.errors})
    rows = [
        (
            kind,
            sentences.BLAMES.get(blame, blame),
            *(f"{item.errors.get((kind, blame), 0):,}" for item in analysis.variants),
        )
        for kind, blame in keys
    ]
    for word in ("skipped", "unscored"):
        if any(getattr(item, word) for item in analysis.variants):
            rows.append((word, NOTHING, *(f"{getattr(item, word):,}" for item in analysis.variants)))
    return table(("kind", "cause", *(item.name for item in analysis.variants)), rows) if rows else None


def waits(analysis: Analysis) -> Table | None:
    rows = [
        (item.name, title, *(figures.seconds(times.get(name)) for name in QUANTILES))
        for item in analysis.variants
        for title, times in (("service", item.latency), ("queue", item.queue), ("back-off", item.backoff))
        if times
    ]
    return table(("variant", "time", *QUANTILES), rows) if rows else None
