"""The figures of a variant as text, for every format that people read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from abreast.report.sections import NOTHING as NOTHING
from abreast.report.words.verdict_sentence import ALL_FAILED, BLAMES, points, trusted

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis, Comparison
    from abreast.analyse.variants import Repeats, VariantSummary
    from abreast.stats import Interval

TITLES = ("score", "ok", "errors", "cost", "per correct", "p50", "p95", "tokens", "repeats")


def cells(summary: VariantSummary) -> tuple[str, ...]:
    """The cells of a variant, under `TITLES`."""
    price = summary.cost_per_correct
    return (
        score_in_words(summary, summary.primary),
        f"{summary.ok:,}" + (f" ({summary.reused:,} reused)" if summary.reused else ""),
        errors_in_words(summary),
        cost_in_words(summary),
        dollars(price.estimate if price else None),
        seconds(summary.latency.get("p50")),
        seconds(summary.latency.get("p95")),
        tokens_in_words(summary.tokens),
        repeats_in_words(summary.repeats),
    )


def short_score(value: float | None) -> str:
    """A score with up to two decimals.

    >>> short_score(0.5), short_score(1.0), short_score(0.07), short_score(None)
    ('0.5', '1', '0.07', '–')
    """
    return NOTHING if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def score_in_words(summary: VariantSummary, name: str | None) -> str:
    """The mean of one score with its interval; `N/A (all failed)` for a variant without answers."""
    if name is None:
        return NOTHING
    return ALL_FAILED if summary.all_failed else share(summary.scores.get(name))


def share(score: Interval | None) -> str:
    """`61.3% (53.5% … 68.5%)`."""
    return NOTHING if score is None else f"{score.estimate:.1%} ({score.low:.1%} … {score.high:.1%})"


def dollars(value: float | None) -> str:
    """`$4.12`, `$0.0031`, `∞` if nothing was correct."""
    if value is None:
        return NOTHING
    if math.isinf(value):
        return "∞"
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.2g}"


def cost_in_words(summary: VariantSummary) -> str:
    """`$4.12 (and $0.10 for failed attempts) ($1.00 included) (3 unknown)`; "included" is what a subscription pays."""
    text = dollars(summary.cost_usd)
    if summary.in_vain_usd:
        text += f" (and {dollars(summary.in_vain_usd)} for failed attempts)"
    if summary.included_usd and summary.cost_usd is not None:
        is_all = summary.included_usd >= summary.cost_usd * (1 - 1e-9)
        text += " included" if is_all else f" ({dollars(summary.included_usd)} included)"
    return f"{text} ({summary.unpriced:,} unknown)" if summary.unpriced and summary.cost_usd is not None else text


def tokens_in_words(tokens: Mapping[str, int]) -> str:
    """Token counts by class, without zeros.

    >>> tokens_in_words({"input": 700_000, "output": 71_000, "cache_read": 500_000, "cache_write": 0})
    '700.0 k in / 500.0 k cached / 71.0 k out'
    """
    names = {"input": "in", "cache_read": "cached", "cache_write": "written", "output": "out"}
    return " / ".join(f"{count(tokens[key])} {name}" for key, name in names.items() if tokens.get(key)) or NOTHING


def repeats_in_words(repeats: Repeats | None) -> str:
    """`pass@3 81.0 %, pass^3 44.0 %, 62 % consistent`."""
    if repeats is None:
        return NOTHING
    parts, most = [], max(repeats.pass_at, default=0)
    if most:
        parts = [f"pass@{most} {repeats.pass_at[most]:.1%}", f"pass^{most} {repeats.pass_hat[most]:.1%}"]
    return ", ".join([*parts, f"{repeats.consistent:.0%} consistent"])


def errors_in_words(summary: VariantSummary) -> str:
    """`2 timeout (variant's fault), 1 network`."""
    parts = [
        f"{number:,} {kind}" + ("" if blame == "infrastructure" else f" ({BLAMES.get(blame, BLAMES['unknown'])})")
        for (kind, blame), number in sorted(summary.errors.items())
    ]
    if summary.skipped:
        parts.append(f"{summary.skipped:,} skipped")
    if summary.unscored:
        parts.append(f"{summary.unscored:,} unscored")
    return ", ".join(parts) or NOTHING


def seconds(value: float | None) -> str:
    """`18.2 s`, `42 ms`."""
    if value is None:
        return NOTHING
    if value < 0.0005:
        return "<1 ms"
    return f"{value * 1000:.0f} ms" if value < 0.995 else f"{value:.1f} s"


def count(value: int) -> str:
    """`88 k`, `1.2 M`."""
    for size, unit in ((1_000_000, " M"), (1_000, " k")):
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return str(value)


def in_flight_line(requested: int | None, mean: float, most: int) -> str:
    """The concurrency of a run.

    >>> in_flight_line(8, 7.62, 8), in_flight_line(None, 11.0, 12)
    ('in flight: 8 requested, 7.6 on average, 8 at most', 'in flight: auto, 11.0 on average, 12 at most')
    """
    limit = "auto" if requested is None else f"{requested:,} requested"
    return f"in flight: {limit}, {mean:,.1f} on average, {most:,} at most"


OTHER_SCORES = "Other scores"


def other_scores(analysis: Analysis) -> tuple[tuple[str, ...], list[tuple[str, ...]]] | None:
    """Head and rows of a table of the other scores: verdicts, or means if nothing is compared."""
    if analysis.further:
        head = ("score", "", "mean", "verdict", "points", "interval", "wins", "losses", "ties", "why")
        return head, [_other_verdict(item) for item in analysis.further]
    rows: list[tuple[str, ...]] = [
        (name, summary.name, share(score))
        for summary in analysis.variants
        for name, score in summary.scores.items()
        if name != summary.primary
    ]
    return (("score", "", "mean"), rows) if rows else None


def _other_verdict(item: Comparison) -> tuple[str, ...]:
    result, interval, sure = item.verdict, item.verdict.interval, trusted(item.verdict)
    counts = (result.wins, result.losses, result.ties)
    return (
        item.metric,
        f"{item.variant} against {item.baseline}",
        f"{item.scores[0]:.1%} → {item.scores[1]:.1%}" if item.scores else NOTHING,
        result.word,
        points(interval.estimate) if interval else NOTHING,
        f"{points(sure.low)} … {points(sure.high)}" if sure else NOTHING,
        *(f"{count:,}" for count in counts),
        result.reason or NOTHING,
    )
