"""What is said around an execution, for every command that executes."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast import suites
from abreast.analyse.decision import gates
from abreast.cli import garbage_collection, listings, store_argument
from abreast.cli.commands.experiments.run import options_of
from abreast.errors import BadInput, Incomplete, PreflightRefused
from abreast.experiment.execution import RunExecution
from abreast.experiment.stored import shown_params
from abreast.model import Request, Trial
from abreast.output import confirm, console, echo, is_interactive, say
from abreast.report.formats import catalogue
from abreast.report.words.variant_figures import in_flight_line
from abreast.report.words.verdict_sentence import SIMULATED
from abreast.store import open_store
from abreast.view.preloader import REPORT, Preloader
from abreast.view.progress import EventFile, Verbose, progress

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis
    from abreast.execute.listener import Listener
    from abreast.experiment.facade import Experiment
    from abreast.experiment.options import Options
    from abreast.experiment.preparation import Prepared
    from abreast.experiment.result import Result
    from abreast.preflight.finding import Finding
    from abreast.targets import Target

LONGEST_ERROR = 300  # characters
_MARKS = {"pass": "✓", "note": "·", "warn": "!", "fail": "✗"}


def run_experiment(experiment: Experiment, args: argparse.Namespace, started: Options | None = None) -> int:
    """Preflight, execute, verdict, report."""
    required = [gates.read(text) for text in args.fail_if]
    catalogue.named(args.format, not args.no_pictures)  # refused now, not after the run
    if args.output and Path(args.output).exists() and not Path(args.output).is_dir():
        raise BadInput(f"--output {args.output}: is no folder", "name a folder; it is made if it is not there")
    with contextlib.closing(experiment.prepare(options_of(args, started))) as prepared:
        for gate in required:
            gates.check(gate, [variant.name for variant in prepared.setup.plan.variants])
        if args.dry_run:
            dry_run(prepared)
            return 0
        if not args.quiet:
            introduce(prepared)
        refuse_if_failed(prepared, args)
        consult(prepared, args)
        ask(prepared, args.yes)
        _say_what_is_reused(prepared, args.quiet)
        result = _execute(prepared, args)
    return conclude(result, args)


def refuse_if_failed(prepared: Prepared, args: argparse.Namespace) -> None:
    """Exit 4 before anything is spent; if a target cannot be used, a suite may know a way without it."""
    by_target = any(finding.check == "targets" and finding.level == "fail" for finding in prepared.findings)
    with _helped(args) if by_target else contextlib.nullcontext():
        prepared.refuse_if_failed()


@contextlib.contextmanager
def _helped(args: argparse.Namespace) -> Iterator[None]:
    """What a suite says to somebody who cannot use a target is added to the way out."""
    try:
        yield
    except PreflightRefused as error:
        told = suites.advice(args.suite, args) if args.suite is not None else ""
        if not told:
            raise
        raise PreflightRefused(error.message, f"{error.fix}; {told}" if error.fix else told) from error


def introduce(prepared: Prepared) -> None:
    """The plan, and what of the checks is worth a look before every run."""
    _say_the_plan(prepared)
    for finding in prepared.findings:
        if not finding.aside:
            say(f"  {_MARKS[finding.level]} {finding.check}: {_told(finding)}")
    _say_the_series(prepared)


def review(prepared: Prepared, verbose: bool) -> None:
    """The plan and every check, one below the other; what they have seen, if that is wanted."""
    _say_the_plan(prepared)
    width = max(len(finding.check) for finding in prepared.findings) + 1
    for finding in prepared.findings:
        say(f"  {_MARKS[finding.level]} {f'{finding.check}:'.ljust(width)} {_told(finding)}")
        for line in finding.details if verbose else ():
            say(f"    {' ' * width} {line}")
    _say_the_series(prepared)


def _told(finding: Finding) -> str:
    return finding.message + (f": {finding.fix}" if finding.fix and finding.level != "pass" else "")


def _say_the_series(prepared: Prepared) -> None:
    found = prepared.series
    if found.since is not None:
        told = f"series {found.number} begins: {found.why}; its scores do not continue those of {found.since}"
        say(f"  · {told}")


def _say_the_plan(prepared: Prepared) -> None:
    plan = prepared.setup.plan
    if prepared.setup.is_simulated:
        say(f"  {SIMULATED}")
    done = prepared.done_before + len(prepared.reuses)
    say(
        f"  {prepared.setup.spec.name} · {_many(len(plan.cases), 'case')} × {_many(len(plan.variants), 'variant')} × "
        f"{_many(plan.repeats, 'repeat')} = {_many(len(plan), 'trial')} · {done:,} done before"
    )


def consult(prepared: Prepared, args: argparse.Namespace) -> None:
    """On a terminal, a person is asked about what changed and what is missing; elsewhere the run goes on."""
    if not args.yes and (args.quiet or args.json or not is_interactive()):
        return
    for asked in prepared.questions:
        answer = "no" if asked.stops == "yes" else "yes"  # what --yes means: go on
        if not args.yes:
            answer = "yes" if confirm(asked.text) else "no"
        if answer == asked.stops:
            for number, step in enumerate(asked.steps, 1):
                say(f"  {number}. {step}")
            what = "first the steps above" if asked.steps else "the code that is measured changed"
            raise PreflightRefused(f"{what}: nothing was executed, nothing was written", "then run again")
        prepared.record_answer(asked, answer)


def ask(prepared: Prepared, yes: bool) -> None:
    """Somebody has to agree to what costs a lot; nothing is made before."""
    if prepared.question is None or yes:
        return
    if not is_interactive():
        above = f"more than limits.ask_above_usd (${prepared.setup.spec.limits.ask_above_usd:,.2f})"
        raise PreflightRefused(
            f"{prepared.question}, {above}, and nobody can be asked here", "--yes agrees to it; --budget USD caps it"
        )
    if not confirm(f"{prepared.question}: go on?"):
        raise PreflightRefused(
            "not agreed to: nothing was executed, nothing was written", "--limit N tries a few cases"
        )


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _say_what_is_reused(prepared: Prepared, quiet: bool) -> None:
    if quiet:
        return
    if prepared.continues:
        say(f"  going on with {prepared.continues}: {_many(prepared.to_execute, 'trial')} left{_again(prepared)}")
    elif prepared.reuses:
        failures = sum(reuse.failed for reuse in prepared.reuses)
        which = f" ({failures:,} of them failures: --retry-failed executes those again)" if failures else ""
        say(
            f"  reusing {_many(len(prepared.reuses), 'answer')} of earlier runs{which}, executing "
            f"{prepared.to_execute:,} (--fresh executes all)"
        )


def _again(prepared: Prepared) -> str:
    number = len(prepared.broken)
    return f" ({_many(number, 'failure')} that stopped it among them; --allow-failing keeps them)" if number else ""


def _execute(prepared: Prepared, args: argparse.Namespace) -> Result:
    import asyncio

    garbage_collection.resume()
    with _listening(prepared, args) as listeners, _helped(args):  # refused in there: a warm-up failed
        result = asyncio.run(RunExecution(prepared, listeners).run())
    flown = result.in_flight
    if flown.most and not args.quiet:
        say(f"  {in_flight_line(flown.asked, flown.mean, flown.most)}")
    return result


@contextlib.contextmanager
def _listening(prepared: Prepared, args: argparse.Namespace) -> Iterator[tuple[Listener, ...]]:
    with contextlib.ExitStack() as stack:
        listeners: list[Listener] = [Preloader(REPORT)]
        if args.events:
            listeners.append(stack.enter_context(contextlib.closing(EventFile(Path(args.events)))))
        if args.verbose:
            listeners.append(Verbose())
        elif not args.quiet:
            names = [target.name for target in prepared.setup.targets]
            done = prepared.done_before + len(prepared.reuses)
            display = progress(len(prepared.setup.plan), done, names)
            listeners.append(stack.enter_context(contextlib.closing(display)))
        yield tuple(listeners)


def conclude(result: Result, args: argparse.Namespace, command: str = "run") -> int:
    """The verdict, the report, and how it ended."""
    from abreast.report.formats.terminal import render

    unmet = gates.failures([gates.read(text) for text in args.fail_if], result.analysis)
    report = write_reports(
        result.analysis, args.format, args.output, unmet, not args.no_pictures, not args.no_artifacts
    )
    results = write_results(result.analysis, args.output, not args.no_pictures)
    if args.json:
        listings.show([summary_of(result, report, results)], True, "")
    else:
        terminal = console()
        terminal.print()
        terminal.print(render(result.analysis, _where(result)), crop=False)
        lines = [f"  report   {store_argument.shown(report)}"] if report else []
        for line in (*lines, *results_line(results), f"  rows     {_sql_hint(result)}"):
            terminal.print(line, soft_wrap=True)  # not cut, so that it can be copied
    code = ending(result, command)
    return code if code > 1 else tell_unmet(unmet) or code


def write_reports(
    analysis: Analysis,
    words: Sequence[str] = (),
    output: str | None = None,
    unmet: Sequence[str] = (),
    pictures: bool = True,
    artifacts: bool = True,
) -> Path | None:
    """The page, or what --format asks for; where the page is, or the first of them."""
    from abreast.report import folder

    place = Path(output) if output else folder.home(analysis.rows.store, analysis.run["run"])
    try:
        asked = catalogue.Asked(analysis, unmet=unmet, pictures=pictures, artifacts=artifacts)
        written = catalogue.write(asked, catalogue.named(words, pictures) or ["html"], place)
        return next((path for path in written if path.suffix == ".html"), written[0])
    except OSError as error:
        say(f"warning: the report could not be written ({error})")
        return None


def write_results(analysis: Analysis, output: str | None = None, pictures: bool = True) -> list[Path]:
    """The files of results that the suite of the run writes, if it was given a name for them."""
    from abreast.report import results

    written = results.write(analysis, output, pictures)
    for told in written.warnings:
        say(f"warning: {told}")
    return written.paths


def results_line(paths: Sequence[Path]) -> list[str]:
    """`results  bench.json, bench.csv, bench.md and 6 pictures`: where they are, in a line or none."""
    if not paths:
        return []
    pictures = [path for path in paths if path.suffix in (".svg", ".png")]
    named = [store_argument.shown(path) for path in paths if path not in pictures]
    more = f" and {_many(len(pictures), 'picture')}" if pictures else ""
    return [f"  results  {', '.join(named or map(store_argument.shown, pictures[:1]))}{more}"]


def tell_unmet(sentences: list[str]) -> int:
    """Print unmet requirements and return the exit code."""
    for sentence in sentences:
        say(f"requirement not met: {sentence}")
    return 1 if sentences else 0


def ending(result: Result, command: str) -> int:
    """The exit code, and the sentence that goes with one that is not 0."""
    stored = result.analysis.stored
    if result.stopped == "interrupted":
        say(f"  stored {stored:,} of {result.planned:,}. Go on with: abreast resume {result.run}{_where(result)}")
        return 130
    if result.status == "stopped_early":
        say(f"  {_not_needed(result)}")
        say(f"       to run the rest all the same: abreast resume {result.run}{_where(result)}")
    elif result.status != "complete":
        left = result.planned - stored
        say(f"{'stopped' if left else 'incomplete'}: {result.analysis.run['reason']}")
        say(f"       {stored:,} of {result.planned:,} done and stored, {left:,} not run, nothing lost")
        if not left and (failed := [at for at, summary in enumerate(result.analysis.variants) if summary.errors]):
            kind, message, _ = result.analysis.rows.first_error(failed[0])
            say(f"       first error: {kind}: {message[:LONGEST_ERROR]}")
            say(f"       see all: abreast logs {result.run} --errors{_where(result)}")
        for line in _ways_on(result, command):
            say(f"       {line}")
        return Incomplete.exit_code
    variants = result.analysis.variants
    if result.analysis.is_without_answer:
        say(f"error: no trial gave an answer. See why: abreast logs {result.run}{_where(result)}")
        return 1
    if result.analysis.is_without_score:
        from abreast.cli import unscored

        for line in unscored.lines(result.analysis, _where(result)):
            say(line)
        return 1
    if result.analysis.is_without_comparison:
        errors = " --errors" if any(summary.errors for summary in variants) else ""
        say(f"error: this run allows no comparison. See why: abreast logs {result.run}{errors}{_where(result)}")
        return 1
    return 0


def _not_needed(result: Result) -> str:
    """`decided after 140 of 300 cases: 320 trials were not needed (about $4.10 saved)`."""
    from abreast.preflight import cost

    decision = result.decision
    assert decision is not None
    verb = "decided" if decision.kind == "decided" else "given up as futile"
    were = "trial was" if result.saved == 1 else "trials were"
    dollars = _saved_usd(result)
    money = f" (about {cost.dollars(dollars)} saved)" if dollars else ""
    told = f"{verb} after {decision.cases:,} of {decision.planned:,} cases"
    return f"{told}: {result.saved:,} {were} not needed{money}"


def _saved_usd(result: Result) -> float | None:
    """By what the trials of each variant cost; None if that is not known of one."""
    saved, each = 0.0, result.planned // len(result.analysis.variants)
    for variant in result.analysis.variants:
        left, paid = each - variant.trials, variant.trials - variant.reused
        if left and (variant.cost_usd is None or not paid):
            return None
        saved += left * (variant.cost_usd or 0.0) / max(1, paid)
    return saved


def _ways_on(result: Result, command: str) -> list[str]:
    """What to do after a run that stopped, with the commands to paste."""
    resume = f"abreast resume {result.run}{_where(result)}"
    if result.stopped == "failing":
        again = f"{_run_again(result, command)} (answers of variants that did not change are reused)"
        return [
            f"{result.fix or 'fix it'}, then {again}",
            f"to continue as it is: {resume} --allow-failing",
        ]
    first = f"{result.fix}, then: " if result.fix and result.stopped != "budget" else ""
    return [f"{first}{resume}{_more(result)}"]


def _run_again(result: Result, command: str) -> str:
    """`run again: abreast run spec.yaml`; without the command if the run has no spec file of its own."""
    spec = json.loads(result.analysis.run["spec"])
    if not spec["origin"] or spec["suite"]:
        return "run it again"
    name = shlex.quote(store_argument.shown(Path(spec["origin"])))
    flags = " with the same flags" if any(spec["options"].values()) else ""
    return f"run again: abreast {command} {name}{flags}"


def _more(result: Result) -> str:
    """What the command to resume needs besides."""
    return " --budget USD" if result.stopped == "budget" and "--budget" in result.fix else ""


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


def dry_run(prepared: Prepared) -> None:
    """What would be sent: one request per variant."""
    introduce(prepared)
    first = prepared.setup.plan.dispatch(0)
    for position in sorted(first):
        trial = prepared.setup.plan.trial(position)
        target = prepared.setup.targets[position % len(prepared.setup.targets)]
        params = ", ".join(f"{key}={value!r}" for key, value in shown_params(trial.variant).items())
        echo(f"--- {trial.variant.name} ({target.name}; {params}), case {trial.case.id}")
        echo(_sent(target, trial))
    echo(f"--- {_many(prepared.to_execute, 'trial')} would be executed; nothing was sent")


def _sent(target: Target, trial: Trial) -> str:
    """The prompt of a request, or why there is none."""
    from abreast.preflight.targets import render_request

    rendered = render_request(target, trial)
    return rendered.prompt if isinstance(rendered, Request) else f"({rendered.kind}: {rendered.message})"


def _sql_hint(result: Result) -> str:
    query = f"select * from predictions where run = '{result.run}'"
    return f'abreast sql {shlex.quote(store_argument.shown(result.store))} "{query}"'


def _where(result: Result) -> str:
    with open_store(result.store) as store:
        return store_argument.option(store)


def run_against_itself(experiment: Experiment, args: argparse.Namespace) -> int:
    """Execute the baseline twice under two names; a difference found is a fault of the set-up."""
    twins = experiment.against_itself()
    args.fresh = True  # answers of yesterday test nothing
    with contextlib.closing(twins.prepare(options_of(args))) as prepared:
        if not args.quiet:
            introduce(prepared)
        refuse_if_failed(prepared, args)
        ask(prepared, args.yes)
        result = _execute(prepared, args)
    code = conclude(result, args, "aa")
    if code:
        return code
    found = [comparison for comparison in result.analysis.comparisons if comparison.verdict.word in ("better", "worse")]
    if found:
        say("error: a difference was found where there is none: something favours one side (order, state, cache)")
        return 1
    few = [comparison.verdict.reason for comparison in result.analysis.comparisons if comparison.verdict.reason]
    say(f"  nothing found, but {few[0]}" if few else "  as it must be: nothing found between the baseline and itself")
    return 0
