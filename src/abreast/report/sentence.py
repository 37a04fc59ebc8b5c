"""The verdict in words: the first line of every report, and never more than the data say."""

from __future__ import annotations

from abreast.analyse import Analysis, Comparison

SIMULATED = "SIMULATED · no model was called"


def points(value: float) -> str:
    """A difference in points, signed.

    >>> points(0.1237), points(-0.05)
    ('+12.4', '−5.0')
    """
    return f"{value * 100:+.1f}".replace("-", "−")


def verdict_lines(analysis: Analysis) -> list[str]:
    """A sentence for each variant against the baseline; what to do next where it is not decided."""
    lines = [SIMULATED] if analysis.simulated else []
    if analysis.score_name is None:
        lines.append("no scorer: answers are stored, nothing is compared")
    elif not analysis.comparisons:
        lines.extend(_single(analysis))
    for comparison in analysis.comparisons if analysis.score_name is not None else ():
        lines.append(sentence(comparison))
        lines.extend(advice(comparison))
    if analysis.retried_failures:
        lines.append(
            "failures of the variants were executed again on purpose (--retry-failed): that flatters flaky ones"
        )
    return lines


def _single(analysis: Analysis) -> list[str]:
    summary = analysis.variants[0]
    if summary.score is None:
        return [f"{summary.name}: no scored answer"]
    score = summary.score
    return [f"{summary.name}: {score.estimate:.1%} (95 % interval {score.low:.1%} … {score.high:.1%})"]


def sentence(comparison: Comparison) -> str:
    """For example `better: short against long: +12.4 points (95 % interval +5.1 … +19.3); 31 wins, ...`."""
    result = comparison.verdict
    text = f"{result.word}: {comparison.variant} against {comparison.baseline}"
    if comparison.cases == 0:
        return f"{text}: no case was answered by both"
    interval = result.interval
    if interval is not None:
        text += f": {points(interval.estimate)} points"
        if not result.reason:
            text += f" ({interval.level * 100:.4g} % interval {points(interval.low)} … {points(interval.high)})"
    count = f"{result.wins} wins, {result.losses} losses, {result.ties} ties in {comparison.cases:,} cases"
    return f"{text}; {count}"


def advice(comparison: Comparison) -> list[str]:
    """What stands behind the sentence or against it."""
    lines = []
    result = comparison.verdict
    if result.reason and comparison.cases:
        lines.append(result.reason)
    if result.word == "inconclusive" and comparison.needed and not result.reason:
        if comparison.needed > comparison.cases:
            lines.append(
                f"to detect 10 points you need about {comparison.needed:,} cases; this run has {comparison.cases:,}"
            )
        else:
            lines.append(f"{comparison.cases:,} cases would show 10 points; a difference is likely smaller than that")
    if comparison.dropped:
        lines.append(f"{comparison.dropped:,} cases left out: infrastructure or the scorer failed on one side")
    if comparison.skipped:
        lines.append(f"{comparison.skipped:,} cases left out: skipped on one side")
    if comparison.not_run:
        lines.append(f"{comparison.not_run:,} cases not run yet: the verdict is of what is done")
    return lines
