"""Terminal output and prompts of the commands that execute trials."""

from __future__ import annotations

import argparse
import contextlib
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from abreast import suites
from abreast.analyse.decision import gates
from abreast.cli import resume_collector, store_argument
from abreast.cli.commands.run import options_of
from abreast.cli.reports import print_unmet, results_line, write_reports, write_results
from abreast.errors import BadInput, PreflightRefused
from abreast.experiment.ending import ending_lines, exit_code, judge_self_comparison, summary_of
from abreast.experiment.execution import RunExecution
from abreast.experiment.launch import progress_display
from abreast.experiment.stored import shown_params
from abreast.filenames import relative_path
from abreast.model import Request
from abreast.output import confirm, console, echo, is_interactive, listings, reserved_for_json, say, say_problem
from abreast.progress.displays import REPORT, EventFile, Preloader, Verbose
from abreast.report.formats import catalogue
from abreast.report.words.variant_figures import in_flight_line
from abreast.report.words.verdict_sentence import SIMULATED
from abreast.store import open_store
from abreast.store.address import display_address
from abreast.text import many

if TYPE_CHECKING:
    from abreast.analyse.decision.gates import Gate
    from abreast.execute.listener import Listener
    from abreast.experiment.facade import Experiment
    from abreast.experiment.options import Options
    from abreast.experiment.preparation import Prepared
    from abreast.experiment.result import Result
    from abreast.preflight.finding import Finding
    from abreast.preflight.questions import Series
    from abreast.view.serving import ViewProcess

_MARKS = {"pass": "✓", "note": "·", "warn": "!", "fail": "✗"}


def run_experiment(experiment: Experiment, args: argparse.Namespace, started: Options | None = None) -> int:
    """Run the checks and the trials, then print the verdict and write the reports."""
    required = gates.requirements([*experiment.spec.fail_if, *args.fail_if], args.on_inconclusive)
    catalogue.parse_names(args.format, not args.no_pictures)  # refuse unknown formats before the run
    if args.output and Path(args.output).exists() and not Path(args.output).is_dir():
        raise BadInput(f"--output {args.output}: not a folder", "name a folder; it is created if missing")
    with contextlib.closing(prepare(experiment, options_of(args, started), args)) as prepared:
        refuse_unknown_variants(required, prepared)
        if args.dry_run:
            dry_run(prepared)
            return 0
        if not args.quiet:
            print_plan(prepared)
        refuse_if_failed(prepared, args)
        consult(prepared, args)
        confirm_cost(prepared, args.yes)
        if not args.quiet:
            _print_reused(prepared)
        with _live_page(prepared, args) as page:
            result = _execute(prepared, args, page)
            code = report_result(result, args, required)
            if page and page[0].is_active and is_interactive() and not args.json:
                say("  the page stays open until you press Ctrl-C")
                page[0].wait()
    return code


def prepare(experiment: Experiment, options: Options, args: argparse.Namespace) -> Prepared:
    with reserved_for_json(args.json):
        return experiment.prepare(options)


@contextlib.contextmanager
def _live_page(prepared: Prepared, args: argparse.Namespace) -> Iterator[list[ViewProcess]]:
    """The process of the live page, if requested."""
    if not args.view:
        yield []
        return
    from abreast.view.serving import ViewProcess

    with contextlib.closing(ViewProcess(prepared.setup.store)) as page:
        yield [page]


def run_against_itself(experiment: Experiment, args: argparse.Namespace) -> int:
    """Compare the baseline with itself under two names; any difference is a fault in the setup."""
    args.fresh = True  # reused answers test nothing
    required = gates.requirements(args.fail_if, args.on_inconclusive)
    with contextlib.closing(prepare(experiment.against_itself(), options_of(args), args)) as prepared:
        if not args.quiet:
            print_plan(prepared)
        refuse_if_failed(prepared, args)
        confirm_cost(prepared, args.yes)
        result = _execute(prepared, args)
    code = report_result(result, args, required, "aa")
    if code:
        return code
    is_sound, sentence = judge_self_comparison(result.analysis)
    if is_sound:
        say(f"  {sentence}")
    else:
        say_problem("error", sentence)
    return int(not is_sound)


