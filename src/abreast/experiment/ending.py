"""How a run ended: its exit code, why it ended and how to go on, and its summary as JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import Incomplete
from abreast.preflight.checks import cost
from abreast.spec.values import shown_path

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis
    from abreast.experiment.result import Result

LONGEST_ERROR = 300  # characters
INTERRUPTED = 130


def exit_code(result: Result) -> int:
    if result.stopped == "interrupted":
        return INTERRUPTED
    if result.status not in ("complete", "stopped_early"):
        return Incomplete.exit_code
    analysis = result.analysis
    return int(analysis.is_without_answer or analysis.is_without_score or analysis.is_without_comparison)


def ending_lines(result: Result, command: str, where: str) -> Iterator[str]:
    """Sentences on a run that did not end as planned. `where` is the option that names its store."""
    analysis, stored, run = result.analysis, result.analysis.stored, result.run
    if result.stopped == "interrupted":
        yield f"  stored {stored:,} of {result.planned:,}. Go on with: abreast resume {run}{where}"
        return
    if result.status == "stopped_early":
        yield f"  {_not_needed(result)}"
        yield f"       to run the rest all the same: abreast resume {run}{where}"
    elif result.status != "complete":
        left = result.planned - stored
        yield f"{'stopped' if left else 'incomplete'}: {analysis.run['reason']}"
        yield f"       {stored:,} of {result.planned:,} done and stored, {left:,} not run, nothing lost"
        if not left and (failed := [at for at, summary in enumerate(analysis.variants) if summary.errors]):
            kind, message, _ = analysis.rows.first_error(failed[0])
            yield f"       first error: {kind}: {message[:LONGEST_ERROR]}"
            yield f"       see all: abreast logs {run} --errors{where}"
        for line in _ways_on(result, command, where):
            yield f"       {line}"
        return
    if analysis.is_without_answer:
        yield f"error: no trial gave an answer. See why: abreast logs {run}{where}"
    elif analysis.is_without_score:
        yield from _why_unscored(analysis, where)
    elif analysis.is_without_comparison:
        errors = " --errors" if any(summary.errors for summary in analysis.variants) else ""
        yield f"error: this run allows no comparison. See why: abreast logs {run}{errors}{where}"


def _not_needed(result: Result) -> str:
    """`decided after 140 of 300 cases: 320 trials were not needed (about $4.10 saved)`."""
    decision = result.decision
    assert decision is not None
    verb = "decided" if decision.kind == "decided" else "given up as futile"
    were = "trial was" if result.saved == 1 else "trials were"
    dollars = _saved_usd(result)
    money = f" (about {cost.dollars(dollars)} saved)" if dollars else ""
    cases = f"{decision.cases:,} of {decision.planned:,} cases"
    return f"{verb} after {cases}: {result.saved:,} {were} not needed{money}"


def _saved_usd(result: Result) -> float | None:
    """Estimate from the mean cost of each variant's trials; None if that of one is unknown."""
    saved, planned = 0.0, result.planned // len(result.analysis.variants)
    for variant in result.analysis.variants:
        left, paid = planned - variant.trials, variant.trials - variant.reused
        if left and (variant.cost_usd is None or not paid):
            return None
        saved += left * (variant.cost_usd or 0.0) / max(1, paid)
    return saved


def _ways_on(result: Result, command: str, where: str) -> list[str]:
    """What to do after a run that stopped, with the commands to paste."""
    resume = f"abreast resume {result.run}{where}"
    if result.stopped == "failing":
        again = f"{_run_again(result, command)} (answers of variants that did not change are reused)"
        return [f"{result.fix or 'fix it'}, then {again}", f"to continue as it is: {resume} --allow-failing"]
    if result.stopped == "budget":
        return [resume + (" --budget USD" if "--budget" in result.fix else "")]
    return [f"{result.fix}, then: {resume}" if result.fix else resume]


def _run_again(result: Result, command: str) -> str:
    """`run again: abreast run spec.yaml`; without the command if the run has no spec file of its own."""
    spec = json.loads(result.analysis.run["spec"])
    if not spec["origin"] or spec["suite"]:
        return "run it again"
    name = shlex.quote(shown_path(Path(spec["origin"])))
    flags = " with the same flags" if any(spec["options"].values()) else ""
    return f"run again: abreast {command} {name}{flags}"


def _why_unscored(analysis: Analysis, where: str) -> Iterator[str]:
    """The most frequent reason why answers have no score, and what to do."""
    run, reason = analysis.run["run"], analysis.rows.why_unscored()
    if reason is None:
        yield f"error: no answer could be scored. See why: abreast logs {run}{where}"
        return
    why, case = reason
    # What tests decided in the agent's workspace cannot be scored anew: the workspace is gone.
    by_tests = any(isinstance(scorer, dict) and "tests" in scorer for scorer in analysis.rows.spec.get("scorers") or [])
    again = "; when it is mended: the same run with --fresh" if by_tests else ""
    yield f"error: no answer could be scored: {why}"
    yield f"       see it: abreast show {run} {shlex.quote(case)}{where}{again}"


def judge_self_comparison(analysis: Analysis) -> tuple[bool, str]:
    """Whether a comparison of the baseline with itself found nothing, as it must, and a sentence about it."""
    verdicts = [comparison.verdict for comparison in analysis.comparisons]
    if any(verdict.word in ("better", "worse") for verdict in verdicts):
        return False, "a difference was found where there is none: something favours one side (order, state, cache)"
    few = next((verdict.reason for verdict in verdicts if verdict.reason), "")
    return True, f"nothing found, but {few}" if few else "as it must be: nothing found between the baseline and itself"


def summary_of(result: Result, report: Path | None, results: Sequence[Path] = ()) -> dict[str, Any]:
    """What the report says, and how this execution came to it."""
    from abreast.report.formats import json_report

    return {
        **json_report.report(result.analysis),
        "planned": result.planned,
        "stored": result.analysis.stored,
        "executed": result.executed,
        "reused": result.reused,
        "done_before": result.done_before,
        "saved": result.saved,
        "in_flight": asdict(result.in_flight),
        "store": str(result.store),
        "report": str(report) if report else None,
        "results": [str(path) for path in results],
    }
