"""How a run ended: exit code, reason, how to continue, and the summary as JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import Incomplete
from abreast.filenames import relative_path
from abreast.store.address import display_address
from abreast.text import dollars

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
    lacks_result = analysis.is_without_answer or analysis.is_without_score or analysis.is_without_comparison
    return int(lacks_result and not analysis.is_unlabelled)


def ending_lines(result: Result, command: str, where: str) -> Iterator[str]:
    """Yield lines about a run that did not end as planned. `where` is the flag that names its store."""
    analysis, stored, run = result.analysis, result.analysis.stored, result.run
    if result.stopped == "interrupted":
        yield f"  stored {stored:,} of {result.planned:,}"
        yield f"help: to continue, run `abreast resume {run}{where}`"
        return
    if result.status == "stopped_early":
        yield f"  {_not_needed(result)}"
        yield f"help: to run the rest anyway, run `abreast resume {run}{where}`"
    elif result.status != "complete":
        missing = result.planned - stored
        yield f"{'stopped' if missing else 'incomplete'}: {analysis.run['reason']}"
        yield f"  {stored:,} of {result.planned:,} done and stored, {missing:,} not run, nothing lost"
        if not missing and (failed := [at for at, summary in enumerate(analysis.variants) if summary.errors]):
            kind, message, _ = analysis.rows.first_error(failed[0])
            yield f"  first error: {kind}: {message[:LONGEST_ERROR]}"
            yield f"help: run `abreast logs {run} --errors{where}` to see all errors"
        for fix in _ways_to_continue(result, command, where):
            yield f"help: {fix}"
        return
    if analysis.is_without_answer:
        yield "error: no trial gave an answer"
        yield f"help: run `abreast logs {run}{where}` to see why"
    elif analysis.is_unlabelled:
        store = shlex.quote(display_address(str(result.store)))
        yield f"help: to label answers, run `abreast view {store} --run {run}`"
    elif analysis.is_without_score:
        yield from _why_unscored(analysis, where)
    elif analysis.is_without_comparison:
        errors = " --errors" if any(summary.errors for summary in analysis.variants) else ""
        yield "error: this run allows no comparison"
        yield f"help: run `abreast logs {run}{errors}{where}` to see why"


def _not_needed(result: Result) -> str:
    """`decided after 140 of 300 cases: 320 trials were not needed (about $4.10 saved)`."""
    decision = result.decision
    assert decision is not None
    verb = "decided" if decision.kind == "decided" else "given up as futile"
    were = "trial was" if result.saved == 1 else "trials were"
    saved = _saved_usd(result)
    money = f" (about {dollars(saved)} saved)" if saved else ""
    cases = f"{decision.cases:,} of {decision.planned:,} cases"
    return f"{verb} after {cases}: {result.saved:,} {were} not needed{money}"


def _saved_usd(result: Result) -> float | None:
    """Estimate savings from each variant's mean cost per trial; None if one is unknown."""
    saved, planned = 0.0, result.planned // len(result.analysis.variants)
    for variant in result.analysis.variants:
        missing, paid = planned - variant.trials, variant.trials - variant.reused
        if missing and (variant.cost_usd is None or not paid):
            return None
        saved += missing * (variant.cost_usd or 0.0) / max(1, paid)
    return saved


def _ways_to_continue(result: Result, command: str, where: str) -> list[str]:
    resume = f"abreast resume {result.run}{where}"
    if result.stopped == "failing":
        rerun = f"{_rerun(result, command)}; answers of unchanged variants are reused"
        return [f"{result.fix or 'fix it'}, then {rerun}", f"to continue as it is, run `{resume} --allow-failing`"]
    if result.stopped == "budget" and "--budget" in result.fix:
        return [f"run `{resume} --budget USD`"]
    if result.fix and result.stopped != "budget":
        return [f"{result.fix}, then run `{resume}`"]
    return [f"run `{resume}`"]


def _rerun(result: Result, command: str) -> str:
    """Say how to run it again; without a command if the run has no spec file."""
    spec = json.loads(result.analysis.run["spec"])
    if not spec["origin"] or spec["suite"]:
        return "run it again"
    name = shlex.quote(relative_path(Path(spec["origin"])))
    flags = " with the same flags" if any(spec["options"].values()) else ""
    return f"run `abreast {command} {name}` again{flags}"


def _why_unscored(analysis: Analysis, where: str) -> Iterator[str]:
    """Yield the most frequent reason why answers have no score, and what to do."""
    run, reason = analysis.run["run"], analysis.rows.why_unscored()
    if reason is None:
        yield "error: no answer could be scored"
        yield f"help: run `abreast logs {run}{where}` to see why"
        return
    why, case = reason
    # Tests ran in the agent's workspace, which is gone: rescore cannot repeat them.
    by_tests = any(isinstance(scorer, dict) and "tests" in scorer for scorer in analysis.rows.spec.get("scorers") or [])
    rerun = "; once fixed, run again with --fresh" if by_tests else ""
    yield f"error: no answer could be scored: {why}"
    yield f"help: run `abreast show {run} {shlex.quote(case)}{where}` to see one{rerun}"


def judge_self_comparison(analysis: Analysis) -> tuple[bool, str]:
    """Whether the baseline shows no difference from itself, and a sentence about it."""
    verdicts = [comparison.verdict for comparison in analysis.comparisons]
    if any(verdict.word in ("better", "worse") for verdict in verdicts):
        return False, "the baseline differs from itself: something favours one side (order, state, cache)"
    reservation = next((verdict.reason for verdict in verdicts if verdict.reason), "")
    if reservation:
        return True, f"no difference found, but {reservation}"
    return True, "as expected, no difference between the baseline and itself"


def summary_of(result: Result, report: Path | None, results: Sequence[Path] = ()) -> dict[str, Any]:
    """Return the report as JSON, with the counts and files of this execution."""
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