def refuse_unknown_variants(required: Sequence[Gate], prepared: Prepared) -> None:
    for gate in required:
        gates.check(gate, [variant.name for variant in prepared.setup.plan.variants])


def refuse_if_failed(prepared: Prepared, args: argparse.Namespace) -> None:
    """Refuse to run (exit code 4) if a check failed, before anything is spent.

    If a target is unusable, the error includes the advice of the suite.
    """
    by_target = any(finding.check == "targets" and finding.level == "fail" for finding in prepared.findings)
    with _suite_advice(args) if by_target else contextlib.nullcontext():
        prepared.refuse_if_failed()


@contextlib.contextmanager
def _suite_advice(args: argparse.Namespace) -> Iterator[None]:
    """Add the advice of a suite on how to run without an unusable target."""
    try:
        yield
    except PreflightRefused as error:
        advice = suites.advice(args.suite, args) if args.suite is not None else ""
        if not advice:
            raise
        raise PreflightRefused(error.message, f"{error.fix}; {advice}" if error.fix else advice) from error


def print_plan(prepared: Prepared) -> None:
    """Print the plan and the findings, without those that only `check` prints."""
    _print_plan(prepared)
    for finding in prepared.findings:
        if not finding.is_check_only:
            _print_finding(finding)
    _print_series(prepared.series)


def print_all_findings(prepared: Prepared, verbose: bool) -> None:
    """Print the plan and all findings, with details if `verbose`."""
    _print_plan(prepared)
    width = max(len(finding.check) for finding in prepared.findings) + 1
    for finding in prepared.findings:
        _print_finding(finding, width)
        for line in finding.details if verbose else ():
            say(f"    {' ' * width} {line}")
    _print_series(prepared.series)


def _print_finding(finding: Finding, width: int = 0) -> None:
    say(f"  {_MARKS[finding.level]} {f'{finding.check}:'.ljust(width)} {finding.message}")
    if finding.fix and finding.level != "pass":
        say(f"    help: {finding.fix}")


def _print_series(series: Series) -> None:
    if series.since is not None:
        say(f"  · series {series.number} begins: {series.why}; do not compare its scores with those of {series.since}")


def _print_plan(prepared: Prepared) -> None:
    plan = prepared.setup.plan
    if prepared.setup.is_simulated:
        say(f"  {SIMULATED}")
    done = prepared.done_before + len(prepared.reuses)
    say(
        f"  {prepared.setup.spec.name} · {many(len(plan.cases), 'case')} × {many(len(plan.variants), 'variant')} × "
        f"{many(plan.repeats, 'repeat')} = {many(len(plan), 'trial')} · {done:,} already done"
    )


def consult(prepared: Prepared, args: argparse.Namespace) -> None:
    """Ask the questions of the checks about changes and missing data. Without a terminal, continue without asking."""
    if not args.yes and (args.quiet or args.json or not is_interactive()):
        return
    for question in prepared.questions:
        continues = "no" if question.stops == "yes" else "yes"
        answer = continues if args.yes else "yes" if confirm(question.text) else "no"
        if answer == question.stops:
            for number, step in enumerate(question.steps, 1):
                say(f"  {number}. {step}")
            why = "stopped for the steps above" if question.steps else "the measured code changed"
            fix = "follow the steps, then run again" if question.steps else "check the code, then run again"
            raise PreflightRefused(f"{why}; nothing was executed or written", fix)
        prepared.record_answer(question, answer)


def confirm_cost(prepared: Prepared, yes: bool) -> None:
    """Ask before an expensive run."""
    if prepared.question is None or yes:
        return
    if not is_interactive():
        prepared.refuse_if_costly("use --yes to accept the cost, or --budget USD to cap it")
    if not confirm(f"{prepared.question}: continue?"):
        raise PreflightRefused("not confirmed; nothing was executed or written", "use --limit N to try a few cases")


