"""The verdict in words: the first lines of every report. They never claim more than the data support."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from abreast.analyse.decision.interim import RUNNING
from abreast.report.words.calibration import calibration_lines, correction
from abreast.stats.intervals.final import GROUPS
from abreast.stats.intervals.population import THESE_CASES, repeats_needed, units_needed
from abreast.stats.numerics.arrays import ROUNDING
from abreast.stats.verdict import NO_CASE
from abreast.text import dollars, many

if TYPE_CHECKING:
    from abreast.analyse.rows import Rows
    from abreast.analyse.run import Analysis, Comparison
    from abreast.analyse.segments import Segment
    from abreast.stats import Interval, Verdict

ALL_FAILED = "N/A (all failed)"  # instead of a score
SIMULATED = "SIMULATED · no model was called"

RETRIED = "failures of the variants were retried (--retry-failed), which flatters flaky variants"
MANY_COMPARISONS = 5  # with this many or more, a summary line counts them

BLAMES = {"variant": "variant's fault", "infrastructure": "infrastructure", "unknown": "unknown cause"}


def failure(row: Mapping[str, Any]) -> str:
    """Say why a trial has no answer.

    >>> failure({"status": "error", "error_kind": "timeout", "error_blame": "variant", "error": "no answer in 3 s"})
    "error (timeout, variant's fault): no answer in 3 s"
    """
    if row["status"] != "error":
        return f"{row['status']}: {row['error'] or 'no reason given'}"
    return f"error ({row['error_kind']}, {BLAMES.get(row['error_blame'], BLAMES['unknown'])}): {row['error']}"


def points(value: float) -> str:
    """Format a difference of scores in points, with its sign.

    >>> points(0.1237), points(-0.05), points(-1e-17)
    ('+12.4', '−5.0', '+0.0')
    """
    return f"{value * 100 if abs(value) > ROUNDING else 0.0:+.1f}".replace("-", "−")


def verdict_lines(analysis: Analysis) -> list[str]:
    """A sentence for each variant against the baseline, its qualifications, and the circumstances of the run."""
    lines = [SIMULATED] if analysis.simulated else []
    if analysis.score_name is None:
        lines.append("no scorer: answers are stored, nothing is compared")
    elif not analysis.comparisons:
        lines.append(_single(analysis))
    lines += preface(analysis)
    for comparison in analysis.comparisons:
        lines += _verdict(analysis, comparison)
    return [*lines, *circumstances(analysis), *([RETRIED] if analysis.retried_failures else [])]


def _verdict(analysis: Analysis, comparison: Comparison) -> list[str]:
    return [sentence(comparison), *notes(analysis, comparison)]


def notes(analysis: Analysis, comparison: Comparison) -> list[str]:
    """Everything that qualifies the sentence on a comparison."""
    return [*advice(comparison), *_compared_scores(analysis, comparison)]


def comparison_lines(analysis: Analysis, comparison: Comparison) -> list[str]:
    return [*([SIMULATED] if analysis.simulated else []), *_verdict(analysis, comparison)]


def _compared_scores(analysis: Analysis, comparison: Comparison) -> list[str]:
    """Name the two scores whose difference is the effect, if tables differ because variants lost different cases."""
    summaries = {summary.name: summary for summary in analysis.variants}
    before, after = summaries[comparison.baseline].score, summaries[comparison.variant].score
    if comparison.scores is None or before is None or after is None or correction(comparison):
        return []
    first, second = comparison.scores
    if max(abs(first - before.estimate), abs(second - after.estimate)) < ROUNDING:
        return []
    scores = f"{comparison.baseline} {first:.1%}, {comparison.variant} {second:.1%}"
    return [f"on the {many(comparison.cases, 'case')} that both answered: {scores}"]


def circumstances(analysis: Analysis) -> list[str]:
    """Describe the execution and evaluation of the run, as far as it qualifies the verdict."""
    rows, lines = analysis.rows, []
    groups = set(rows.groups(rows.counted) or ()) if analysis.comparisons else ()
    if groups:
        weight = f"every {rows.weight} weighs the same (weight: {rows.weight})"
        lines.append(f"cases are in {many(len(groups), 'group')}; {weight}")
    if len(analysis.comparisons) > 1:
        lines.append("all verdicts together hold at 95 %; each interval holds on its own, at the level shown")
    records = (rows.extension if analysis.comparisons else None, rows.lock)
    lines += [record.sentence() for record in records if record is not None]
    if rows.imported is not None:
        lines += [rows.imported.sentence(), *rows.imported.notes]
    if (rows.spec.get("limits") or {}).get("turns") and len(analysis.variants) > 1:
        lines.append("variants ran one after another, not interleaved: changes over time count as differences")
    return lines + ([_chains(rows)] if rows.chained else [])


def _chains(rows: Rows) -> str:
    """A warning that cases of a chain are not independent."""
    start = "each case starts from the workspace that the variant left in the previous one"
    chains = len({case.group for case in rows.cases.values()})
    if chains >= GROUPS:
        return f"{start}: the cases of a chain are dependent and count as one"
    number = "one chain" if chains == 1 else f"{chains:,} chains"
    alternative = "without --cumulative" if rows.spec.get("suite") else "with independent cases"
    untrusted = f"with {number} the cases are dependent and no interval can be trusted"
    return f"{start}: {untrusted}; to find out which variant is better, run {alternative}"


def preface(analysis: Analysis) -> list[str]:
    """Lines before all verdicts: why there is no answer or score; `19 comparisons: 13 better, 6 inconclusive`."""
    lines, items = [], analysis.comparisons
    if analysis.is_without_answer:
        lines.append(_why_no_answer(analysis))
    elif analysis.is_without_score and (example := analysis.rows.why_unscored()):
        lines.append(f"no answer could be scored: {example[0]} (case {example[1]})")
    elif analysis.is_unlabelled:
        lines.append("no answer is labelled yet")
    if len(items) >= MANY_COMPARISONS:
        words = Counter(item.verdict.word for item in items)
        counts = ", ".join(f"{count:,} {word}" for word, count in words.most_common())
        lines.append(f"{len(items):,} comparisons: {counts}")
    return lines


def _why_no_answer(analysis: Analysis) -> str:
    """`no trial gave an answer: 12 failed (12 crash); first error: crash: KeyError: 'x' (predict.py:4 in predict)`."""
    line, kinds = "no trial gave an answer", Counter[str]()
    for summary in analysis.variants:
        for (kind, _), count in summary.errors.items():
            kinds[kind] += count
    if not kinds:
        return line
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
    kind, message, where = analysis.rows.first_error()
    reason = f"{line}: {kinds.total():,} failed ({counts}); first error: {kind}: {message}"
    return f"{reason} ({where})" if where else reason


def _single(analysis: Analysis) -> str:
    summary = analysis.variants[0]
    if summary.all_failed:
        return f"{summary.name}: {ALL_FAILED}"
    if summary.score is None:
        return f"{summary.name}: no scored answer"
    score = summary.score
    return f"{summary.name}: {score.estimate:.1%} (95 % interval {score.low:.1%} … {score.high:.1%})"


def sentence(comparison: Comparison) -> str:
    """For example `short is better than long: +12.4 points (95 % interval +5.1 … +19.3); 31 wins, ...`."""
    result, interval = comparison.verdict, comparison.verdict.interval
    if result.word == "no comparison" or interval is None:
        return f"no comparison: {_why_not(comparison)}"
    corrected = correction(comparison)
    counts = f"{many(result.wins, 'win')}, {many(result.losses, 'loss', 'losses')}, {many(result.ties, 'tie')}"
    text = f"{_claim(comparison)}{_amount(comparison, interval)}{corrected}{_within(result.word, comparison.margin)}"
    counted = "by the judge " if corrected else "case by case " if comparison.weight == "group" else ""
    cases = many(comparison.cases, comparison.case_noun)
    if result.population == THESE_CASES and comparison.planned_repeats > 1:
        cases += f" × {many(comparison.planned_repeats, 'repeat')}"
    return f"{text}; {counted}{counts} in {cases}{_decided_after(comparison)}"


def _why_not(comparison: Comparison) -> str:
    if comparison.cases or comparison.verdict.reason != NO_CASE:
        return comparison.reason
    event = "has a score of both" if comparison.pairs.unscored else "was answered by both"
    return f"no {comparison.case_noun} {event} {comparison.variant} and {comparison.baseline}"


def _claim(comparison: Comparison) -> str:
    """`short is better than long`, `short is better than long on these 3 prompts`, or `inconclusive: short vs long`."""
    result, variant, baseline = comparison.verdict, comparison.variant, comparison.baseline
    word, where = result.demoted or result.word, ""
    if result.population == THESE_CASES:
        where = f" on {comparison.these_cases}"
    if word == "inconclusive":
        return f"inconclusive{where}: {variant} vs {baseline}"
    claim = f"{variant} is {word} {'to' if word == 'equivalent' else 'than'} {baseline}{where}"
    return f"{claim}, unless {doubt(comparison)}" if result.demoted else claim


def _other_population(comparison: Comparison) -> list[str]:
    """Say what the run shows about cases in general if the verdict is on these cases, and vice versa."""
    result, noun = comparison.verdict, comparison.case_noun
    if result.population == THESE_CASES:
        units = many(units_needed(comparison.comparisons), "group" if comparison.is_grouped else noun)
        return [f"this says nothing about {noun}s in general, which needs at least {units}"]
    if result.word != "inconclusive" or result.demoted:
        return []
    needed = repeats_needed(comparison.planned, comparison.comparisons)
    if comparison.planned < units_needed(comparison.comparisons) and comparison.planned_repeats < needed:
        option = f" (--repeats {needed})" if comparison.is_repeatable else ""
        return [f"{needed} repeats of each {noun} can decide about {comparison.these_cases} alone{option}"]
    alone = comparison.on_these_cases
    if alone is None or alone.word not in ("better", "worse"):
        return []
    amount = "" if alone.interval is None else f": {points(alone.interval.estimate)} points{_ends(alone)}"
    claim = f"{comparison.variant} is {alone.word} than {comparison.baseline}{amount}"
    return [f"on {comparison.these_cases} alone, {claim}; {noun}s in general need more {noun}s"]


def _ends(result: Verdict) -> str:
    printed = trusted(result)
    if printed is None:
        return ""
    return f" ({printed.level * 100:.4g} % interval {points(printed.low)} … {points(printed.high)})"


def doubt(comparison: Comparison) -> str:
    """The assumption that would change the verdict: `the 23 lost cases were its failures`; empty if none would."""
    worst, word = comparison.pairs.worst, comparison.verdict.demoted
    if worst is None or word is None:
        return ""
    lost = many(worst.lost, "lost repeat" if comparison.pairs.repeats_left_out else "lost case")
    verb = "was" if worst.lost == 1 else "were"
    if word == "better":
        return f"the {lost} {verb} its {'failure' if worst.lost == 1 else 'failures'}"
    if word == "worse":
        return f"the {lost} {verb} its {'success' if worst.lost == 1 else 'successes'}"
    return f"the {lost} would have changed it"


def _amount(comparison: Comparison, interval: Interval) -> str:
    """The difference with its interval; after an early stop the interval first, because the estimate is inflated."""
    printed, estimate = trusted(comparison.verdict), points(interval.estimate)
    if printed is None:
        return f": {estimate} points"
    ends, level = f"{points(printed.low)} … {points(printed.high)}", f"{printed.level * 100:.4g} % interval"
    if comparison.stopped_after is not None and comparison.verdict.word in ("better", "worse"):
        return f" by {ends} points ({level}; {estimate} so far, inflated by stopping early)"
    return f": {estimate} points ({level} {ends})"


def _decided_after(comparison: Comparison) -> str:
    if comparison.stopped_after is None or not comparison.verdict.settled:
        return ""
    return f", decided after {comparison.stopped_after:,} of {comparison.planned:,}"


def _within(word: str, margin: float) -> str:
    """The margin that `equivalent` and `not worse` refer to."""
    if word == "equivalent":
        return f", within the margin of ±{margin * 100:.4g} points"
    return f", at most {margin * 100:.4g} points (the margin) worse" if word == "not worse" else ""


def trusted(result: Verdict) -> Interval | None:
    """The interval, unless it is the whole range (level 1)."""
    return result.interval if result.interval is not None and result.interval.level < 1 else None


def advice(comparison: Comparison) -> list[str]:
    """Reasons, warnings and next steps for a comparison."""
    result = comparison.verdict
    if result.word == "no comparison":
        return [line for line in (_cases_left_out(comparison),) if line]
    lines = [comparison.reason] if comparison.reason else []
    lines += _other_population(comparison)
    lines += [
        f"{item.noun}: {item.variant:,} of {comparison.variant}, {item.baseline:,} of {comparison.baseline}"
        for item in comparison.censoring
    ]
    if result.word == "inconclusive" and result.needed and trusted(result) and not result.demoted:
        effect = f"{result.effect * 100:.4g} points"
        if result.population == THESE_CASES:
            repeats = many(result.needed, "repeat")
            lines.append(
                f"to detect {effect} on {comparison.these_cases} you need about {repeats} of each{_price(comparison)}"
            )
        elif result.still_needed:
            needed = f"to detect {effect} you need about {many(result.needed, comparison.case_noun)}"
            lines.append(f"{needed}; this run compares {comparison.cases:,}{_price(comparison)}")
        elif result.interval is not None and max(-result.interval.low, result.interval.high) < result.effect:
            lines.append(f"any difference is smaller than {effect}: the interval excludes larger ones")
        else:
            lines.append(f"a difference of {effect} is possible; more {comparison.case_noun}s would decide")
    lines += calibration_lines(comparison)
    lines += [line for line in (_cases_left_out(comparison), bounds(comparison), _repeats_left_out(comparison)) if line]
    return lines


def _price(comparison: Comparison) -> str:
    """`; 345 more would cost about $4.10`; empty if the cost is not known."""
    missing = comparison.missing
    return f"; {missing.count:,} more would cost about {dollars(missing.usd)}" if missing and missing.usd else ""


def whose(analysis: Analysis, comparison: Comparison) -> str:
    """The prefix of a line that says which comparison it is about; empty if there is only one."""
    if len(analysis.comparisons) < 2:
        return ""
    several = len({item.baseline for item in analysis.comparisons}) > 1
    return f"{comparison.variant} against {comparison.baseline}: " if several else f"{comparison.variant}: "


def cost_and_latency(comparison: Comparison) -> str:
    """`cost per correct answer −38 % (−52 … −21), latency ×0.82 (0.74 … 0.91)`, of the variant against the baseline."""
    parts, cost, latency = [], comparison.pairs.cost, comparison.pairs.latency
    ratio = cost.ratio if cost else None
    if ratio is not None and math.isfinite(ratio.estimate):
        ends = "" if math.isinf(ratio.high) else f" ({change(ratio.low)} … {change(ratio.high)})"
        parts.append(f"cost per correct answer {change(ratio.estimate)} %{ends}")
    if latency is not None and math.isfinite(latency.high):
        parts.append(f"latency ×{latency.estimate:.2f} ({latency.low:.2f} … {latency.high:.2f})")
    return ", ".join(parts)


def cost_and_latency_lines(analysis: Analysis) -> list[str]:
    return [whose(analysis, item) + changes for item in analysis.comparisons if (changes := cost_and_latency(item))]


def change(ratio: float) -> str:
    """Format a ratio of variant to baseline as a change in percent; cheaper and faster is minus.

    >>> change(0.62), change(1.1)
    ('−38', '+10')
    """
    return f"{(ratio - 1) * 100:+.0f}".replace("-", "−")


def bounds(comparison: Comparison) -> str:
    if comparison.bounds is None or comparison.pairs.worst is None:
        return ""
    low, high = comparison.bounds
    return f"counting lost outcomes against the variant: {points(low)} points; for it: {points(high)}"


def _cases_left_out(comparison: Comparison) -> str:
    """`3 of 100 cases are not compared: 2 failed by infrastructure, 1 skipped`."""
    reasons = {
        "failed by infrastructure": comparison.pairs.failed,
        "could not be scored": comparison.pairs.unscored,
        "skipped": comparison.pairs.skipped,
        "not needed" if comparison.stopped_after is not None else "not run yet": comparison.not_run,
        "waiting for an earlier case": comparison.waiting,
    }
    counts = ", ".join(f"{number:,} {reason}" for reason, number in reasons.items() if number)
    total = comparison.planned - comparison.cases
    left_out = f"{total:,} of {many(comparison.planned, 'case')} {'is' if total == 1 else 'are'} not compared"
    return f"{left_out}: {counts}" if counts else ""


def _repeats_left_out(comparison: Comparison) -> str:
    left_out = comparison.pairs.repeats_left_out
    if not left_out:
        return ""
    share = f"{left_out:,} of {comparison.repeats:,} repeats of the compared cases"
    return f"{share} {'is' if left_out == 1 else 'are'} left out: one side has no score there"


def segments_of(analysis: Analysis, comparison: Comparison) -> list[Segment]:
    sides = (comparison.variant, comparison.baseline)
    return [segment for segment in analysis.segments if (segment.variant, segment.baseline) == sides]


def by_size(segments: Sequence[Segment]) -> list[Segment]:
    """Clear segments first, then the largest differences."""
    return sorted(segments, key=lambda item: (item.word == "inconclusive", -abs(item.estimate.estimate)))


def where_it_helps(segments: Sequence[Segment], most: int = 4) -> str:
    """`category=navigate +21.0 (n 47) · category=read +2.0 (n 32, inconclusive)`: the largest differences first."""
    return " · ".join(
        f"{item.tag}={item.value} {points(item.estimate.estimate)} "
        f"(n {item.cases:,}{', inconclusive' if item.word == 'inconclusive' else ''})"
        for item in by_size(segments)[:most]
    )


SEGMENT_TITLES = ("verdict", "points", "95 % interval", "q")


def segment_cells(segment: Segment) -> tuple[str, ...]:
    """A segment under `SEGMENT_TITLES`."""
    estimate = segment.estimate
    ends = f"{points(estimate.low)} … {points(estimate.high)}"
    return segment.word, points(estimate.estimate), ends, f"{segment.q:.3f}"


def not_run_line(analysis: Analysis) -> str:
    """Say how many trials were not run, and why; empty if none."""
    missing = analysis.planned - analysis.stored
    if not missing:
        return ""
    trials, reason = f"{missing:,} of {many(analysis.planned, 'trial')}", analysis.run["reason"] or "unknown"
    if analysis.run["status"] == RUNNING:
        return f"{trials} {'is' if missing == 1 else 'are'} not run yet"
    return f"{trials} {'was' if missing == 1 else 'were'} not run: {reason}"


def judge_lines(analysis: Analysis) -> list[str]:
    """`judge    24 calls, $0.12`: calls and cost of judges, which are not part of a variant's cost."""
    lines = []
    for judge in analysis.rows.judges:
        parts = [many(judge["calls"], "call")]
        parts += [f"${judge['cost_usd']:,.2f}"] if judge["cost_usd"] is not None else []
        parts += [f"{judge['failed']:,} of them without a usable reply"] if judge["failed"] else []
        parts += [f"{many(judge['reused'], 'judgement')} reused"] if judge["reused"] else []
        lines.append(f"{judge['scorer']:<8} {', '.join(parts)}")
    return lines


def ranking_line(analysis: Analysis) -> str:
    """`ranking by wins (…): short (52 %), long (30 %), none (18 %)`; empty without a ranking."""
    ranking = analysis.ranking
    if ranking is None:
        return ""
    shares = [f"{analysis.variants[index].name} ({ranking.strengths[index]:.0%})" for index in ranking.order]
    return f"ranking by wins (Bradley–Terry, shares of total strength): {', '.join(shares)}"