def _print_reused(prepared: Prepared) -> None:
    if prepared.continues:
        broken = len(prepared.broken)
        repeated = f" (with {many(broken, 'failure')} that stopped it; --allow-failing keeps them)" if broken else ""
        say(f"  continuing {prepared.continues}: {many(prepared.to_execute, 'trial')} left{repeated}")
    elif prepared.reuses:
        failures = sum(reuse.failed for reuse in prepared.reuses)
        failed = f" ({many(failures, 'failure')}; --retry-failed executes them again)" if failures else ""
        say(
            f"  reusing {many(len(prepared.reuses), 'answer')} from earlier runs{failed}, executing "
            f"{prepared.to_execute:,} (--fresh executes all)"
        )


def _execute(prepared: Prepared, args: argparse.Namespace, others: Sequence[Listener] = ()) -> Result:
    import asyncio

    resume_collector()
    # a failed warm-up raises PreflightRefused
    with reserved_for_json(args.json), _open_listeners(prepared, args) as listeners, _suite_advice(args):
        result = asyncio.run(RunExecution(prepared, [*listeners, *others]).run())
    if result.in_flight.most and not args.quiet:
        say(f"  {in_flight_line(result.in_flight.asked, result.in_flight.mean, result.in_flight.most)}")
    return result


@contextlib.contextmanager
def _open_listeners(prepared: Prepared, args: argparse.Namespace) -> Iterator[list[Listener]]:
    with contextlib.ExitStack() as stack:
        listeners: list[Listener] = [Preloader(REPORT)]
        if args.events:
            listeners.append(stack.enter_context(contextlib.closing(EventFile(Path(args.events)))))
        if args.verbose:
            listeners.append(Verbose())
        elif not args.quiet:
            listeners.append(stack.enter_context(contextlib.closing(progress_display(prepared))))
        yield listeners


def report_result(result: Result, args: argparse.Namespace, required: Sequence[Gate], command: str = "run") -> int:
    """Write the reports, print the verdict and how the run ended, and return the exit code."""
    from abreast.report.formats.terminal import render

    analysis, pictures = result.analysis, not args.no_pictures
    unmet = gates.failures(required, analysis)
    report = write_reports(analysis, args.format, args.output, unmet, pictures, not args.no_artifacts)
    results = write_results(analysis, args.output, pictures)
    with open_store(result.store) as store:
        where = store_argument.option(store)
    if args.json:
        listings.show([summary_of(result, report, results)], True, "")
    else:
        terminal = console()
        terminal.print()
        terminal.print(render(analysis, where), crop=False)
        lines = [f"  report   {relative_path(report)}"] if report else []
        query = f"select * from predictions where run = '{result.run}'"
        rows = f'  rows     abreast sql {shlex.quote(display_address(str(result.store)))} "{query}"'
        for line in (*lines, *results_line(results), rows):
            terminal.print(line, soft_wrap=True)  # not cut, so that it can be copied
    for line in ending_lines(result, command, where):
        say(line)
    code = exit_code(result)
    return code if code > 1 else print_unmet(unmet) or code


def dry_run(prepared: Prepared) -> None:
    """Print the first request of each variant, without sending it."""
    from abreast.preflight.checks.targets import render_request

    print_plan(prepared)
    plan, targets = prepared.setup.plan, prepared.setup.targets
    for position in sorted(plan.dispatch(0)):
        trial = plan.trial(position)
        target = targets[position % len(targets)]
        params = ", ".join(f"{key}={value!r}" for key, value in shown_params(trial.variant).items())
        echo(f"--- {trial.variant.name} ({target.name}; {params}), case {trial.case.id}")
        request = render_request(target, trial)
        echo(request.prompt if isinstance(request, Request) else f"({request.kind}: {request.message})")
    echo(f"--- {many(prepared.to_execute, 'trial')} would be executed; nothing was sent")
